"""Run the tests of the benchmarks that need the patched engine, interpreted on a CPU.

    python ci/bench_tests.py ENV CPU_BUILD [pytest arguments]

ENV is the test environment and CPU_BUILD the unpacked CPU build, as `make env` names them.
"""

from __future__ import annotations

import sys

import interpreted

FOLDER = interpreted.ROOT / "tests" / "bench"


def main(env: str, build: str, *arguments: str) -> int:
    paths = sorted(FOLDER.glob("test_*_interpreted.py"))
    return interpreted.pytest(env, build, FOLDER, paths, arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
