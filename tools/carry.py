"""Carry a series patch by patch; stop where a person must decide, and take what they made."""

from __future__ import annotations

from tools import (
    conflict_report,
    conflict_text,
    rebase_result,
    rebase_state,
    scene,
    stack,
    transplant,
)
from tools.errors import ConflictError, UsageError
from tools.git import Git
from tools.pristine import Base
from tools.project import Project
from tools.rebase_state import Done, Link, State, Stop
from tools.say import data, say

BY_HAND = "resolved by hand"
AS_BEFORE = "resolved as it was before"


def keep(git: Git, name: str, commit: str) -> None:
    """Hold a commit by a ref, so that no collector of garbage takes it."""
    git.raw("update-ref", "--create-reflog", f"refs/rebase/{name}", commit)


def walk(project: Project, git: Git, state: State) -> bool:
    """Carry what is left; say whether all of it went."""
    while True:
        base = state.bases[state.leg]
        for link in state.chain[len(state.here) :]:
            if not one(project, git, state, link):
                return False
        if state.leg + 1 < len(state.bases):
            say(f"{base.version}: {len(state.here)} patches")
            state.chain = [Link(row.name, row.new) for row in state.here if row.new]
            state.leg += 1
            rebase_state.save(project, state)
            continue
        rebase_result.write(project, git, state)
        state.finished = True
        rebase_state.save(project, state)
        rebase_result.table(state)
        say(f"rebase: {base.version} reached; {rebase_result.NEXT}")
        return True


def one(project: Project, git: Git, state: State, link: Link) -> bool:
    """Carry one patch, or stop at it."""
    onto = state.tip
    outcome = transplant.merge(git, link.commit, onto)
    if outcome.conflicts:
        gone = [
            path
            for path in outcome.conflicts
            if git.blob(f"{link.commit}^", path) and not git.blob(onto, path)
        ]
        kind = transplant.DELETED if gone else transplant.CONFLICT
        return halt(project, git, state, link, kind, list(outcome.conflicts))
    if outcome.tree == git.tree(onto):
        return halt(project, git, state, link, transplant.MERGED, [])
    settle(project, git, state, link, outcome.tree)
    return True


def settle(
    project: Project,
    git: Git,
    state: State,
    link: Link,
    tree: str,
    message: str = "",
    note: str = "",
) -> None:
    """Record a carried patch: from here on a kill does not lose it."""
    new = transplant.commit(git, link.commit, tree, state.tip, message)
    keep(git, f"tip-{state.leg}", new)
    status = transplant.classify(git, link.commit, new)
    state.done.append(Done(state.leg, link.name, status, link.commit, new, note))
    if note == BY_HAND:
        # The folder holds just this commit now: what differs from it later is unsaved work.
        state.worktree = new
    state.stop = None
    rebase_state.save(project, state)


def halt(
    project: Project, git: Git, state: State, link: Link, kind: str, conflicts: list[str]
) -> bool:
    """Set the scene for a person; say whether it resolved itself as it did before."""
    if not state.stop:
        scene.guard(project, git, state)
        # Until it is ready the scene is this program's, and made anew after a kill.
        state.stop = Stop(link.name, kind)
        rebase_state.save(project, state)
    onto = state.tip
    known = scene.prepare(git, link.commit, onto, pick=kind != transplant.MERGED)
    if known and state.reuse:
        tree = scene.take(project, git, onto, conflicts).tree
        if tree != git.tree(onto):
            say(f"{link.name}: resolved as it was before; look at the range-diff")
            settle(project, git, state, link, tree, note=AS_BEFORE)
            return True
    text = conflict_text.write(project, conflict_report.facts(project, git, state, conflicts))
    state.stop.ready = True
    state.worktree = ""
    rebase_state.save(project, state)
    data(text.rstrip("\n"))
    return False


def resolve(project: Project, git: Git, state: State, retire: str) -> None:
    """Take over what a person made of the patch that stopped."""
    stop = state.stop
    assert stop  # noqa: S101 - for mypy; the caller looked
    link = state.chain[len(state.here)]
    onto = state.tip
    if retire:
        if retire != link.name:
            raise UsageError(f"{retire} is not the patch that waits, which is {link.name}.")
        base: Base = state.bases[state.leg]
        # Left out with work of its own is another thing than left out because it is there.
        status = transplant.MERGED if stop.kind == transplant.MERGED else transplant.RETIRED
        note = f"retired at {base.version}" if status == transplant.MERGED else base.version
        state.done.append(Done(state.leg, link.name, status, link.commit, "", note))
        state.stop = None
        rebase_state.save(project, state)
        return
    made = scene.take(project, git, onto, transplant.paths(git, link.commit))
    if made.tree == git.tree(onto):
        raise ConflictError(
            f"nothing of {link.name} is left; if {state.bases[state.leg].version} has it, run "
            f"`make rebase CONTINUE=1 RETIRE={link.name}`, else edit the files again."
        )
    message = stack.TRAILER_LINE.sub("", made.message)
    message = stack.with_name(message, link.name) if message else ""
    settle(project, git, state, link, made.tree, message, BY_HAND)
