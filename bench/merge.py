"""One file of measurements out of several: `python bench/merge.py OUT.json FILE.json ...`.

For what was measured on several GPUs at once. The files must have been measured with equal
settings; of a row that several hold, the last file's stays.
Exit codes: 0 done, 2 usage or files that do not belong together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import engines
import latency
import store

# The tables that a file may hold, and what identifies their rows.
TABLES = {"engine": engines.TABLES, "latency": {"rows": latency.FIELDS}}


def ages(found: list[dict[str, Any]]) -> dict[str | None, int]:
    """Number the series, older ones lower: in a file that goes on from another they come first.

    Rows of an older series give way to those of a newer one, whichever lane measured them.
    """
    age: dict[str | None, int] = {}
    for data in found:
        order = list(dict.fromkeys(store.series(run) for run in data["runs"]))
        for number, series in enumerate(order):
            age[series] = max(age.get(series, 0), number)
    return age


def without_repeats(data: dict[str, Any], tables: Iterable[str]) -> None:
    """Leave a run out that no row names, and name one that several files hold once."""
    rows = [row for table in tables for row in data[table]]
    used = {row["run"] for row in rows}
    named = [data["runs"][number] for number in used]
    runs: list[dict[str, Any]] = []
    for run in data["runs"]:
        if run in named and run not in runs:
            runs.append(run)
    for row in rows:
        row["run"] = runs.index(data["runs"][row["run"]])
    data["runs"] = runs


def merge(out: Path, files: list[Path]) -> str | None:
    """Write the rows of `files` to `out`; return a sentence if they do not belong together."""
    kind = out.stem.rsplit("-", 1)[-1]
    if kind not in TABLES:
        return f"{out.name} is no name of measurements; it must end in -{' or -'.join(TABLES)}."
    found = [store.read(path) for path in files]
    for path, data in zip(files, found, strict=True):
        lacks = [name for name in ("settings", *TABLES[kind]) if name not in data]
        if lacks:
            return f"{path} has no {lacks[0]}, so it is no file of {kind} measurements; drop it."
        if data["settings"] != found[0]["settings"]:
            return f"{path} was measured with other settings than {files[0]}; measure it again."
    out.unlink(missing_ok=True)
    made = store.Store(out, TABLES[kind], found[0]["settings"])
    runs = [(data, number, run) for data in found for number, run in enumerate(data["runs"])]
    age = ages(found)
    for data, number, run in sorted(runs, key=lambda found: age[store.series(found[2])]):
        made.begin(run)
        for table in TABLES[kind]:
            for row in data[table]:
                if row["run"] == number:
                    made.add(table, row, save=False)
    without_repeats(made.data, TABLES[kind])
    made.write()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    try:
        reason = merge(args.out, args.files)
    except store.UnreadableError as error:
        reason = str(error)
    if reason:
        print(reason, file=sys.stderr)
    return 2 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
