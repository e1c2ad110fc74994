"""Run the tests of the benchmarks and of deploy/ that need the patched engine, on a CPU.

    python ci/bench_tests.py ENV CPU_BUILD [pytest arguments]

ENV is the test environment and CPU_BUILD the unpacked CPU build, as `make env` names them; Triton's
kernels are interpreted.
"""

from __future__ import annotations

import sys

import interpreted

FOLDER = interpreted.ROOT / "tests"
PLACES = ("bench", "deploy")


def main(env: str, build: str, *arguments: str) -> int:
    paths = [
        path for place in PLACES for path in sorted((FOLDER / place).glob("test_*_interpreted.py"))
    ]
    return interpreted.pytest(env, build, FOLDER, paths, arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
