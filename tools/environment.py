"""Where the test environment lies, and how to run its Python."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError
from tools.project import Project

STAMP = ".complete"
KEY_LENGTH = 12


@dataclass(frozen=True)
class Environment:
    """A virtual environment made from one version of the lock file."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def complete(self) -> bool:
        return (self.folder / STAMP).is_file()

    @property
    def identity(self) -> str:
        """What tells it from others: the list it was made from; of somebody's own, the place."""
        stamp = self.folder / STAMP
        if self.complete:
            return hashlib.sha256(stamp.read_bytes()).hexdigest()
        return str(self.folder)

    def run(
        self, *argv: str, path: list[Path], cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run its Python without a GPU and without the user's own packages."""
        env = variables() | {
            "PYTHONPATH": os.pathsep.join(str(item) for item in path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HUMMING_DISABLE_PARALLEL_BUILD": "1",  # else an import starts compilers
            "VLLM_NO_USAGE_STATS": "1",
        }
        return subprocess.run(  # noqa: S603 - the interpreter of our own environment
            [str(self.python), *argv],
            env=env,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )


def variables(*steering: str) -> dict[str, str]:
    """Return the user's variables, for a Python without a GPU and without the user's own packages.

    Left out are those that steer Python, and what begins with `steering`.
    """
    steering = ("PYTHON", *steering)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(steering)}
    return kept | {"PYTHONNOUSERSITE": "1", "CUDA_VISIBLE_DEVICES": ""}


def lock_file(project: Project) -> Path:
    return project.root / "ci" / "env.lock"


def key(project: Project) -> str:
    """Return the short hash that names an environment: it changes with the lock file."""
    path = lock_file(project)
    if not path.is_file():
        raise ToolError(f"{project.short(path)} is missing; restore it with git checkout.")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:KEY_LENGTH]


def default(project: Project) -> Environment:
    """Return the environment of this lock file, complete or not."""
    return Environment(project.cache / f"env-{key(project)}")


def given(project: Project, folder: Path | None) -> Environment:
    """Return the environment the user named, else the default one."""
    if folder is None:
        return default(project)
    found = Environment(folder.absolute())
    if not found.python.is_file():
        raise ToolError(f"{folder} is no virtual environment; --env takes one, see `make env`.")
    return found
