"""Hold the hunks of a diff against the counts in their own headers.

``git apply`` believes the counts: lines past them are junk to it, and it drops them.
"""

from __future__ import annotations

import re

from tools.errors import ToolError

HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
FILE = b"diff --git "
BINARY = b"GIT binary patch"
# What may stand between 'diff --git' and the first hunk. Also the whole of a diff that
# changes only a mode or a name.
EXTENDED = (
    b"old mode ",
    b"new mode ",
    b"new file mode ",
    b"deleted file mode ",
    b"copy from ",
    b"copy to ",
    b"rename from ",
    b"rename to ",
    b"similarity index ",
    b"dissimilarity index ",
    b"index ",
    b"--- ",
    b"+++ ",
    b"Binary files ",
)
# By first byte, what a line of a body counts for: old lines and new ones.
BODY = {b" ": (1, 1), b"": (1, 1), b"-": (1, 0), b"+": (0, 1), b"\\": (0, 0)}

CURE = (
    "restore the file with git checkout, then commit the change in vendor/vllm "
    "and run `make refresh`"
)


def check(diff: bytes, name: str, above: int = 0) -> None:
    """Stop at the first line that no header accounts for; ``above`` lines stand before."""
    lines = diff.split(b"\n")[:-1]
    at, in_header = 0, False
    while at < len(lines):
        line = lines[at]
        hunk = HUNK.match(line)
        place = f"{name} is damaged at line {above + at + 1}"
        if hunk:
            at, in_header = _body(lines, at + 1, hunk, place), False
        elif line.startswith(FILE):
            at, in_header = at + 1, True
        elif in_header and line == BINARY:
            at = _next_file(lines, at)
        elif in_header and line.startswith(EXTENDED):
            at += 1
        elif _is_signature(lines[at:]):
            return
        else:
            text = line.decode(errors="replace")
            raise ToolError(f"{place}: {text!r} is no part of a diff; {CURE}.")


def _body(lines: list[bytes], at: int, hunk: re.Match[bytes], place: str) -> int:
    """Return where the body of a hunk ends, which begins at a line."""
    want = tuple(1 if count is None else int(count) for count in hunk.groups())
    have = (0, 0)
    # A body's own lines may look like headers or a signature: the counts decide.
    while have != want and at < len(lines) and lines[at][:1] in BODY:
        have, at = _count(have, lines[at]), at + 1
    while at < len(lines) and lines[at].startswith(b"\\"):
        at += 1
    rest = lines[at:]
    if have == want and not (rest and rest[0][:1] in BODY and not _is_signature(rest)):
        return at
    while at < len(lines) and lines[at][:1] in BODY and not _is_signature(lines[at:]):
        have, at = _count(have, lines[at]), at + 1
    raise ToolError(
        f"{place}: the hunk {hunk[0].decode()!r} counts {want[0]} old and {want[1]} new lines, "
        f"its body holds {have[0]} and {have[1]}; {CURE}."
    )


def _count(have: tuple[int, int], line: bytes) -> tuple[int, int]:
    old, new = BODY[line[:1]]
    return have[0] + old, have[1] + new


def _next_file(lines: list[bytes], at: int) -> int:
    while at < len(lines) and not lines[at].startswith(FILE):
        at += 1
    return at


def _is_signature(lines: list[bytes]) -> bool:
    """Say whether only a mail's signature is left, as ``git format-patch`` ends a mail."""
    text = [line for line in lines[1:] if line]
    # Without text it is a removed line, '- '.
    return (
        lines[0] == b"-- "
        and bool(text)
        and not any(line.startswith((FILE, b"@", b"+", b"-", b" ")) for line in text)
    )
