"""The work tree in which a person resolves what a merge could not."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from tools import checkout, rebase_state, stack
from tools.errors import ConflictError, ToolError
from tools.git import Git
from tools.project import Project
from tools.rebase_state import State

MARK = re.compile(r"^(<{7} |\|{7} |>{7} )")


@dataclass(frozen=True)
class Resolved:
    """What the person made of it."""

    tree: str
    message: str  # empty: the patch's own


def guard(project: Project, git: Git, state: State) -> None:
    """Stop before the work tree is set anew when it holds edits nobody saved."""
    if not state.worktree:
        return
    _calm(git)
    # A kill may have come between the commit and moving HEAD: same files either way.
    git.raw("reset", "--soft", state.worktree)
    edited, untracked = checkout.dirty(git)
    where = project.short(rebase_state.tree(project))
    if edited or untracked:
        raise ConflictError(
            f"{where} has edits in {(edited + untracked)[0]} that belong to no patch in hand; "
            f"keep them with `git -C {where} stash -u`, then run `make rebase CONTINUE=1`."
        )


def prepare(git: Git, old: str, onto: str, *, pick: bool) -> bool:
    """Set the work tree to a conflict; say whether all of it was resolved as before."""
    (git.git_dir / "index.lock").unlink(missing_ok=True)  # a killed git's: we are alone here
    _calm(git)
    git.raw("update-ref", "--no-deref", "HEAD", onto)
    git.raw("reset", "--hard", "--quiet", onto)
    git.raw("clean", "-d", "-f", "-f", "-q")
    if not pick:
        return False
    # Not --no-commit: a user's own `git commit` there then has the patch's message.
    done = git.call("cherry-pick", "--keep-redundant-commits", old)
    if done.returncode > 1:
        raise ToolError(f"git cannot merge ({done.stderr.decode(errors='replace').strip()}).")
    return not unmerged(git)


def _calm(git: Git) -> None:
    """End what git itself waits for, leaving index and files alone."""
    for verb in ("cherry-pick", "revert", "am", "rebase"):
        with contextlib.suppress(ToolError):
            git.call(verb, "--quit")


def unmerged(git: Git) -> list[str]:
    """Return the paths that are still in conflict."""
    rows = git.zlist("ls-files", "--unmerged", "-z")
    return list(dict.fromkeys(row.partition("\t")[2] for row in rows))


def marks(text: str) -> list[int]:
    """Return the lines on which a conflict begins."""
    return [
        number for number, line in enumerate(text.split("\n"), 1) if line.startswith("<<<<<<< ")
    ]


def take(project: Project, git: Git, onto: str, paths: list[str]) -> Resolved:
    """Read the resolution from the work tree, or say what is still missing."""
    where = project.short(rebase_state.tree(project))
    open_paths = unmerged(git)
    if open_paths:
        raise ConflictError(
            f"{open_paths[0]} is still in conflict; edit it, then run "
            f"`git -C {where} add {open_paths[0]}` (or `rm`), then `make rebase CONTINUE=1`."
        )
    rows = git.zlist("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    loose = [row[3:] for row in rows if row[1] != " "]
    if loose:
        raise ConflictError(
            f"{loose[0]} in {where} has edits that were not added; run `git -C {where} add "
            f"{loose[0]}` (or delete it), then `make rebase CONTINUE=1`."
        )
    head = str(git.resolve("HEAD"))
    message = ""
    if head == onto:
        git.call("rerere")  # remembers the resolution for the next time
        tree = git.out("write-tree")
    elif git.resolve(f"{head}^") == onto and not rows:
        tree, message = git.tree(head), stack.read_commit(git, head).message
    else:
        raise ConflictError(
            f"HEAD of {where} is {head[:10]}, but the patch is to be one commit on {onto[:10]}; "
            f"run `git -C {where} reset --soft {onto[:10]}`, then `make rebase CONTINUE=1`."
        )
    for path in paths:
        blob = git.blob(tree, path)
        text = git.raw("cat-file", "blob", blob).decode(errors="replace") if blob else ""
        for number, line in enumerate(text.split("\n"), 1):
            if MARK.match(line):
                raise ConflictError(
                    f"{Path(where) / path}:{number} still holds a conflict marker; remove it, "
                    f"run `git -C {where} add {path}`, then `make rebase CONTINUE=1`."
                )
    return Resolved(tree, message)
