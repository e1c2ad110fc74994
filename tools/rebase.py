"""Carry the series to another release, patch by patch, and stop at what needs a person."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools import (
    apply,
    candidate,
    carry,
    checkout,
    fetch,
    lines,
    lock,
    patchfile,
    pristine,
    promote,
    rebase_result,
    rebase_state,
    releases,
    stack,
    transplant,
)
from tools.errors import CONFLICT, OK, ConflictError, NothingToDoError, ToolError, UsageError
from tools.lock import Lock
from tools.project import Project
from tools.rebase_state import Link, State
from tools.say import data, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--upstream",
        metavar="VERSION",
        default="",
        help="a release, 'latest', or a commit or ref of upstream's repository (needs network)",
    )
    what.add_argument(
        "--continue", dest="go_on", action="store_true", help="go on after a stop or a kill"
    )
    what.add_argument("--abort", action="store_true", help="give the rebase up")
    parser.add_argument("--step", action="store_true", help="through every release on the way")
    parser.add_argument(
        "--no-reuse",
        action="store_true",
        help="stop also where a resolution is remembered, to look at it",
    )
    parser.add_argument(
        "--retire",
        metavar="PATCH",
        default="",
        help="with --continue: leave out the patch that stopped, since upstream has it",
    )
    parser.add_argument(
        "--promote",
        choices=(promote.PIN, promote.LINE),
        nargs="?",
        const=promote.PIN,
        help="when all is carried: check, build and test the result, then move the pin to it, or "
        "keep it as a line beside the series",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="a folder that holds the sdists (default: the index pip is set up for)",
    )


def run(project: Project, args: argparse.Namespace) -> int:
    stop_if_unfit(args)
    state = rebase_state.load(project) if not args.abort else None
    if args.abort:
        return abort(project)
    if args.upstream:
        state = begin(project, args, state)
    elif state is None:
        raise UsageError("no rebase is under way; begin one with `make rebase UPSTREAM=version`.")
    elif only_asks(args, state):
        return show(project, state)
    git = rebase_state.repository(project)
    if state.stop and state.stop.ready:
        if not args.go_on:
            return show(project, state)
        carry.resolve(project, git, state, args.retire)
    elif args.retire:
        raise UsageError(f"no patch waits, so {args.retire} cannot be retired; leave RETIRE out.")
    if not state.finished and not carry.walk(project, git, state):
        return CONFLICT
    if args.promote:
        return promote.run(project, state, args.source, args.promote)
    return OK


def only_asks(args: argparse.Namespace, state: State) -> bool:
    """Say whether a command decides nothing of the rebase that is under way."""
    if args.promote and not (state.finished or args.go_on):
        where = f"{state.stop.name} waits" if state.stop else "it was broken off"
        raise ConflictError(
            f"the rebase to {state.target.version} is not finished ({where}), so there is nothing "
            f"to promote; `make rebase` says what to do."
        )
    return not (args.promote or args.retire or (args.go_on and not state.finished))


def stop_if_unfit(args: argparse.Namespace) -> None:
    """Answer an option that would be without effect."""
    if (args.step or args.no_reuse) and not args.upstream:
        name = "STEP=1" if args.step else "REUSE=0"
        raise UsageError(f"{name} is for the beginning of a rebase; give UPSTREAM=version with it.")
    if args.retire and not args.go_on:
        raise UsageError("RETIRE= answers a stop; give CONTINUE=1 with it.")
    if args.promote and args.abort:
        raise UsageError("ABORT=1 drops what PROMOTE keeps; leave one of them out.")
    if args.source and not (args.upstream or args.promote):
        raise UsageError("FROM= is for UPSTREAM=version and PROMOTE; leave it out.")


def abort(project: Project) -> int:
    """Give up. Pristine trees and remembered resolutions stay for the next time."""
    candidate.stop_if_unsaved(project)
    there = rebase_state.begun(project)
    rebase_state.forget(project)
    say("rebase: given up; patches and pin are as they were" if there else "rebase: none to end")
    memory = rebase_state.tree(project) / ".git" / "rr-cache"
    if there and any(memory.glob("*/postimage*")):
        say(
            f"rebase: resolutions made by hand are kept, and taken again without a stop; begin "
            f"with REUSE=0 to stop at them, or delete {project.short(memory)} to forget them all"
        )
    return OK


def show(project: Project, state: State) -> int:
    """Say again where the rebase stands."""
    report = rebase_state.folder(project) / "report.txt"
    if state.finished:
        rebase_result.table(state)
        say(f"rebase: finished; {rebase_result.NEXT}")
        return OK
    if state.stop and state.stop.ready and report.is_file():
        data(report.read_text(encoding="utf-8").rstrip("\n"))
    else:
        say("rebase: broken off; go on with `make rebase CONTINUE=1`")
    return CONFLICT


def begin(project: Project, args: argparse.Namespace, state: State | None) -> State:
    """Import the pristine trees and the series; nothing of the project changes."""
    if state:
        go_on = "PROMOTE=1" if state.finished else "CONTINUE=1"
        raise ConflictError(
            f"a rebase to {state.target.version} is {'finished' if state.finished else 'under way'}"
            f"; go on with `make rebase {go_on}`, or give it up with `make rebase ABORT=1`."
        )
    folder = args.source.expanduser().absolute() if args.source else None
    if folder and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; FROM= takes one that holds the sdists.")
    way: list[releases.Release] = []
    if releases.is_version(args.upstream):
        offered = releases.known(project, folder)
        target = releases.choose(offered, args.upstream)
        way = releases.way(offered, project.pin.version, target) if args.step else [target]
        if target.version == project.pin.version:
            raise NothingToDoError(f"the pin is {target.version} already; nothing is to be done.")
        note_line(project, target.version)
    elif args.step:
        raise UsageError("STEP=1 goes from release to release; name a release or leave it out.")
    if checkout.exists(project):
        try:
            checkout.stop_if_unsaved(project, project.git, "")
        except ConflictError as error:
            say(f"note: what is in patches/ is carried, and no more: {error}")
    rebase_state.forget(project)
    git = rebase_state.repository(project)
    pristine.sweep(git)
    pin = project.pin
    patches = apply.read_patches(project)
    first = pristine.from_pin(git, pin, lambda: fetch.get(project, pin.sdist, folder))
    locked = lock.load(project.lock)
    try:
        chain = stack.build(git, first.commit, patches)
    except ToolError as error:
        raise ToolError(f"{transplant.CORRUPT}: {blamed(locked, patches, error)}") from None
    apply.compare(locked, chain)
    bases = [first]
    if way:
        bases += [
            pristine.from_release(git, release, releases.sdist(project, release, folder))
            for release in way
        ]
    else:
        bases.append(pristine.from_git(git, pin, args.upstream))
    links = [Link(step.name, step.commit) for step in chain.steps]
    state = State(bases, chain.series_id, links, reuse=not args.no_reuse)
    carry.keep(git, "start", chain.commit)
    rebase_state.save(project, state)
    return state


def note_line(project: Project, version: str) -> None:
    """Say that somebody has done it."""
    if version in lines.names(project):
        say(
            f"note: lines/{version} holds the series on it already (docs/lines.md says what ran): "
            f"`make build LINE={version}`"
        )


def blamed(locked: Lock, patches: list[tuple[str, bytes]], error: ToolError) -> str:
    """Name the patch that is not as it was, when a later one pays for it."""
    want = {step.name: step.sha256 for step in locked.steps}
    for name, content in patches:
        if want.get(name) != patchfile.digest(content):
            if name in str(error):
                break
            return (
                f"{name} is not the file that series.lock names, and so the series does not "
                f"apply; restore it with git checkout."
            )
    return str(error)
