"""The second engine: Debian's quilt must reach the tree that git reaches."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools import files, upstream
from tools.git import Git
from tools.project import Project


def check(project: Project, git: Git, base_tree: str, tree: str) -> list[str]:
    """Return what is wrong, in a line or none."""
    program = shutil.which("quilt")
    if not program:
        return ["quilt is not installed, so the second engine did not run: apt-get install quilt"]
    project.cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".quilt-", dir=project.cache))
    try:
        export(git, base_tree, scratch)
        error = push(project, program, scratch)
        if error:
            return [f"quilt push --fuzz=0 fails: {error}"]
        shutil.rmtree(scratch / ".pc", ignore_errors=True)
        found = upstream.write_tree(git, scratch)
    finally:
        files.remove_tree(scratch)
    if found != tree:
        names = ", ".join(git.changed(tree, found)[:5])
        return [f"quilt reaches the tree {found}, git reaches {tree}; they differ in {names}"]
    return []


def export(git: Git, tree: str, folder: Path) -> None:
    """Write the files of a tree into a folder."""
    with tempfile.TemporaryDirectory(prefix="series-index-") as scratch:
        view = git.with_index(Path(scratch) / "index", folder)
        view.raw("read-tree", tree)
        view.raw("checkout-index", "--all", "--force")


def push(project: Project, program: str, folder: Path) -> str | None:
    """Push the whole series; return quilt's complaint."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("QUILT_")}
    env |= {
        # Absolute names, and no quiltrc: only then may the series lie outside patches/.
        "QUILT_PATCHES": str(project.patches),
        "QUILT_SERIES": str(project.series),
        "LC_ALL": "C",
    }
    done = subprocess.run(  # noqa: S603 - found on the PATH above
        [program, "--quiltrc", "-", "push", "-a", "-q", "--fuzz=0"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    # 2 means that there was nothing to do.
    if done.returncode in (0, 2):
        return None
    lines = (done.stdout + done.stderr).split("\n")
    return "; ".join(line.strip() for line in lines if line.strip())[-400:]
