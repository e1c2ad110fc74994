"""Run the tests that the patches carry, and tests/oracles, interpreted on a CPU.

    python ci/series_tests.py ENV CPU_BUILD [pytest arguments]

ENV is the test environment and CPU_BUILD the unpacked CPU build, as `make env` names
them. The tests are those of the patches' `Tests:` trailers, in vendor/vllm.
"""

from __future__ import annotations

import re
import sys

import interpreted

ROOT = interpreted.ROOT
CHECKOUT = ROOT / "vendor" / "vllm"


def tests() -> list[str]:
    """Paths below the checkout, in the order of the series."""
    names = [line.split("#")[0].strip() for line in (ROOT / "series").read_text().splitlines()]
    found: list[str] = []
    for name in filter(None, names):
        header = (ROOT / "patches" / name).read_text().split("\n---\n")[0]
        # "none [reason]" names no path.
        for line in re.findall(r"^Tests: (?!none \[)(.*)$", header, re.MULTILINE):
            found += [path for path in line.split() if path not in found]
    return found


def main(env: str, build: str, *arguments: str) -> int:
    missing = [path for path in tests() if not (CHECKOUT / path).is_file()]
    if missing:
        print(f"vendor/vllm has no {missing[0]}; run `make apply`.", file=sys.stderr)
        return 1
    paths = [ROOT / "tests" / "oracles", *(CHECKOUT / path for path in tests())]
    # The checkout goes last on the path, since its vllm/ has no extensions.
    return interpreted.pytest(env, build, CHECKOUT, paths, arguments, behind=[CHECKOUT])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
