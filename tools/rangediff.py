"""Compare two states of the series patch by patch, paired by file name."""

from __future__ import annotations

from tools.git import Git
from tools.rebase_state import Done, Link

# git pairs by likeness; the default calls a small patch that changed a drop and an add.
FACTOR = "--creation-factor=999"


def text(git: Git, first: list[Link], rows: list[Done]) -> str:
    """Return one section a patch: its name, what became of it, and the diff of diffs."""
    old = {link.name: link.commit for link in first}
    parts: list[str] = []
    for row in rows:
        parts.append(f"{row.name}: {row.status}{f' ({row.note})' if row.note else ''}\n")
        if not row.new:
            continue
        was = old[row.name]
        pair = [f"{was}^..{was}", f"{row.new}^..{row.new}"]
        shown = git.raw("range-diff", "--no-color", FACTOR, *pair).decode(errors="replace")
        head, _, body = shown.partition("\n")
        # " = " in the first line: the same patch; what it says then is no news.
        parts.append("" if " = " in head and not body.strip() else f"{shown.rstrip()}\n")
    return "\n".join(parts)
