"""What compute-sanitizer said: `python ci/gpu/sanitizer_report.py FOLDER TOOL ...`.

Reads TOOL-FILE.log and .rc of ci/gpu/sanitize.sh, on the host of that run; writes sanitizer.json
beside them. Exit code 1 if a tool found something, a test failed, or a run did not end.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import host
from test_counts import counts

SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")
TIMED_OUT = 124


def read(log: Path) -> dict[str, object]:
    """Return the tool's summary and how many tests passed under it."""
    text = log.read_text(errors="replace")
    code = int(log.with_suffix(".rc").read_text())
    said = SUMMARY.findall(text)
    ends = [line for line in text.splitlines() if line.startswith("=") and " in " in line]
    return {
        "exit_code": code,
        "summary": "stopped" if code == TIMED_OUT else said[-1].strip() if said else "none",
        "tests": counts(ends[-1]) if ends else {},
        "passed_lines": text.count("PASSED"),
    }


def main() -> int:
    folder = Path(sys.argv[1])
    found = {log.stem: read(log) for log in sorted(folder.glob("*check-*.log"))}
    report = {
        "host": host.facts(),
        "command": " ".join(["ci/gpu/sanitize.sh TESTS OUT", *sys.argv[2:]]),
        "runs": found,
    }
    (folder / "sanitizer.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    return 0 if found and all(run["exit_code"] == 0 for run in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
