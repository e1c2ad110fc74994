"""Pristine trees of several releases in one repository, and what lies between them."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tools import files, stack, upstream
from tools.errors import ToolError
from tools.git import Git, over_network
from tools.patchfile import Ident
from tools.pin import Archive, Pin
from tools.releases import Release

REFS = "refs/pristine"


@dataclass(frozen=True)
class Base:
    """A pristine tree that a series is laid over, or is to be."""

    version: str
    commit: str
    tree: str
    package_tree: str
    epoch: int
    sdist: str  # the file's name; empty for a commit of upstream's repository
    sha256: str  # of that file
    origin: str = ""  # the commit in upstream's own history, if that is at hand

    def row(self) -> dict[str, object]:
        return asdict(self)


def from_pin(git: Git, pin: Pin, sdist: Callable[[], Path]) -> Base:
    """Import the pinned release; its trees are the pin's or this stops."""
    ref = f"{REFS}/{pin.version}"
    commit = git.resolve(ref)
    if not commit or git.tree(commit) != pin.base_tree:
        commit = upstream.import_base(git, sdist(), pin)
        git.raw("update-ref", ref, commit)
    return Base(
        pin.version,
        commit,
        pin.base_tree,
        pin.package_tree,
        pin.epoch,
        pin.sdist.name,
        pin.sdist.sha256,
    )


def from_release(git: Git, release: Release, sdist: Path) -> Base:
    """Import a release that no pin describes yet."""
    ref = f"{REFS}/{release.version}"
    commit = git.resolve(ref)
    if not commit or release.sdist.sha256 not in git.out("log", "-1", "--format=%B", commit):
        with tempfile.TemporaryDirectory(prefix="series-sdist-", dir=git.git_dir) as scratch:
            tree = upstream.write_tree(git, upstream.unpack(sdist, Path(scratch)))
        commit = upstream.base_commit(git, tree, release.version, newest(sdist), release.sdist)
        git.raw("update-ref", ref, commit)
    return Base(
        release.version,
        commit,
        git.tree(commit),
        upstream.package_tree(git, commit, release.sdist.project),
        int(git.out("log", "-1", "--format=%ct", commit)),
        release.sdist.name,
        release.sdist.sha256,
    )


def newest(sdist: Path) -> int:
    """Return the time of an sdist's newest file: it dates the base commit and the wheel."""
    with tarfile.open(sdist) as archive:
        return int(max((member.mtime for member in archive if member.isfile()), default=0))


def from_git(git: Git, pin: Pin, name: str) -> Base:
    """Fetch a commit, branch or tag of upstream's repository, with its history."""
    wanted = [f"+refs/tags/{pin.git_tag}:{REFS}/tags/{pin.git_tag}"]
    argv = ["-c", "gc.auto=0", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--"]
    refs = [*wanted, f"+{name}:{REFS}/asked"]
    if why := over_network(*argv, pin.git_url, *refs, git_dir=git.git_dir):
        raise ToolError(
            f"{name} is no version, and it cannot be fetched from {pin.git_url} ({why}); check "
            f"the network, give the full commit id, or name a release."
        )
    origin = str(git.resolve(f"{REFS}/asked"))
    tree, epoch = git.tree(origin), int(git.out("log", "-1", "--format=%ct", origin))
    who = Ident(f"{pin.project} {origin[:10]}", stack.COMMITTER[1], epoch, "+0000")
    text = f"{pin.project} at {origin}\n"
    commit = stack.make_commit(git, tree, None, who, text, epoch)
    git.raw("update-ref", f"{REFS}/{origin}", commit)
    package = upstream.package_tree(git, tree, pin.project)
    return Base(origin[:10], commit, tree, package, epoch, "", "", origin)


def archive(project: str, base: Base) -> Archive:
    return Archive(project, base.sdist, base.sha256, "")


def history(git: Git, bases: list[Base]) -> list[tuple[str, str]]:
    """Join pristine trees to a line of commits; return (name, commit) pairs, oldest first.

    The trees themselves have no parents: each release is imported alone. Between the
    pinned tag and a commit of upstream's repository there is a real history.
    """
    last = bases[-1]
    tag = next(iter(git.out("for-each-ref", "--format=%(objectname)", f"{REFS}/tags").split()), "")
    if last.origin and tag:
        return [(bases[0].version, str(git.resolve(tag))), (last.version, last.origin)]
    found: list[tuple[str, str]] = []
    parent: str | None = None
    for base in bases:
        who = Ident(base.version, stack.COMMITTER[1], base.epoch, "+0000")
        parent = stack.make_commit(git, base.tree, parent, who, f"{base.version}\n", base.epoch)
        found.append((base.version, parent))
    return found


def sweep(git: Git) -> None:
    """Delete what a killed import left: nobody else imports here."""
    for path in git.git_dir.glob("series-sdist-*"):
        files.remove_tree(path)


def between(git: Git, first: Base, last: Base) -> list[Base]:
    """Return two bases with the releases of this repository that lie between them."""
    try:
        ends = (Version(first.version), Version(last.version))
    except InvalidVersion:
        return [first, last]
    found: list[Base] = []
    for ref in git.out("for-each-ref", "--format=%(refname)", REFS).split():
        try:
            version = Version(ref.removeprefix(f"{REFS}/"))
        except InvalidVersion:
            continue
        if min(ends) < version < max(ends):
            commit = str(git.resolve(ref))
            epoch = int(git.out("log", "-1", "--format=%ct", commit))
            found.append(Base(str(version), commit, git.tree(commit), "", epoch, "", ""))
    found.sort(key=lambda base: Version(base.version), reverse=ends[0] > ends[1])
    return [first, *found, last]
