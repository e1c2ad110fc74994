"""The pristine tree: one reproducible commit made from the pinned sdist."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from tools import stack
from tools.errors import ToolError
from tools.git import Git
from tools.patchfile import Ident
from tools.pin import Archive, Pin

BASE_TAG = "series-base"
BASE_REF = f"refs/tags/{BASE_TAG}"


def unpack(sdist: Path, target: Path) -> Path:
    """Unpack an sdist and return the one folder it holds."""
    if not hasattr(tarfile, "data_filter"):
        raise ToolError("this Python unpacks archives unsafely; use 3.11.4 or newer.")
    try:
        with tarfile.open(sdist) as archive:
            # The data filter drops the packer's uid, which git would call dubious
            # ownership, and refuses members that leave the folder.
            archive.extractall(target, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise ToolError(f"{sdist.name} cannot be unpacked ({error}); run `make fetch`.") from None
    tops = list(target.iterdir())
    if len(tops) != 1 or not tops[0].is_dir():
        raise ToolError(f"{sdist.name} does not hold exactly one folder; it is no sdist.")
    return tops[0]


def write_tree(git: Git, folder: Path) -> str:
    """Add every file of a folder and return the tree id."""
    with tempfile.TemporaryDirectory(prefix="series-index-") as scratch:
        view = git.with_index(Path(scratch) / "index", folder)
        # -f: the sdist's own .gitignore hides files it ships.
        view.raw("add", "-A", "-f", ".")
        return view.out("write-tree")


def import_base(git: Git, sdist: Path, pin: Pin) -> str:
    """Make the base commit and return its id; the work tree is not touched."""
    with tempfile.TemporaryDirectory(prefix="series-sdist-", dir=git.git_dir) as scratch:
        tree = write_tree(git, unpack(sdist, Path(scratch)))
    package = package_tree(git, tree, pin.project)
    if (tree, package) != (pin.base_tree, pin.package_tree):
        raise ToolError(
            f"{sdist.name} gives the trees {tree} and {package}, but the pin says "
            f"{pin.base_tree} and {pin.package_tree}: the pin and the archive do not belong "
            f"together; restore vendor/upstream.toml."
        )
    return base_commit(git, tree, pin.version, pin.epoch, pin.sdist)


def base_commit(git: Git, tree: str, version: str, epoch: int, sdist: Archive) -> str:
    """Make the commit of a pristine tree; its id depends on the release alone."""
    who = Ident(f"{sdist.project} {version}", stack.COMMITTER[1], epoch, "+0000")
    message = (
        f"{sdist.project} {version}, as released\n\n"
        f"Imported from {sdist.name}\nsha256 {sdist.sha256}\n"
    )
    return stack.make_commit(git, tree, None, who, message, epoch)


def ensure_base(git: Git, sdist: Path, pin: Pin) -> str:
    """Return the base commit, importing it when the repository lacks it."""
    known = git.resolve(BASE_REF)
    if (
        known
        and git.tree(known) == pin.base_tree
        and not git.call("cat-file", "-e", f"{known}^{{tree}}").returncode
    ):
        return known
    commit = import_base(git, sdist, pin)
    git.raw("update-ref", "--create-reflog", BASE_REF, commit)
    return commit


def package_tree(git: Git, commit: str, package: str) -> str:
    """Return the tree id of the package folder without the generated version file."""
    rows = git.zlist("ls-tree", "-z", f"{commit}:{package}")
    kept = [row for row in rows if not row.endswith("\t_version.py")]
    return git.out("mktree", "-z", stdin="".join(f"{row}\0" for row in kept).encode())
