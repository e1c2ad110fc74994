"""Fetch the pinned sdist and wheel by hash into the cache."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tools import files, index, upstream
from tools.errors import OK, ToolError
from tools.git import Git, over_network
from tools.pin import Archive, Pin
from tools.project import Project
from tools.say import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        metavar="index|git|DIR",
        default="index",
        help="index: the index pip is set up for; DIR: a folder that holds the files; "
        "git: clone the pinned tag and compare it with the pin",
    )
    parser.add_argument(
        "--cpu", action="store_true", help="fetch the CPU wheel that the tests need, too"
    )


def run(project: Project, args: argparse.Namespace) -> int:
    pin = project.pin
    if args.source in ("", "index"):
        folder = None
    elif args.source == "git":
        return from_git(project)
    else:
        folder = Path(args.source).expanduser().absolute()
        if not folder.is_dir():
            raise ToolError(f"{folder} is no folder; FROM= takes index, git or a folder.")
    for archive in (pin.sdist, pin.wheel, *([pin.cpu_wheel] if args.cpu else [])):
        path = get(project, archive, folder)
        say(f"{project.short(path)}: sha256 matches the pin")
    return OK


def get(project: Project, archive: Archive, folder: Path | None = None) -> Path:
    """Return a pinned file, from the cache, a folder or the index."""
    target = project.downloads / archive.name
    if folder is None:
        return index.download(archive, project.downloads)
    if target.is_file() and files.sha256(target) == archive.sha256:
        return target
    source = folder / archive.name
    if not source.is_file():
        raise ToolError(f"{folder} holds no {archive.name}; put it there or use FROM=index.")
    with files.partial(target) as temporary:
        shutil.copyfile(source, temporary)
        index.check(temporary, archive)
        temporary.chmod(0o644)
    return target


def from_git(project: Project) -> int:
    """Clone the tag and hold its package folder against the sdist's."""
    pin = project.pin
    target = project.cache / f"{pin.project}-{pin.version}.git"
    if not target.is_dir():
        project.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".clone-", dir=project.cache) as scratch:
            clone(pin, Path(scratch) / "clone")
            Path(scratch, "clone").rename(target)
    git = Git(target)
    commit = git.resolve(f"refs/tags/{pin.git_tag}")
    if not commit:
        raise ToolError(f"{target} has no tag {pin.git_tag}; delete it and fetch again.")
    found = upstream.package_tree(git, commit, pin.project)
    if found != pin.package_tree:
        raise ToolError(
            f"the tag {pin.git_tag} ({commit[:10]}) holds {pin.project}/ as tree {found}, the "
            f"sdist as {pin.package_tree}: the release was not cut from that tag; use the sdist."
        )
    say(
        f"{pin.git_tag} is commit {commit}; its {pin.project}/ is the tree of the sdist, {found}; "
        f"the clone is {project.short(target)}"
    )
    return OK


def clone(pin: Pin, target: Path) -> None:
    """Make a shallow bare clone of the pinned tag."""
    argv = ["clone", "--bare", "--quiet", "--depth=1", "--branch", pin.git_tag]
    if why := over_network(*argv, pin.git_url, str(target)):
        raise ToolError(
            f"{pin.git_url} cannot be cloned at {pin.git_tag} ({why}); "
            f"check the network, or use `make fetch` without FROM=git."
        )
