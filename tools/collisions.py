"""Where a patch and upstream changed the same place of a file."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from unidiff.patch import PatchSet

from tools.git import Git

RANGE = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
# git merges by histogram, and two diffs of one pair may place a change differently.
ALGORITHM = "--diff-algorithm=histogram"


@dataclass(frozen=True)
class Place:
    """One hunk of a patch that meets a change of upstream's."""

    number: int
    of: int
    header: str
    span: range  # lines of the file that the patch was made for
    added: tuple[str, ...]
    diff: str  # the hunk itself, below its header
    upstream: str  # upstream's own change of the place, as a diff


def places(git: Git, patch: str, ours: tuple[str, str], theirs: tuple[str, str]) -> list[Place]:
    """Return the hunks of a patch's diff of one file that collide.

    Each pair is the file before and after as blobs: by the patch, and by upstream.
    """
    hunks = list(PatchSet(io.StringIO(patch, newline=""))[0]) if patch else []
    mine = touched(_diff(git, *ours, context=0))
    other = touched(_diff(git, *theirs, context=0))
    upstream = _diff(git, *theirs, context=3)
    found: list[Place] = []
    for number, hunk in enumerate(hunks, 1):
        reach = range(hunk.source_start, hunk.source_start + max(hunk.source_length, 1))
        inside = [span for span in mine if meet(span, reach)]
        hit = [span for span in inside if any(meet(span, change) for change in other)]
        if not hit:
            continue
        whole = range(min(span.start for span in hit), max(span.stop for span in hit))
        # Lines put in stand nowhere in the old file: show the two they go between.
        shown_at = whole or range(max(whole.start - 1, 1), whole.start + 1)
        found.append(
            Place(
                number,
                len(hunks),
                str(hunk).partition("\n")[0],
                shown_at,
                tuple(line.value.rstrip("\n") for line in hunk if line.is_added),
                str(hunk).partition("\n")[2],
                around(upstream, whole),
            )
        )
    return found


def touched(diff: str) -> list[range]:
    """Return the old lines that each hunk of a diff without context replaces.

    An insertion replaces none: its range is empty, and starts at the line below it.
    """
    found: list[range] = []
    for match in RANGE.finditer(diff):
        start, count = int(match[1]), int(match[2] or 1)
        found.append(range(start, start + count) if count else range(start + 1, start + 1))
    return found


def meet(one: range, other: range) -> bool:
    """Say whether two spans share a line or touch: git calls either a conflict."""
    return one.start <= other.stop and other.start <= one.stop


def around(diff: str, span: range) -> str:
    """Return the hunks of a diff that touch some old lines."""
    kept: list[str] = []
    starts = [match.start() for match in RANGE.finditer(diff)]
    for start, end in zip(starts, [*starts[1:], len(diff)], strict=True):
        text = diff[start:end]
        match = RANGE.match(text)
        if match and meet(span, range(int(match[1]), int(match[1]) + int(match[2] or 1))):
            kept.append(text)
    return "".join(kept)


def present(added: tuple[str, ...], text: str) -> dict[int, int]:
    """Say on which lines of a file our lines stand already: index of ours to line number.

    Blank lines and lone brackets prove nothing, and are left out.
    """
    where: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        where.setdefault(line.strip(), number)
    return {
        index: where[line.strip()]
        for index, line in enumerate(added)
        if telling(line) and line.strip() in where
    }


def telling(line: str) -> bool:
    """Say whether a line is more than blanks and brackets."""
    return any(character.isalnum() for character in line)


def _diff(git: Git, before: str, after: str, *, context: int) -> str:
    if not before or not after or before == after:
        return ""
    flags = [ALGORITHM, f"--unified={context}", "--no-color", "--no-ext-diff", "--no-textconv"]
    return git.raw("diff", *flags, before, after).decode(errors="replace")
