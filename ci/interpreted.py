"""Run pytest in the test environment, over the CPU build, with Triton's kernels interpreted.

    python ci/interpreted.py ENV CPU_BUILD TREE [pytest arguments]

ENV is the test environment and CPU_BUILD an unpacked CPU build, as `make env` names them; the
arguments name tests in TREE, which goes last on the path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pytest(
    env: str,
    build: str,
    rootdir: Path,
    paths: Iterable[Path],
    arguments: Iterable[str],
    behind: Iterable[Path] = (),
) -> int:
    """Return pytest's exit code.

    ENV is the test environment and BUILD the unpacked CPU build, as `make env` names them;
    `behind` goes last on the path. No conftest and no configuration is read: those of an
    upstream tree need what the environment does not hold.
    """
    command = [str(Path(env) / "bin" / "python"), "-m", "pytest", "--rootdir", str(rootdir)]
    command += ["-c", os.devnull, "--noconftest", "--import-mode=append", "-q"]
    command += ["-p", "no:cacheprovider", "-p", "harness.pytest_interpreted"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([build, *map(str, [ROOT / "tests", *behind])]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as scratch:  # not the project: it would be on the path
        return subprocess.run(
            [*command, *map(str, paths), *arguments], cwd=scratch, env=environment, check=False
        ).returncode


def main(env: str, build: str, tree: str, *arguments: str) -> int:
    return pytest(env, build, Path(tree), (), arguments, behind=[Path(tree)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
