"""Run the tests that the patches carry, and tests/oracles, interpreted on a CPU.

    python ci/series_tests.py PROJECT ENV CPU_BUILD [pytest arguments]

PROJECT holds series, patches/ and vendor/vllm: the project's folder, or a line's copy in
vendor/lines. ENV is the test environment and CPU_BUILD the unpacked CPU build, as `make env`
names them. The tests are those of the patches' `Tests:` trailers, in vendor/vllm.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import interpreted

ORACLES = interpreted.ROOT / "tests" / "oracles"


def tests(project: Path) -> list[str]:
    """Paths below the checkout, in the order of the series."""
    names = [line.split("#")[0].strip() for line in (project / "series").read_text().splitlines()]
    found: list[str] = []
    for name in filter(None, names):
        header = (project / "patches" / name).read_text().split("\n---\n")[0]
        # "none [reason]" names no path.
        for line in re.findall(r"^Tests: (?!none \[)(.*)$", header, re.MULTILINE):
            found += [path for path in line.split() if path not in found]
    return found


def main(project: str, env: str, build: str, *arguments: str) -> int:
    home = Path(project).resolve()
    checkout, carried = home / "vendor" / "vllm", tests(home)
    missing = [path for path in carried if not (checkout / path).is_file()]
    if missing:
        print(f"{checkout} has no {missing[0]}; run `make apply`.", file=sys.stderr)
        return 1
    paths = [ORACLES, *(checkout / path for path in carried)]
    # The checkout goes last on the path, since its vllm/ has no extensions.
    return interpreted.pytest(env, build, checkout, paths, arguments, behind=[checkout])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
