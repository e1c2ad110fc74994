"""How much of upstream's own files a patch touches: what a rebase has to carry."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from unidiff.patch import PatchedFile, PatchSet

from tools import patchfile

# The block of imports is where most patches meet: a line there collides with anybody's.
IMPORT = re.compile(r"(from \S+ )?import\b|from \S+ import\b")


@dataclass(frozen=True)
class Surface:
    """One patch, or the sum of several."""

    new_files: int = 0
    new_lines: int = 0
    upstream_files: int = 0
    upstream_hunks: int = 0
    upstream_lines: int = 0
    import_lines: int = 0

    def __add__(self, other: Surface) -> Surface:
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return Surface(*(a + b for a, b in pairs))


NAMES = tuple(field.name for field in fields(Surface))


def of(files: list[tuple[str, bytes]]) -> dict[str, Surface]:
    """Measure the patches of a series, in order; what an earlier one made is not upstream's."""
    ours: set[str] = set()
    found: dict[str, Surface] = {}
    for name, content in files:
        diff = patchfile.read(content, name).diff.decode(errors="replace")
        parts: list[Surface] = []
        for file in PatchSet(io.StringIO(diff, newline="")):
            if file.is_added_file:
                ours.add(file.path)
                parts.append(Surface(new_files=1, new_lines=file.added))
            elif file.path in ours:
                parts.append(Surface(new_lines=file.added - file.removed))
            else:
                parts.append(_upstream(file))
        found[name] = total(parts)
    return found


def total(parts: Iterable[Surface]) -> Surface:
    return sum(parts, Surface())


def _upstream(file: PatchedFile) -> Surface:
    lines = [line.value for hunk in file for line in hunk if line.is_added or line.is_removed]
    return Surface(
        upstream_files=1,
        upstream_hunks=_changes(file),
        upstream_lines=len(lines),
        import_lines=sum(bool(IMPORT.match(line)) for line in lines),
    )


def _changes(file: PatchedFile) -> int:
    """Count the places, apart by at least a line; a hunk of a diff may hold several."""
    count = 0
    for hunk in file:
        inside = False
        for line in hunk:
            count += not inside and not line.is_context
            inside = not line.is_context
    return max(count, 1)
