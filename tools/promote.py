"""Check, build and test a rebased series in a copy of the project, then move the pin to it."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

from tools import apply, checkout, files, lines, lock, pinning, rebase_result, rebase_state, staging
from tools.errors import FINDINGS, OK, ConflictError, ToolError, UsageError
from tools.git import Git
from tools.project import Project
from tools.rebase_state import State
from tools.say import say

SETTINGS = "rebase.toml"
PIN, LINE = "pin", "line"
# Made anew in the copy, or of no use there.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".gpu", "dist", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".hypothesis", "vendor",
)  # fmt: skip
KEPT = ("*.toml", "README.md", ".gitignore")  # of vendor/


def run(project: Project, git: Git, state: State, folder: Path | None, goal: str) -> int:
    """Move the pin, or keep a line, if every command passes; until then change nothing."""
    del git
    if goal == PIN and project.pin.base_tree == state.target.tree:
        # Killed after the one step that decides.
        return finish(project, state)
    if not state.target.sdist:
        raise ToolError(
            f"{state.target.version} is no release: it has no sdist and no wheel to pin; rebase "
            f"to a release to promote."
        )
    if goal == LINE and project.outer:
        raise UsageError(
            "a line is kept of the main series only; PROMOTE=1 moves this line's own pin."
        )
    commands = configured(project)
    if lock.load(project.lock).series_id != state.series_id:
        raise ConflictError(
            "the series changed since the rebase began, and promoting would undo that; give the "
            "rebase up with `make rebase ABORT=1` and begin again: resolutions are remembered."
        )
    if goal == LINE:
        lines.stop_if_unsaved(project, state.target.version)
    elif checkout.exists(project):
        checkout.recover(project.git)
        checkout.stop_if_unsaved(project, project.git, "")
    pin = pinning.text(project, state.target, folder)
    home = candidate(project, pin)
    log = rebase_state.folder(project) / "promote.log"
    with log.open("wb") as out:
        for argv in commands:
            shown = shlex.join(argv)
            say(f"promote: {shown}")
            out.write(f"$ {shown}\n".encode())
            out.flush()
            if passes(project, argv, home, out.fileno()):
                continue
            say(
                f"promote: `{shown}` fails on the rebased series, so the pin stays; see "
                f"{project.short(log)}, correct a patch in {project.short(home)} or rebase again."
            )
            return FINDINGS
    result = rebase_state.result(project)
    texts = [(result / name).read_text(encoding="utf-8") for name in ("series", "series.lock")]
    patches = rebase_result.patches(result)
    if goal == LINE:
        return keep(project, state, patches, (result, pin))
    staging.stage(project, patches, texts[0], texts[1], pin)
    staging.finish(project)
    return finish(project, state)


def keep(
    project: Project, state: State, patches: list[tuple[str, bytes]], made: tuple[Path, bytes]
) -> int:
    """Keep the result beside the series, as the line of its release."""
    result, pin = made
    version = state.target.version
    content = {f"patches/{name}": data for name, data in patches}
    content |= {name: (result / name).read_bytes() for name in ("series", "series.lock")}
    lines.write(project, version, content | {lines.PIN: pin})
    rebase_state.forget(project)
    say(f"promote: lines/{version} is the series on {version}; commit it. The pin stays.")
    return OK


def finish(project: Project, state: State) -> int:
    """Bring the checkout after the pin, and end the rebase."""
    version = state.target.version
    rebase_state.forget(project)
    say(f"promote: the pin is {version} now; commit vendor/upstream.toml, patches/, series and "
        f"series.lock together")  # fmt: skip
    # A fresh one: the old has read the pin.
    after = Project(project.root, project.outer)
    if checkout.exists(after):
        return apply.run(after, argparse.Namespace(relock=False))
    return OK


def configured(project: Project) -> list[list[str]]:
    """Return the commands that a result must pass."""
    path = project.vendor / SETTINGS
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["promote"]["commands"]
        commands = [[str(word) for word in shlex.split(row)] for row in rows]
    except FileNotFoundError:
        raise ToolError(
            f"{project.short(path)} is missing; restore it with git checkout."
        ) from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ToolError(
            f"{project.short(path)} names no commands under [promote] ({error}); restore it."
        ) from None
    if not commands:
        raise ToolError(f"{project.short(path)} names no command, so nothing would be tested.")
    return commands


def candidate(project: Project, pin: bytes) -> Path:
    """Copy the project, with the rebased series and the new pin in the old one's place."""
    home = rebase_state.folder(project) / "candidate"
    files.remove_tree(home)
    shutil.copytree(project.root, home, symlinks=True, ignore=LEFT_OUT)
    (home / "vendor").mkdir()
    for pattern in KEPT:
        for path in project.vendor.glob(pattern):
            shutil.copy2(path, home / "vendor")
    venv = project.root / ".venv"
    if venv.is_dir():
        # The tools' own environment: another of the same would only be downloaded again.
        (home / ".venv").symlink_to(venv.resolve())
    files.remove_tree(home / "patches")
    result = rebase_state.result(project)
    shutil.copytree(result / "patches", home / "patches")
    for name in ("series", "series.lock"):
        shutil.copy2(result / name, home / name)
    files.write(home / "vendor" / "upstream.toml", pin)
    return home


def passes(project: Project, argv: list[str], home: Path, out: int) -> bool:
    """Run one command in the copy."""
    env = os.environ | {"GDNWINDOW_CACHE": str(project.cache), "CACHE": str(project.cache)}
    env = {key: value for key, value in env.items() if key not in ("MAKEFLAGS", "MAKELEVEL")}
    try:
        done = subprocess.run(argv, cwd=home, env=env, stdout=out, stderr=out, check=False)  # noqa: S603
    except OSError as error:
        raise ToolError(
            f"`{argv[0]}` of vendor/{SETTINGS} cannot be run ({error.strerror}); correct it there."
        ) from None
    return done.returncode == 0
