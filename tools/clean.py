"""Delete what can be made again; never a commit or an edit that exists nowhere else."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import time
from pathlib import Path

from tools import checkout, cpu, files, lines, rebase_state
from tools.errors import OK, ConflictError, ToolError
from tools.project import Project
from tools.say import say

GENERATED = ("dist", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis")
# Leftovers of killed commands. In a cache that may be shared, young ones are at work.
CACHE = (
    ".cpu-*",
    ".extract-*",
    ".prefix-*",
    ".prove-*",
    ".quilt-*",
    ".setup-*",
    ".clone-*",
    ".trash-*",
)
# With the lock files beside them.
CACHE_ALL = ("cpu-*", "env-*", "imports", "prove", "logs")
OLD = 24 * 3600  # seconds
VENDOR = (".new-*", ".trash-*", ".refresh-draft", ".refresh-done")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all",
        action="store_true",
        help="also the checkout (if all its work is in patches/) and, unless the cache is outside "
        "the project, downloads, CPU builds, environments and logs",
    )


def run(project: Project, args: argparse.Namespace) -> int:
    # Before anything is deleted: stop, or delete everything.
    if args.all and rebase_state.begun(project):
        raise ConflictError(
            "a rebase is under way in vendor/rebase, perhaps with resolutions of yours; promote it "
            "with `make rebase PROMOTE=1` or give it up with `make rebase ABORT=1`."
        )
    if args.all:
        for version in lines.names(project):
            lines.stop_if_unsaved(project, version)
    if args.all and checkout.exists(project):
        stop_if_only_copy(project)
    for path in generated(project, everything=args.all):
        remove(project, path)
    for folder in ("tools", "tests"):
        for path in sorted((project.root / folder).rglob("__pycache__")):
            shutil.rmtree(path)
    if args.all and checkout.exists(project):
        files.remove_tree(project.checkout)
        say(f"removed {project.short(project.checkout)}")
    return OK


def generated(project: Project, *, everything: bool) -> list[Path]:
    """Return what can be made again."""
    found = [project.root / name for name in GENERATED]
    pin, cache = project.pin, project.cache
    shared = not cache.is_relative_to(project.root)
    for pattern in CACHE:
        found += [path for path in sorted(cache.glob(pattern)) if not shared or _is_old(path)]
    if shared:
        say(f"{project.short(cache)} may serve other checkouts; what is in it is yours to delete.")
    elif everything:
        for pattern in (*CACHE_ALL, f"{pin.project}-{pin.version}.git"):
            found += sorted(cache.glob(pattern))
        found += [project.downloads / x.name for x in (pin.sdist, pin.wheel, pin.cpu_wheel)]
    else:
        found += own_build(project)
    for pattern in VENDOR:
        found += sorted(project.vendor.glob(pattern))
    if everything:
        # The pristine trees and the resolutions that rerere remembers.
        found += [rebase_state.folder(project), project.vendor / "lines", project.root / ".venv"]
    return found


def own_build(project: Project) -> list[Path]:
    """Return the CPU build of the locked series."""
    try:
        return [cpu.folder(project)]
    except ToolError:
        # Without a sound lock nothing says which one it is.
        return []


def _is_old(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # somebody has just removed it
        return time.time() - path.stat().st_mtime > OLD
    return False


def stop_if_only_copy(project: Project) -> None:
    """Stop when the checkout holds anything that patches/ does not."""
    git = project.git
    checkout.recover(git)
    checkout.stop_if_unsaved(project, git, "")
    known = [ref for ref in (checkout.APPLIED, "refs/tags/series-base") if git.resolve(ref)]
    for ref in git.out("for-each-ref", "--format=%(refname)").split():
        if git.out("rev-list", "--max-count=1", ref, *(f"^{name}" for name in known)):
            where = project.short(project.checkout)
            raise ConflictError(
                f"{where} holds commits under {ref} that are not in patches/; bring them in "
                f"with `make refresh`, or delete them with `git -C {where} update-ref -d {ref}`."
            )


def remove(project: Project, path: Path) -> None:
    """Delete a file or folder, if it is there, and say so."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()
    else:
        return
    say(f"removed {project.short(path)}")
