"""What pytest said of the kernel tests on a GPU: `python ci/gpu/test_counts.py FOLDER`.

Reads the kernels-NAME.log and .xml files of a run of ci/gpu/kernel_tests.sh, on the host of that
run; writes tests.json beside them: the counts of each file, and by a test's id how many of its
cases passed, failed and were skipped. Exit code 1 if a log ends without passed tests.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

import host

from tools import junit

SAID = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected)")
SECONDS = re.compile(r" in ([\d.]+)s")


def counts(line: str) -> dict[str, int]:
    """Return how many tests passed, failed and so on, by pytest's last line."""
    return {name: int(count) for count, name in SAID.findall(line)}


def main() -> int:
    folder = Path(sys.argv[1])
    found: dict[str, dict[str, float]] = {}
    for log in sorted(folder.glob("kernels-*.log")):
        lines = log.read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else ""
        seconds = SECONDS.search(last)
        found[log.stem] = counts(last) | ({"seconds": float(seconds[1])} if seconds else {})
    tests: dict[str, list[int]] = {}
    for path in sorted(folder.glob("kernels-*.xml")):
        # A file's tests may be in several reports.
        for name, row in junit.counts(path).items():
            known = tests.get(name, [0, 0, 0])
            tests[name] = [a + b for a, b in zip(known, row, strict=True)]
    report = {
        "host": host.facts(),
        "command": "ci/gpu/kernel_tests.sh TESTS OUT",
        "passed": sum(int(said.get("passed", 0)) for said in found.values()),
        "files": found,
        "tests": tests,
    }
    (folder / "tests.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0 if found and all(said.get("passed") for said in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
