"""Write the commits of the checkout back to patches/, series and series.lock."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tools import apply, checkout, lock, patchfile, series, stack, staging
from tools.errors import OK, ConflictError, ToolError, UsageError
from tools.git import Git
from tools.project import Project
from tools.say import say
from tools.stack import Commit

TOPIC = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
AUTOSQUASH = re.compile(r"(fixup|squash|amend)! ")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topic",
        default="",
        help="the folder for new commits that name none with a 'Topic:' trailer "
        "(default: the topic of the patch before them)",
    )


def run(project: Project, args: argparse.Namespace) -> int:
    if args.topic and not TOPIC.match(args.topic):
        raise UsageError(f"{args.topic!r} is no topic: use lower-case letters, digits and '-'.")
    git = checkout.need(project)
    checkout.recover(git)
    what = checkout.busy(git)
    where = project.short(project.checkout)
    if what:
        raise ConflictError(f"a {what} is unfinished in {where}; finish it, then refresh.")
    base = apply.ensure_base(project, git)
    if not apply.adopt(project, git, base):
        _stop_if_changed(project, git)
    commits = read_commits(git, base, where)
    if any(AUTOSQUASH.match(commit.subject) for commit in commits):
        autosquash(git, base, where)
        commits = read_commits(git, base, where)
    return export(project, git, base, commits, args.topic)


def export(project: Project, git: Git, base: str, commits: list[Commit], topic: str) -> int:
    """Write the patches and move the branch to the commits they import to."""
    old = series.load(project)
    names = name_commits(commits, topic)
    written: list[tuple[str, bytes]] = []
    for name, commit in zip(names, commits, strict=True):
        written.append((name, patchfile.write(stack.export_commit(git, commit))))
    chain = stack.build(git, base, written)
    head = str(git.resolve("HEAD"))
    if chain.tree != git.tree(head):
        raise ToolError(
            "the exported patches do not give the tree they were made from; remove attributes "
            "such as -diff or eol from .git/info/attributes of the checkout."
        )
    text = old.reordered(names).text()
    staging.stage(project, written, text, chain.text())
    before = staging.listing(project)
    staging.finish(project)
    # Same tree, canonical ids: the index and the work tree stay as they are.
    git.raw("reset", "--soft", chain.commit)
    checkout.record(git, chain)
    report(project, git, before, chain)
    return OK


def read_commits(git: Git, base: str, where: str) -> list[Commit]:
    """Return the commits above the base, oldest first."""
    head = git.resolve("HEAD")
    if not head or git.call("merge-base", "--is-ancestor", base, head).returncode:
        raise ToolError(
            f"{where}: HEAD does not stand on the pristine commit {base[:10]}; "
            f"rebase it with `git -C {where} rebase series-base`."
        )
    ids = git.out("rev-list", "--reverse", "--topo-order", f"{base}..{head}").split()
    return [stack.read_commit(git, name) for name in ids]


def autosquash(git: Git, base: str, where: str) -> None:
    """Fold fixup!, squash! and amend! commits into their targets."""
    edited, _ = checkout.dirty(git)
    if edited:
        raise ConflictError(
            f"{where} has fixup! commits to fold and edits in {edited[0]}; "
            f"commit or stash the edits, then refresh."
        )
    say("folding the fixup! commits into their targets")
    identity = {
        "GIT_SEQUENCE_EDITOR": ":",
        "GIT_COMMITTER_NAME": stack.COMMITTER[0],
        "GIT_COMMITTER_EMAIL": stack.COMMITTER[1],
    }
    done = git.call("rebase", "--quiet", "--interactive", "--autosquash", base, extra=identity)
    if done.returncode:
        git.call("rebase", "--abort")
        why = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConflictError(
            f"the fixup! commits do not fold cleanly ({why[0] if why else 'conflict'}); fold "
            f"them with `git -C {where} rebase -i --autosquash series-base`, then refresh."
        )


def name_commits(commits: list[Commit], topic: str) -> list[str]:
    """Give each commit its file: the one it came from, or one after its subject."""
    known = {stack.split_name(commit)[1] for commit in commits}
    names: list[str] = []
    here = ""
    for commit in commits:
        name = stack.split_name(commit)[1]
        if name is None:
            folder = _topic(commit) or topic or here
            if not folder:
                raise UsageError(
                    f"commit {commit.short} needs a topic: run `make refresh TOPIC=name`, or "
                    f"add a line 'Topic: name' to its message."
                )
            name = _free(folder, commit.subject, {*known, *names})
        if name in names:
            raise ToolError(
                f"two commits are named {name} (the second: {commit.short}); squash them, or "
                f"delete the {stack.TRAILER} line of the new one with git commit --amend."
            )
        names.append(name)
        here = name.partition("/")[0]
    series.check_names(names, "the checkout")
    return names


def _topic(commit: Commit) -> str:
    found = stack.TOPIC_LINE.search(commit.message)
    topic = found[1].strip() if found else ""
    if found and not TOPIC.match(topic):
        raise UsageError(
            f"commit {commit.short}: {topic!r} is no topic: use lower-case letters, digits and '-'."
        )
    return topic


def _free(topic: str, subject: str, taken: set[str | None]) -> str:
    plain = re.sub(r"\A(\[[^\]]*\]\s*)+", "", subject).lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:52].strip("-") or "patch"
    number = 1
    name = f"{topic}/{slug}.patch"
    while name in taken:
        number += 1
        name = f"{topic}/{slug}-{number}.patch"
    return name


def _stop_if_changed(project: Project, git: Git) -> None:
    """Stop when patches/ is not what the checkout was made from."""
    made_from = checkout.recorded(git)
    on_disk = staging.listing(project)
    for name in sorted(on_disk.keys() | made_from.keys()):
        if made_from.get(name) != on_disk.get(name):
            where = project.short(project.checkout)
            raise ConflictError(
                f"patches/{name} changed since {where} was made, and refresh would undo that; "
                f"keep your commits aside with `git -C {where} branch mine && "
                f"git -C {where} checkout -B {checkout.BRANCH} {checkout.APPLIED}`, run "
                f"`make apply`, then cherry-pick them."
            )


def report(project: Project, git: Git, before: dict[str, str], chain: lock.Lock) -> None:
    """Say what changed."""
    after = {step.name: step.sha256 for step in chain.steps}
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            what = "new" if name not in before else "dropped" if name not in after else "changed"
            say(f"{what}: patches/{name}")
    edited, untracked = checkout.dirty(git)
    for path in [*edited, *untracked]:
        say(f"not committed, hence not exported: {Path(project.short(project.checkout)) / path}")
    say(f"{len(after)} patches, tree {chain.tree}")
