"""The report of a conflict as text, from the table that is also its JSON."""

from __future__ import annotations

import json
from typing import Any

from tools import files, rebase_state, transplant
from tools.project import Project

LINES = 12  # of a place, before the text says "and so on"; the JSON has all


def write(project: Project, facts: dict[str, Any]) -> str:
    """Write report.txt and report.json; return the text."""
    text = render(facts, project.short(rebase_state.tree(project)))
    folder = rebase_state.folder(project)
    files.write(folder / "report.json", json.dumps(facts, indent=1).encode() + b"\n")
    files.write(folder / "report.txt", text.encode(errors="replace"))
    return text


def render(facts: dict[str, Any], where: str) -> str:
    """Return the report a person reads."""
    head = (
        f"{facts['patch']} ({facts['subject']}), patch {facts['number']} of {facts['of']}, "
        f"from {facts['from']} to {facts['to']}: {facts['kind']}"
    )
    parts = [head]
    if facts["kind"] == transplant.MERGED:
        parts.append(f"  {facts['to']} holds all that it changes; nothing of it would be left.")
    for row in facts["files"]:
        parts += _file(row, facts, where)
    parts.append("\nNext:")
    parts += [f"  {number}. {line}" for number, line in enumerate(facts["commands"], 1)]
    return "\n".join(parts) + "\n"


def _file(row: dict[str, Any], facts: dict[str, Any], where: str) -> list[str]:
    parts = [f"\n{row['path']}: {row['state']}"]
    if row["gone_in"]:
        parts[0] += f"; upstream has it no longer in {row['gone_in']}"
    if row["now_at"]:
        parts.append(f"  it may now be {', '.join(row['now_at'])}")
    if row["marks"]:
        spots = ", ".join(f"{where}/{row['path']}:{line}" for line in row["marks"])
        parts.append(f"  to be resolved at {spots}")
    for hunk in row["hunks"]:
        parts += _hunk(hunk, facts)
    if row["other_patches"]:
        shown = ", ".join(f"{one['name']} ({one['order']})" for one in row["other_patches"])
        parts.append(f"  other patches on this file: {shown}")
    return parts


def _hunk(hunk: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    parts = [f"  hunk {hunk['number']} of {hunk['of']}: {hunk['header']}"]
    lines = hunk["lines"]
    parts += [f"    {line['number']}: {_fate(line)}: {line['text']}" for line in lines[:LINES]]
    if len(lines) > LINES:
        parts.append(f"    and {len(lines) - LINES} more lines (see report.json)")
    ours = hunk["ours"]
    if ours["added"]:
        at = f", at {_numbers(ours['at'])}" if ours["at"] else ""
        parts.append(
            f"    {ours['present']} of our {ours['added']} added lines stand in the file of "
            f"{facts['to']} already{at}"
        )
    if hunk["upstream"]:
        parts.append(f"    what became of this place by {facts['to']}:")
        shown = hunk["upstream"].rstrip("\n").split("\n")
        parts += [f"      {line}" for line in shown[: 3 * LINES]]
        if len(shown) > 3 * LINES:
            parts.append(f"      and {len(shown) - 3 * LINES} more lines (see report.json)")
    return parts


def _fate(line: dict[str, Any]) -> str:
    if line["owner"]:
        return f"written by {line['owner']}"
    if line["changed_by"]:
        return f"last in {line['last_seen']}, changed by {line['changed_by']}"
    return "unchanged by upstream" if line["last_seen"] else "upstream's"


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:6]))
    return f"line {shown}" + (" and on" if len(numbers) > 6 else "")  # noqa: PLR2004 - a line's room
