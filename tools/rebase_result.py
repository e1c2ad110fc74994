"""What a finished rebase leaves: patches, series and lock for the new base, and reports."""

from __future__ import annotations

from pathlib import Path

from tools import files, patchfile, rangediff, rebase_state, series, stack, staging, transplant
from tools.errors import ToolError
from tools.git import Git
from tools.lock import Lock
from tools.project import Project
from tools.rebase_state import Done, Link, State
from tools.say import data

NEXT = (
    "clean says that the text merged and no more; read vendor/rebase/range-diff.txt, then `make "
    "rebase PROMOTE=1` (PROMOTE=line: beside the pin) checks and tests vendor/rebase/result, says "
    "where to correct what fails and moves the pin, or `make rebase ABORT=1` drops it"
)


def final(git: Git, state: State) -> list[Done]:
    """Return what became of each patch from the first base to the last."""
    start = _start(state)
    last = {row.name: row for row in state.done}
    found: list[Done] = []
    for link in start:
        row = last[link.name]
        notes = dict.fromkeys(one.note for one in state.done if one.name == link.name and one.note)
        status = transplant.classify(git, link.commit, row.new) if row.new else row.status
        found.append(Done(row.leg, link.name, status, link.commit, row.new, "; ".join(notes)))
    return found


def _start(state: State) -> list[Link]:
    """Return the series on the first base."""
    return [Link(row.name, row.old) for row in state.done if row.leg == 1]


def write(project: Project, git: Git, state: State) -> None:
    """Export the carried series; a folder that is there is whole."""
    rows = final(git, state)
    kept = [row for row in rows if row.new]
    commits = [stack.read_commit(git, row.new) for row in kept]
    patches = [
        (row.name, patchfile.write(stack.export_commit(git, commit)))
        for row, commit in zip(kept, commits, strict=True)
    ]
    chain = stack.build(git, state.target.commit, patches)
    if chain.tree != git.tree(state.tip):
        raise ToolError(
            "the exported patches do not give the tree they were made from; remove attributes "
            f"such as -diff or eol from .git/info/attributes of "
            f"{project.short(rebase_state.tree(project))}."
        )
    text = rangediff.text(git, _start(state), rows)
    files.write(rebase_state.folder(project) / "range-diff.txt", text.encode(errors="replace"))
    export(project, patches, order(project, state, rows), chain)


def export(project: Project, patches: list[tuple[str, bytes]], text: str, chain: Lock) -> None:
    """Replace the result by another state of the series."""
    draft = rebase_state.folder(project) / ".new-result"
    files.remove_tree(draft)
    staging.write(draft, patches, text, chain.text())
    files.remove_tree(rebase_state.result(project))
    draft.rename(rebase_state.result(project))


def order(project: Project, state: State, rows: list[Done]) -> str:
    """Return the series file; a retired patch leaves a line that says so."""
    listing = series.load(project).reordered([row.name for row in rows if row.new])
    for row in rows:
        if not row.new:
            where = state.bases[row.leg].version
            why = ", merged upstream" if row.status == transplant.MERGED else ""
            listing.below.append(f"# retired at {where}{why}: {row.name}")
    return listing.text()


def patches(folder: Path) -> list[tuple[str, bytes]]:
    """Read the patches of a result."""
    root = folder / "patches"
    return [
        (path.relative_to(root).as_posix(), path.read_bytes())
        for path in sorted(root.rglob("*.patch"))
    ]


def table(state: State) -> None:
    """Print what became of each patch on each release."""
    width = max((len(row.name) for row in state.done), default=0)
    for row in state.done:
        step = f"{state.bases[row.leg].version}  " if len(state.bases) > 2 else ""  # noqa: PLR2004
        data(f"{step}{row.name:<{width}}  {row.status}{f' ({row.note})' if row.note else ''}")
