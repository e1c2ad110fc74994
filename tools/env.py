"""Make the test environment, and unpack the CPU build for tests."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tools import cpu, environment, files
from tools.environment import STAMP, Environment
from tools.errors import OK, ConflictError, ToolError
from tools.project import Project
from tools.say import data, say

NEED_GB = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cpu", action="store_true", help="make the environment only, unpack no CPU build"
    )
    parser.add_argument(
        "--print",
        dest="show",
        action="store_true",
        help="print the two folders (environment, CPU build) and make nothing",
    )


def run(project: Project, args: argparse.Namespace) -> int:
    env = environment.default(project)
    if not args.show:
        make(project, env)
    data(str(env.folder))
    if not args.no_cpu:
        data(str(cpu.folder(project) if args.show else cpu.unpacked(project)))
    return OK


def make(project: Project, env: Environment) -> None:
    """Build the environment in place; the stamp is written last."""
    with files.only_one(env.folder.with_suffix(".lock")) as alone:
        if not alone:
            raise ConflictError(
                f"another process builds {project.short(env.folder)}; wait for it, then run this "
                f"again."
            )
        _make(project, env)


def _make(project: Project, env: Environment) -> None:
    if env.complete:
        say(f"{project.short(env.folder)}: already made from ci/env.lock")
        return
    if env.folder.exists():
        say(f"{project.short(env.folder)} was left half-built; building it again")
        files.remove_tree(env.folder)
    if sys.version_info[:2] != (3, 11):
        say("note: the pinned list was made with Python 3.11")
    say(f"building {project.short(env.folder)}: about {NEED_GB} GB and some minutes")
    # In place: the scripts of a virtual environment hold its path, so it cannot move.
    step([sys.executable, "-m", "venv", str(env.folder)], "the virtual environment")
    lock = environment.lock_file(project)
    pip = [str(env.python), "-m", "pip", "--disable-pip-version-check"]
    step(
        [*pip, "install", "--quiet", "--no-deps", "--requirement", str(lock)],
        "the packages of ci/env.lock",
    )
    step([*pip, "check"], "the check of the packages against each other")
    (env.folder / STAMP).write_bytes(lock.read_bytes())
    say(f"{project.short(env.folder)}: made")


def step(argv: list[str], what: str) -> None:
    """Run one step, passing its output on to stderr."""
    # This process may itself run in a virtual environment; pip needs no trace of it.
    done = subprocess.run(argv, stdout=sys.stderr, check=False)  # noqa: S603
    if done.returncode:
        raise ToolError(
            f"{what} failed ({Path(argv[0]).name} exit code {done.returncode}, see above); "
            f"free disk space or check the package index, then run `make env` again."
        )
