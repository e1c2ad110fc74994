"""Lay the series over the pristine tree, one commit per patch."""

from __future__ import annotations

import argparse
import difflib

from tools import checkout, fetch, files, lock, patchfile, series, stack, staging, upstream
from tools.errors import OK, ToolError
from tools.git import Git
from tools.lock import Lock
from tools.project import Project
from tools.say import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--relock", action="store_true", help="write series.lock instead of comparing with it"
    )


def run(project: Project, args: argparse.Namespace) -> int:
    patches = read_patches(project)
    if not checkout.exists(project):
        return _create(project, patches, relock=args.relock)
    git = project.git
    checkout.recover(git)
    base = ensure_base(project, git)
    chain = check(project, stack.build(git, base, patches), relock=args.relock)
    adopt(project, git, base)
    head = git.resolve("HEAD")
    where = project.short(project.checkout)
    if head == chain.commit:
        checkout.record(git, chain)
        edited, untracked = checkout.dirty(git)
        note = f"; {len(edited + untracked)} file(s) with local edits" if edited + untracked else ""
        say(f"{where}: already applied, {len(patches)} patches, tree {chain.tree}{note}")
        return OK
    checkout.stop_if_unsaved(project, git, chain.commit)
    checkout.move(git, chain.commit)
    checkout.record(git, chain)
    say(f"{where}: {_why(git, head, base)}; now {len(patches)} patches, tree {chain.tree}")
    return OK


def _create(project: Project, patches: list[tuple[str, bytes]], *, relock: bool) -> int:
    where = project.short(project.checkout)
    if project.checkout.exists() and any(project.checkout.iterdir()):
        raise ToolError(f"{where} is in the way and no git repository; move it elsewhere.")
    sdist = fetch.get(project, project.pin.sdist)
    say(f"{where}: unpacking {sdist.name}, up to a minute")
    folder = checkout.create(project, sdist)
    try:
        git = Git(folder / ".git", folder)
        base = str(git.resolve(upstream.BASE_REF))
        chain = check(project, stack.build(git, base, patches), relock=relock)
        checkout.move(git, chain.commit)
        checkout.record(git, chain)
        if project.checkout.exists():
            project.checkout.rmdir()
        folder.rename(project.checkout)
    finally:
        files.remove_tree(folder)
    say(f"{where}: made from {sdist.name}; {len(patches)} patches, tree {chain.tree}")
    return OK


def ensure_base(project: Project, git: Git) -> str:
    """Return the base commit of the checkout, importing it after a change of the pin."""
    known = git.resolve(upstream.BASE_REF)
    if known and git.tree(known) == project.pin.base_tree:
        return known
    return upstream.ensure_base(git, fetch.get(project, project.pin.sdist), project.pin)


def read_patches(project: Project) -> list[tuple[str, bytes]]:
    """Read the files the series names, in order."""
    found: list[tuple[str, bytes]] = []
    names = series.load(project).names
    for name in names:
        path = project.patches / name
        try:
            found.append((name, path.read_bytes()))
        except FileNotFoundError:
            raise ToolError(
                f"{project.short(path)} is named in series but does not exist; "
                f"{_instead(name, staging.listing(project).keys() - set(names))}"
            ) from None
    return found


def _instead(name: str, unlisted: set[str]) -> str:
    """Say what to do about a name: beside a file that no line names it is likely misspelt."""
    near = difflib.get_close_matches(name, sorted(unlisted), n=1, cutoff=0)
    if near:
        return f"did you mean {near[0]}, which is in patches/ and not in series?"
    return "restore it with git checkout or delete the line."


def check(project: Project, built: Lock, *, relock: bool) -> Lock:
    """Hold what was built against series.lock, or write the lock."""
    if relock:
        written = files.write(project.lock, built.text().encode())
        say(f"series.lock: {'written' if written else 'already right'}")
        return built
    compare(lock.load(project.lock), built)
    return built


def compare(locked: Lock, built: Lock) -> None:
    """Stop at the first step that differs from the lock, naming its patch."""
    cure = "if that is meant, run `make lock`; else restore the file with git checkout"
    if (locked.base_tree, locked.base_commit) != (built.base_tree, built.base_commit):
        raise ToolError(
            f"series.lock is for the base tree {locked.base_tree}, the pin gives "
            f"{built.base_tree}; run `make lock` after a change of the pin."
        )
    for number, step in enumerate(built.steps):
        if number >= len(locked.steps):
            raise ToolError(f"{step.name} is in series but not in series.lock; {cure}.")
        want = locked.steps[number]
        for key in lock.KEYS:
            if getattr(step, key) != getattr(want, key):
                raise ToolError(
                    f"{step.name} (patch {number + 1}): its {key} is {getattr(step, key)}, but "
                    f"series.lock says {getattr(want, key)}; {cure}."
                )
    if len(locked.steps) > len(built.steps):
        name = locked.steps[len(built.steps)].name
        raise ToolError(f"{name} is in series.lock but not in series; {cure}.")


def adopt(project: Project, git: Git, base: str) -> bool:
    """Take the checkout's commits for exported when patches/ holds exactly them.

    So it is after a rebase that changed nothing, and after a refresh that was killed
    between writing the patches and moving the branch.
    """
    head = git.resolve("HEAD")
    if head is None or checkout.busy(git) or not _same_patches(project, git, head, base):
        return False
    chain = stack.build(git, base, read_patches(project))
    if head != chain.commit:
        # The same tree under the ids the lock names: no file is touched.
        git.raw("reset", "--soft", chain.commit)
    checkout.record(git, chain)
    return True


def _same_patches(project: Project, git: Git, head: str, base: str) -> bool:
    if git.call("merge-base", "--is-ancestor", base, head).returncode:
        return False
    ids = git.out("rev-list", "--reverse", f"{base}..{head}").split()
    try:
        patches = read_patches(project)
        commits = [stack.read_commit(git, name) for name in ids]
        exported = [patchfile.write(stack.export_commit(git, commit)) for commit in commits]
        named = [stack.split_name(commit)[1] for commit in commits]
    except ToolError:
        return False
    same_names = all(name in (None, want) for name, (want, _) in zip(named, patches, strict=False))
    return exported == [content for _, content in patches] and same_names


def _why(git: Git, head: str | None, base: str) -> str:
    if head is None:
        return "had no commit"
    if head == base:
        return "was pristine"
    return f"was at {git.out('log', '-1', '--format=%h %s', head)}"
