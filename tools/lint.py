"""Check this project's own Python: ruff on all of it, mypy on the tools."""

from __future__ import annotations

import argparse
import subprocess
import sys

from tools.errors import FINDINGS, OK, ToolError
from tools.project import Project
from tools.say import say

CHECKS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
)
TYPED = ("tools", "tests/tools")
PATHS = ("tools", "tests", "ci", "bench", "deploy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(project: Project, args: argparse.Namespace) -> int:
    del args
    failed = []
    for name, *flags in CHECKS:
        checked = TYPED if name == "mypy" else PATHS
        paths = [path for path in checked if (project.root / path).is_dir()]
        argv = [sys.executable, "-m", name, *flags, *paths]
        done = subprocess.run(argv, cwd=project.root, check=False)  # noqa: S603 - pinned tools
        if done.returncode and not _has(name):
            raise ToolError(f"{name} is not installed; run `make lint`, which installs it.")
        if done.returncode:
            failed.append(" ".join((name, *flags)))
    say(f"lint: {', '.join(failed)} found something" if failed else "lint: nothing found")
    return FINDINGS if failed else OK


def _has(module: str) -> bytes:
    argv = [
        sys.executable,
        "-c",
        f"import importlib.util as u; print(u.find_spec({module!r}) or '')",
    ]
    return subprocess.run(argv, capture_output=True, check=False).stdout.strip()  # noqa: S603
