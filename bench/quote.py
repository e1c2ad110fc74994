"""Print measured figures of bench/targets.toml as JSON: `python bench/quote.py NAME ...`.

Each with its worst row, how many rows fall short or are missing, and the runs its rows are of.
Exit codes: 0 printed, 2 no such figure or an unreadable file.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import check
import store
from figures import FIGURES, rows_of


def runs_of(target: dict[str, Any], rows: list[dict[str, Any]]) -> list[int]:
    """Return the runs that the measured rows of a target are of."""
    found: set[int] = set()
    for row in rows:
        mine = all(row.get(name) in values for name, values in target["rows"].items())
        if mine and FIGURES[target["figure"]](row) is not None:
            found |= {row["run"]} if "run" in row else row["modes"]["window"]["runs"]
    return sorted(found)


def figure(target: dict[str, Any], files: dict[str, dict[str, Any]], gpu: str) -> dict[str, Any]:
    """Return one figure as it stands."""
    source = target["source"]
    rows = rows_of(source, files)
    verdict = check.judge(target, rows)
    runs = files[source]["runs"] if source in files else []
    unit = target["unit"]
    return {
        "name": target["name"],
        "worst": None if verdict.worst is None else check.number(verdict.worst, unit),
        "must": check.bound(target),
        "before": check.number(target["native"], unit) if "native" in target else None,
        "measured_rows": len(verdict.reached) + len(verdict.short),
        "short_rows": len(verdict.short),
        "missing_rows": len(verdict.missing),
        "file": f"bench/results/{gpu}-{check.SOURCES[source]}.json",
        "runs": [
            {"host": runs[number]["host"], "command": runs[number]["command"]}
            for number in runs_of(target, rows)
        ],
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="targets by name; none: all")
    check.add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        files = check.files(args.results, args.gpu)
    except store.UnreadableError as error:
        print(error, file=sys.stderr)
        return 2
    known = {target["name"]: target for target in check.targets()}
    for name in args.names:
        if name not in known:
            print(f"bench/targets.toml has no target {name!r}.", file=sys.stderr)
            return 2
    wanted = args.names or list(known)
    print(json.dumps([figure(known[name], files, args.gpu) for name in wanted], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
