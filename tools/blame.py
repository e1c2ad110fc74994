"""Who changed a line: forwards, from a patched tree through the releases after it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools import pristine
from tools.git import Git
from tools.pristine import Base
from tools.rebase_state import Link

HEAD = re.compile(r"(?P<commit>[0-9a-f]{40}) (?P<there>\d+) (?P<here>\d+)")


@dataclass(frozen=True)
class Line:
    """A line of the tree a patch was made for, and what upstream did to it."""

    number: int
    text: str
    owner: str  # empty: upstream's; else the earlier patch that wrote it
    pristine: int  # its number in the pristine file, 0 when a patch wrote it
    last_seen: str  # the last release, or commit, that has it
    changed_by: str  # the next one; empty: it is still there


def lines(
    git: Git, at: str, path: str, span: range, bases: list[Base], chain: list[Link]
) -> list[Line]:
    """Blame some lines of a file in a commit of the old series."""
    if not span:
        return []
    owners = {link.commit: link.name for link in chain}
    rows = _porcelain(git, path, [span], at)
    known = {link.commit for link in chain}
    wanted = sorted(there for commit, there, _, _ in rows if commit not in known)
    fate = _fate(git, path, wanted, bases)
    found: list[Line] = []
    for commit, there, here, text in rows:
        owner = owners.get(commit, "")
        last, changed = ("", "") if owner else fate.get(there, ("", ""))
        found.append(Line(here, text, owner, 0 if owner else there, last, changed))
    return found


def _porcelain(
    git: Git, path: str, spans: list[range], *revision: str
) -> list[tuple[str, int, int, str]]:
    """Return (commit, line there, line here, text) of some lines."""
    where = [f"-L{span.start},{span.stop - 1}" for span in spans]
    done = git.raw("blame", "--line-porcelain", *where, *revision, "--", path)
    text = done.decode(errors="replace")
    found: list[tuple[str, int, int, str]] = []
    head: re.Match[str] | None = None
    for line in text.split("\n"):
        if line.startswith("\t") and head:
            found.append((head["commit"], int(head["there"]), int(head["here"]), line[1:]))
        head = HEAD.match(line) or head
    return found


def _fate(git: Git, path: str, numbers: list[int], bases: list[Base]) -> dict[int, tuple[str, str]]:
    """Say of pristine lines which release has each last, and which no longer has it."""
    if not numbers:
        return {}
    known = pristine.history(git, bases)
    names = {commit: name for name, commit in known}
    first, last = known[0][1], known[-1][1]
    if git.blob(first, path) != git.blob(bases[0].commit, path):
        return {}  # the tag is not what was released: its lines have other numbers
    spans = [range(number, number + 1) for number in numbers]
    found: dict[int, tuple[str, str]] = {}
    for commit, _, here, _ in _porcelain(git, path, spans, "--reverse", f"{first}..{last}"):
        after = "" if commit == last else _next(git, commit, last)
        found[here] = (
            names.get(commit, commit[:10]),
            names.get(after, after[:10]) if after else "",
        )
    return found


def _next(git: Git, commit: str, last: str) -> str:
    """Return the commit after one, on the way to another."""
    walk = git.out("rev-list", "--ancestry-path", "--reverse", f"{commit}..{last}")
    return walk.partition("\n")[0]
