"""What evidence there is: runs of tests, files of bench/results, figures of bench/targets.toml."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.acceptance import Acceptance
from tools.errors import UsageError
from tools.project import Project

RESULTS = "bench/results"
SHORT = 12  # letters of a series id, as they are shown
Row = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """All there is, to be looked up in."""

    acceptance: Acceptance
    series_id: str
    runs: list[Row]  # of tests
    tables: dict[str, dict[str, Row]]  # what [file] names -> path -> content
    figures: dict[str, Row] = field(default_factory=dict)  # of bench/targets.toml


def collect(project: Project, acceptance: Acceptance, series_id: str, runs: list[Row]) -> Evidence:
    """Read bench/results."""
    folder = project.root / RESULTS
    tables: dict[str, dict[str, Row]] = {}
    for path in sorted(folder.glob("*.json")):
        name = source_of(path.stem, acceptance)
        if name:
            tables.setdefault(name, {})[f"{RESULTS}/{path.name}"] = read(path)
    wanted = sorted({name for one in acceptance.requirements for name in one.targets})
    return Evidence(acceptance, series_id, runs, tables, _figures(project, wanted))


def source_of(stem: str, acceptance: Acceptance) -> str:
    """Return the name in GPU-NAME, the longest one: either may have a dash."""
    names = [name for name in acceptance.sources if stem.endswith(f"-{name}")]
    return max(names, key=len, default="")


def read(path: Path) -> Row:
    """Return a file of results."""
    try:
        table = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); restore or delete it.") from None
    if not isinstance(table, dict) or not hosts(table):
        raise UsageError(f"{path} names no host and series, so it is no evidence; delete it.")
    return table


def hosts(table: Row) -> list[Row]:
    """Return the facts of the hosts that a file's measurements are of."""
    runs = table["runs"] if isinstance(table.get("runs"), list) else [table]
    found = [run.get("host") for run in runs if isinstance(run, dict)]
    return [host for host in found if isinstance(host, dict) and host.get("series_id")]


def _figures(project: Project, names: list[str]) -> dict[str, Row]:
    if not names:
        return {}
    argv = [sys.executable, str(project.root / "bench" / "quote.py"), *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise UsageError(f"bench/quote.py cannot read its figures ({last}); correct that.")
    return {row["name"]: row for row in json.loads(done.stdout)}


def split(name: str, found: Evidence) -> tuple[dict[str, Row], list[str]]:
    """Return the files of this series, and the ids of the other series that files are of."""
    here: dict[str, Row] = {}
    others: list[str] = []
    for path, table in found.tables.get(name, {}).items():
        ids = {host["series_id"] for host in hosts(table)}
        if ids == {found.series_id}:
            here[path] = table
        else:
            others += sorted(ids - {found.series_id})
    return here, others


def absent(name: str, others: list[str], found: Evidence) -> str:
    source = found.acceptance.sources[name]
    if others:
        return f"evidence of series {', '.join(one[:SHORT] for one in dict.fromkeys(others))}"
    maker = f"; `{source.command}` makes it" if source.command else ""
    return f"no {RESULTS}/GPU-{name}.json: it needs {source.needs}{maker}"
