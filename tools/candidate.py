"""The copy of the project in which a rebased series is tested before the pin moves to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools import checkout, files, lock, rebase_result, rebase_state, staging
from tools.errors import ToolError
from tools.project import Project
from tools.rebase_state import State
from tools.say import say

# Made anew in the copy, or of no use there.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".gpu*", "dist", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".hypothesis", "vendor",
)  # fmt: skip
KEPT = ("*.toml", "README.md", ".gitignore")  # of vendor/


def folder(project: Project) -> Path:
    return rebase_state.folder(project) / "candidate"


def lay_out(project: Project, pin: bytes) -> Path:
    """Copy the project, with the rebased series and the new pin in the old one's place."""
    home = folder(project)
    files.remove_tree(home)
    source = project.outer or project.root  # a line has no tools and no tests of its own
    shutil.copytree(source, home, symlinks=True, ignore=LEFT_OUT)
    (home / "vendor").mkdir()
    for pattern in KEPT:
        for path in (source / "vendor").glob(pattern):
            shutil.copy2(path, home / "vendor")
    venv = source / ".venv"
    if venv.is_dir():
        # The tools' own environment: another of the same would only be downloaded again.
        (home / ".venv").symlink_to(venv.resolve())
    files.remove_tree(home / "patches")  # the main series' own
    result = rebase_state.result(project)
    shutil.copytree(result / "patches", home / "patches")
    for name in ("series", "series.lock"):
        shutil.copy2(result / name, home / name)
    files.write(home / "vendor" / "upstream.toml", pin)
    return home


def stop_if_unsaved(project: Project) -> None:
    """Stop when the copy's checkout holds work that the copy's patches do not."""
    inner = Project(folder(project), project.outer or project.root)
    if inner.pin_file.is_file() and checkout.exists(inner):
        checkout.recover(inner.git)
        checkout.stop_if_unsaved(inner, inner.git, "")


def take_corrections(project: Project, state: State) -> None:
    """Let the result be what somebody refreshed in the copy, where tests had failed."""
    inner = Project(folder(project), project.outer or project.root)
    if not inner.lock.is_file():
        return
    stop_if_unsaved(project)
    staging.finish(inner)
    chain = lock.load(inner.lock)
    before = lock.load(rebase_state.result(project) / "series.lock")
    if chain.series_id == before.series_id or chain.base_tree != state.target.tree:
        return
    checkout.need_locked(inner, inner.git)
    text = inner.series.read_text(encoding="utf-8")
    rebase_result.export(project, rebase_result.patches(inner.root), text, chain)
    say(f"promote: with the corrections made in {project.short(inner.root)}")


def passes(project: Project, argv: list[str], home: Path, out: int) -> bool:
    """Run one command in the copy."""
    env = os.environ | {"GDNWINDOW_CACHE": str(project.cache), "CACHE": str(project.cache)}
    env = {key: value for key, value in env.items() if key not in ("MAKEFLAGS", "MAKELEVEL")}
    try:
        done = subprocess.run(argv, cwd=home, env=env, stdout=out, stderr=out, check=False)  # noqa: S603
    except OSError as error:
        raise ToolError(
            f"`{argv[0]}` of vendor/rebase.toml cannot be run ({error.strerror}); correct it there."
        ) from None
    return done.returncode == 0
