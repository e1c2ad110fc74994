"""Check everything about the series that can be checked without a GPU."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tools import (
    apply,
    checkout,
    drift,
    environment,
    fetch,
    headers,
    lock,
    patchfile,
    pick,
    prefixes,
    quilt,
    series,
    stack,
    upstream,
)
from tools import git as gitlib
from tools.environment import Environment
from tools.errors import FINDINGS, OK, ToolError
from tools.git import Git
from tools.headers import Context
from tools.lock import Lock, Step
from tools.project import Project
from tools.say import data, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env",
        type=Path,
        metavar="DIR",
        help="the environment for the import check (default: the one `make env` makes)",
    )
    parser.add_argument(
        "--no-import", action="store_true", help="leave the import check out, knowingly"
    )
    parser.add_argument(
        "--no-quilt", action="store_true", help="leave the second engine out, knowingly"
    )


@dataclass
class State:
    """What the checks share."""

    project: Project
    git: Git
    base: str
    findings: list[str] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    broken: bool = False

    @property
    def chain(self) -> Lock:
        return Lock(self.git.tree(self.base), self.base, tuple(self.steps))


def run(project: Project, args: argparse.Namespace) -> int:
    env = environment.given(project, args.env)
    with tempfile.TemporaryDirectory(prefix="series-verify-") as scratch:
        git = repository(project, Path(scratch))
        state = State(project, git, upstream_base(project, git))
        note(project)
        listed(state)
        applied(state)
        locked(state)
        if not state.broken:
            state.findings += pick.alone(git, state.base, state.files)
            second_engine(state, skip=args.no_quilt)
            compiled(state, env, skip=args.no_import)
    for finding in state.findings:
        data(finding)
    say(f"verify: {len(state.steps)} patches, {len(state.findings)} findings")
    return FINDINGS if state.findings else OK


def repository(project: Project, scratch: Path) -> Git:
    """Return the checkout's object store, or a scratch one when there is no checkout."""
    if checkout.exists(project):
        return project.git
    return gitlib.init(scratch, checkout.BRANCH)


def upstream_base(project: Project, git: Git) -> str:
    """Return the pristine commit; its tree id is the pin's or this stops."""
    known = git.resolve(upstream.BASE_REF)
    if known and git.tree(known) == project.pin.base_tree:
        return known
    sdist = fetch.get(project, project.pin.sdist)
    say(f"there is no checkout: unpacking {sdist.name}, up to a minute")
    return upstream.import_base(git, sdist, project.pin)


def note(project: Project) -> None:
    """Say of what in the checkout nothing here is checked: what counts is patches/."""
    if project.lock.is_file() and checkout.exists(project):
        try:
            found = drift.text(project.git, lock.load(project.lock))
        except ToolError:
            return  # a finding, once the series is held against it
        if found:
            say(f"note: patches/ is checked, and {project.short(project.checkout)} has {found}")


def listed(state: State) -> None:
    """Hold series and folder against each other, both ways."""
    project = state.project
    text = project.series.read_bytes().decode("utf-8") if project.series.is_file() else ""
    try:
        names = series.parse(text).names
        series.check_names(list(dict.fromkeys(names)))
    except ToolError as error:
        state.findings.append(str(error))
        state.broken = True
        return
    for name, count in Counter(names).items():
        if count > 1:
            state.findings.append(f"series names {name} {count} times")
    present = {
        path.relative_to(project.patches).as_posix()
        for path in project.patches.rglob("*")
        if path.is_file()
    }
    for name in sorted(present - set(names)):
        state.findings.append(f"patches/{name} is in the folder but not in series")
    for name in dict.fromkeys(names):
        if name in present:
            state.files.append((name, (project.patches / name).read_bytes()))
        else:
            state.findings.append(f"patches/{name} is in series but not in the folder")
            state.broken = True
    seen: dict[str, str] = {}
    for name, content in state.files:
        twin = seen.setdefault(patchfile.digest(content), name)
        if twin != name:
            state.findings.append(f"patches/{name} has the same content as patches/{twin}")


def applied(state: State) -> None:
    """Import patch after patch; check each header and the way back to the file."""
    at = state.base
    for name, content in state.files:
        try:
            patch, tree, at = stack.import_patch(state.git, at, name, content)
        except ToolError as error:
            # Later patches would only repeat it.
            state.findings.append(str(error))
            state.broken = True
            return
        earlier = tuple(step.name for step in state.steps)
        context = Context(earlier, partial(exists, state.git, tree))
        state.findings += [f"{name}: {line}" for line in headers.check(patch, context)]
        commit = stack.read_commit(state.git, at)
        state.findings += round_trip(state.git, commit, name, content)
        digest = patchfile.digest(content)
        state.steps.append(Step(name, digest, stack.patch_id(state.git, patch.diff), tree, at))


def exists(git: Git, tree: str, path: str) -> bool:
    return git.blob(tree, path) is not None


def round_trip(git: Git, commit: stack.Commit, name: str, content: bytes) -> list[str]:
    """Say where a file differs from what its own commit exports to."""
    try:
        again = patchfile.write(stack.export_commit(git, commit))
    except ToolError as error:
        return [f"{name}: {error}"]
    if again == content:
        return []
    ours, theirs = again.split(b"\n"), content.split(b"\n")
    pairs = enumerate(zip(ours, theirs, strict=False), 1)
    line = next((number for number, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    return [
        (
            f"{name}: line {line} is not as refresh writes it (an offset, or edited by hand); "
            f"run `make lock`, then `make refresh`"
        )
    ]


def locked(state: State) -> None:
    """Hold the result against series.lock."""
    if state.broken:
        return
    try:
        apply.compare(lock.load(state.project.lock), state.chain)
    except ToolError as error:
        state.findings.append(str(error))


def second_engine(state: State, *, skip: bool) -> None:
    """Let quilt apply the series, too."""
    if skip:
        say("quilt: left out")
    elif state.steps:
        chain = state.chain
        found = quilt.check(state.project, state.git, chain.base_tree, chain.tree)
        state.findings += found
        if not found:
            say(f"quilt --fuzz=0 and git reach the same tree, {chain.tree}")


def compiled(state: State, env: Environment, *, skip: bool) -> None:
    """Compile and import what each patch touches."""
    chain = state.chain
    found = prefixes.of(state.git, chain)
    findings = prefixes.compile_all(state.git, found)
    state.findings += findings
    say(f"compiled the files of {len(found)} prefixes")
    if skip:
        say("imports: left out")
    elif not env.complete and not env.python.is_file():
        state.findings.append(
            f"the import check did not run: {state.project.short(env.folder)} is not there; "
            f"run `make env` (8 GB), or leave it out with IMPORT=0"
        )
    elif not findings:
        state.findings += prefixes.import_all(state.project, state.git, chain, found, env)
