"""The ``series`` file: which patches, in which order, with which comments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.errors import ToolError
from tools.project import Project

ENTRY = re.compile(r"(?P<name>[^\s#]+)(?P<rest>(\s+#.*)?)\Z")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*\.patch\Z")


@dataclass
class Entry:
    """One patch, with the comment lines that stand above it."""

    name: str
    rest: str = ""
    above: list[str] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return self.name.partition("/")[0]


@dataclass
class Series:
    """The parsed file. The header is every line up to the first blank one."""

    header: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    below: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.entries]

    def text(self) -> str:
        lines = list(self.header)
        for entry in self.entries:
            lines += [*entry.above, entry.name + entry.rest]
        return "".join(line + "\n" for line in [*lines, *self.below])

    def reordered(self, names: list[str]) -> Series:
        """Return the same file for another list; each comment stays with its patch.

        The comments of a dropped patch move to the next one of its topic, so that a
        topic keeps its heading when its first patch goes.
        """
        old = {entry.name: entry for entry in self.entries}
        orphans: dict[str, list[str]] = {}
        kept = set(names)
        result = Series(header=list(self.header), below=list(self.below))
        for entry in self.entries:
            if entry.name not in kept and entry.above:
                orphans.setdefault(entry.topic, []).extend(entry.above)
        for name in names:
            was = old.get(name)
            entry = Entry(name, was.rest, list(was.above)) if was else Entry(name)
            if was:
                entry.above = orphans.pop(entry.topic, []) + entry.above
            result.entries.append(entry)
        return result


def parse(text: str, where: str = "series") -> Series:
    """Parse quilt's syntax, less its per-patch options."""
    if "\r" in text:
        raise ToolError(f"{where} has Windows line endings; save it with plain newlines.")
    if text and not text.endswith("\n"):
        raise ToolError(f"{where} does not end with a newline; add one.")
    lines = text.splitlines()
    series = Series()
    # The file's own header ends at the first blank line, if no patch comes before it.
    for number, line in enumerate(lines):
        if not line.strip():
            series.header, lines = lines[: number + 1], lines[number + 1 :]
            break
        if not line.startswith("#"):
            break
    pending: list[str] = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            pending.append(line)
            continue
        match = ENTRY.match(line.rstrip())
        if not match:
            raise ToolError(
                f"{where}: cannot read {line!r}; a line is one patch name, "
                f"options such as -p0 are not supported."
            )
        series.entries.append(Entry(match["name"], match["rest"], pending))
        pending = []
    series.below = pending
    return series


def check_names(names: list[str], where: str = "series") -> None:
    """Refuse names that cannot be told apart or would leave the folder."""
    seen: set[str] = set()
    for name in names:
        if not NAME.match(name):
            raise ToolError(
                f"{where}: {name!r} is not of the form topic/name.patch "
                f"in lower-case letters, digits, '.', '_' and '-'; rename it."
            )
        if name in seen:
            raise ToolError(f"{where} names {name} twice; delete one of the lines.")
        seen.add(name)


def load(project: Project) -> Series:
    """Read the project's series."""
    where = project.short(project.series)
    try:
        text = project.series.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ToolError(f"{where} is missing; restore it with git checkout.") from None
    series = parse(text, where)
    check_names(series.names, where)
    return series
