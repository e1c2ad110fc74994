"""What is known of a conflict: the facts as one table, which JSON and text both show."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

from tools import blame, collisions, pristine, rebase_state, scene, stack, transplant
from tools.git import Git
from tools.pristine import Base
from tools.project import Project
from tools.rebase_state import Link, State

SHOWN = 40  # lines of a place that are blamed; more say no more


def facts(project: Project, git: Git, state: State, conflicts: list[str]) -> dict[str, Any]:
    """Gather the report of the patch that stops a rebase."""
    stop = state.stop
    assert stop  # noqa: S101 - for mypy; the caller stops
    names = [link.name for link in state.chain]
    link = state.chain[names.index(stop.name)]
    bases = state.bases[state.leg - 1 : state.leg + 1]
    mapped = pristine.between(git, *bases)
    return {
        "schema": rebase_state.SCHEMA,
        "patch": link.name,
        "subject": stack.read_commit(git, link.commit).subject,
        "number": names.index(link.name) + 1,
        "of": len(names),
        "from": bases[0].version,
        "to": bases[1].version,
        "kind": stop.kind,
        "before": [
            {"name": row.name, "status": row.status, "note": row.note} for row in state.here
        ],
        "files": [
            _file(git, state, link, path, mapped, conflicting=path in conflicts)
            for path in (conflicts or transplant.paths(git, link.commit))
        ],
        "commands": commands(project, link.name, stop.kind, conflicts),
    }


def _file(
    git: Git, state: State, link: Link, path: str, bases: list[Base], *, conflicting: bool
) -> dict[str, Any]:
    old = link.commit
    parent, onto = f"{old}^", state.tip
    before, mine, now = (git.blob(commit, path) or "" for commit in (parent, old, onto))
    first = [one for one in state.chain if one.name != link.name]
    order = [one.name for one in state.chain]
    row: dict[str, Any] = {
        "path": path,
        "state": _what(before, mine, now),
        "gone_in": "",
        "now_at": [],
        "marks": _marks(git, path),
        "hunks": [],
        "other_patches": [
            {
                "name": one.name,
                "order": "before" if order.index(one.name) < order.index(link.name) else "after",
            }
            for one in first
            if path in transplant.paths(git, one.commit)
        ],
    }
    # git has taken a resolution that it remembers: nothing in the file shows the conflict.
    row["remembered"] = conflicting and path not in scene.unmerged(git)
    if row["state"] == "deleted":
        row["gone_in"] = _gone(git, path, bases)
        row["now_at"] = likely(git, parent, onto, path)
    patch = git.raw("diff-tree", *stack.DIFF_FLAGS, parent, old, "--", path)
    now_text = _text(git, now)
    spots = collisions.places(git, patch.decode(errors="replace"), (before, mine), (before, now))
    for place in spots:
        there = collisions.present(place.added, now_text)
        span = place.span
        lines = _blamed(git, state, parent, path, span, bases)
        row["hunks"].append(
            {
                "number": place.number,
                "of": place.of,
                "header": place.header,
                "lines": [asdict(line) for line in lines],
                "patch": place.diff,
                "upstream": place.upstream,
                "ours": {
                    "added": sum(map(collisions.telling, place.added)),
                    "present": len(there),
                    "at": sorted(set(there.values())),
                },
            }
        )
    return row


def _what(before: str, mine: str, now: str) -> str:
    if before and not now:
        return "deleted"  # or moved, by upstream
    if not before and now:
        return "added by both"
    if before and not mine:
        return "deleted by the patch"
    return "changed by both"


def _blamed(
    git: Git, state: State, parent: str, path: str, span: range, bases: list[Base]
) -> list[blame.Line]:
    count = _text(git, git.blob(parent, path) or "").count("\n")
    inside = range(max(span.start, 1), min(span.stop, count + 1, span.start + SHOWN))
    return blame.lines(git, git.out("rev-parse", parent), path, inside, bases, state.chain)


def _gone(git: Git, path: str, bases: list[Base]) -> str:
    """Return the first base that lacks a file the one before it has."""
    for before, after in itertools.pairwise(bases):
        if git.blob(before.commit, path) and not git.blob(after.commit, path):
            return after.version
    return ""


def likely(git: Git, old: str, new: str, path: str) -> list[str]:
    """Return where upstream may have taken a file: by its content, loosely."""
    rows = git.zlist("diff-tree", "-r", "-z", "-M30%", "--diff-filter=R", "--name-status", old, new)
    triples = zip(rows[::3], rows[1::3], rows[2::3], strict=False)
    return [f"{target} ({mark[1:].lstrip('0')}% alike)" for mark, source, target in triples
            if source == path]  # fmt: skip


def _marks(git: Git, path: str) -> list[int]:
    file = git.work_tree / path if git.work_tree else None
    if not file or not file.is_file():
        return []
    return scene.marks(file.read_text(encoding="utf-8", errors="replace"))


def _text(git: Git, blob: str) -> str:
    return git.raw("cat-file", "blob", blob).decode(errors="replace") if blob else ""


def commands(project: Project, name: str, kind: str, conflicts: list[str]) -> list[str]:
    """Return the commands that can come next."""
    where = project.short(rebase_state.tree(project))
    line = f" LINE={project.root.name}" if project.outer else ""
    add = f"git -C {where} add"
    go_on, abort = f"make rebase CONTINUE=1{line}", f"make rebase ABORT=1{line}"
    if kind == transplant.MERGED:
        edit = f"{add} FILE, then {go_on} (edit it there first, if some of the patch is needed)"
        return [f"{go_on} RETIRE={name}", edit, f"{abort} (to give the whole rebase up)"]
    edit = f"{add} {' '.join(conflicts)} (once edited; git rm for a file that is to go)"
    retire = f"{go_on} RETIRE={name} (instead, to leave the patch out)"
    return [edit, go_on, retire, f"{abort} (to give the whole rebase up)"]
