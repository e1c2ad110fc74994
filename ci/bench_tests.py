"""Run the tests of the benchmarks that need the patched engine, interpreted on a CPU.

    python ci/bench_tests.py ENV CPU_BUILD [pytest arguments]

ENV is the test environment and CPU_BUILD the unpacked CPU build, as `make env` names them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "bench"


def main(env: str, build: str, *arguments: str) -> int:
    command = [str(Path(env) / "bin" / "python"), "-m", "pytest", "--rootdir", str(FOLDER)]
    command += ["-c", os.devnull, "--noconftest", "--import-mode=append", "-q"]
    command += ["-p", "no:cacheprovider", "-p", "harness.pytest_interpreted"]
    command += [str(path) for path in sorted(FOLDER.glob("test_*_interpreted.py"))]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([build, str(ROOT / "tests")]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory() as scratch:  # not the project: it would be on the path
        return subprocess.run(
            [*command, *arguments], cwd=scratch, env=environment, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
