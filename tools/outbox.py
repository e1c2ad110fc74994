"""The folder an extraction writes: whole or not at all, and never over somebody's edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools import files
from tools.errors import ConflictError
from tools.policy import Policy
from tools.project import Project

OUT = "out"
EVIDENCE = "evidence.json"
ITSELF = "evidence"  # in it: the hash of all else that it says


def folder(project: Project, policy: Policy, topic: str) -> Path:
    """Return where a topic goes; the pinned upstream's own has the plain name."""
    name = topic if policy.name == project.pin.project else f"{topic}-{policy.name}"
    return project.root / OUT / name


def contents(target: Path) -> dict[str, str]:
    """Return the hash of each file but the evidence, which names them."""
    return {
        path.relative_to(target).as_posix(): files.sha256(path)
        for path in sorted(target.rglob("*"))
        if path.is_file() and path != target / EVIDENCE
    }


def stop_if_edited(project: Project, target: Path) -> None:
    """Stop when the folder is not as the last extraction left it: a cover is there to be edited."""
    if not target.exists():
        return
    where = project.short(target)
    try:
        table = json.loads((target / EVIDENCE).read_bytes())
        known = table["files"] if table[ITSELF] == _hash(table) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        known = None
    there = contents(target)
    if known is None:
        there = {}  # who edited the evidence is told so, whatever else they edited
    if known != there:
        odd = sorted(set((known or {}).items()) ^ set(there.items()))
        raise ConflictError(
            f"{where}/{odd[0][0] if odd else EVIDENCE} is not as the last extract wrote it; move "
            f"{where} elsewhere, then run this again."
        )


def finish(draft: Path, found: dict[str, Any]) -> None:
    """Write the evidence, with the hashes of all other files."""
    table = {**found, "files": contents(draft)}
    table[ITSELF] = _hash(table)
    files.write(draft / EVIDENCE, (json.dumps(table, indent=1) + "\n").encode())


def _hash(table: dict[str, Any]) -> str:
    text = json.dumps({key: value for key, value in table.items() if key != ITSELF}, sort_keys=True)
    return files.digest({EVIDENCE: text.encode()})


def place(draft: Path, target: Path) -> None:
    """Let a finished folder take the place of the one before; a kill leaves one or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # The cache may be another file system: only the last step must be one.
    beside = target.with_name(f".{target.name}.draft")
    files.remove_tree(beside)
    _move(draft, beside)
    files.remove_tree(target)
    beside.rename(target)


def _move(source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")):
        if path.is_file():
            files.write(target / path.relative_to(source), path.read_bytes())
