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
    if facts["before"]:
        parts.append(f"  before it: {_before(facts['before'])}")
    if facts["kind"] == transplant.MERGED:
        parts.append(f"  {facts['to']} holds all that it changes; nothing of it would be left.")
    for row in facts["files"]:
        parts += _file(row, facts, where)
    if any(row["marks"] for row in facts["files"]):
        parts.append(
            f"\nIn a conflict HEAD is {facts['to']} with the patches before, the middle part the "
            f"series on {facts['from']},\nthe last part this patch there."
        )
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
        parts.append(f"  to be resolved: {where}/{row['path']}, {_numbers(row['marks'])}")
    if row["remembered"]:
        path = row["path"]
        parts.append(
            f"  resolved as it was before, so {where}/{path} holds no marks; look at it, or make "
            f"the conflict anew:\n  git -C {where} rerere forget {path} && "
            f"git -C {where} checkout --merge {path}"
        )
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
    parts += _diff("what the patch does there:", hunk["patch"])
    if ours["added"]:
        at = f", at {_numbers(ours['at'])}" if ours["at"] else ""
        parts.append(
            f"    {ours['present']} of our {ours['added']} added lines stand in the file of "
            f"{facts['to']} already{at}"
        )
    if hunk["upstream"]:
        parts += _diff(f"what became of this place by {facts['to']}:", hunk["upstream"])
    return parts


def _diff(title: str, text: str) -> list[str]:
    shown = text.rstrip("\n").split("\n")
    parts = [f"    {title}", *(f"      {line}" for line in shown[: 3 * LINES])]
    if len(shown) > 3 * LINES:
        parts.append(f"      and {len(shown) - 3 * LINES} more lines (see report.json)")
    return parts


def _before(rows: list[dict[str, Any]]) -> str:
    """Count the patches that are as they were, and name the others."""
    clean = sum(row["status"] == transplant.CLEAN and not row["note"] for row in rows)
    parts = [f"{clean} clean"] if clean else []
    parts += [
        f"{', '.join(filter(None, (row['status'], row['note'])))}: {row['name']}"
        for row in rows
        if row["status"] != transplant.CLEAN or row["note"]
    ]
    return "; ".join(parts)


def _fate(line: dict[str, Any]) -> str:
    if line["owner"]:
        return f"written by {line['owner']}"
    if line["changed_by"]:
        return f"last in {line['last_seen']}, changed by {line['changed_by']}"
    return "unchanged by upstream" if line["last_seen"] else "upstream's"


def _numbers(numbers: list[int]) -> str:
    word = "line" if len(numbers) == 1 else "lines"
    shown = ", ".join(map(str, numbers[:6]))
    return f"{word} {shown}" + (" and on" if len(numbers) > 6 else "")  # noqa: PLR2004 - a line's room
