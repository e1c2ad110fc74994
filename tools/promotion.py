"""Show what the list of acceptance asks for: run what this host allows, write the ledger.

On a CPU host the tests that tests/promotion.toml names run once each, file by file; what passed is
remembered, so that a stopped run goes on. On a GPU host the scripts run whose results are not in
bench/results for this series. What the ledger holds of this series already is kept. Writes
docs/promotion.json and docs/promotion.md; with --check only says whether they still hold.

exit codes: 0 nothing failed, 1 a requirement failed, 2 the list or the ledger is malformed, or the
ledger holds evidence of another series, 130 interrupted (what was finished is remembered)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tools import acceptance, files, gpu_jobs, ledger, lock, promotion_page, suites, testrun
from tools.errors import FINDINGS, OK, UsageError
from tools.gpu_jobs import Site
from tools.judgement import FAILED
from tools.project import Project
from tools.say import data, say

Runs = dict[tuple[str, str], dict[str, Any]]  # by host and unit
HOSTS = ("cpu", "gpu", "none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--check", action="store_true", help="only read the committed ledger")
    parser.add_argument(
        "--host",
        choices=HOSTS,
        help="what to run: tests on a CPU, scripts on a GPU, or nothing (default: what is here)",
    )
    parser.add_argument(
        "--model", default="", help="a checkpoint's folder or hub id, for GPU scripts"
    )
    parser.add_argument(
        "--tasks", default="", metavar="FILE", help="questions and answers, JSON lines"
    )
    parser.add_argument(
        "--python", default="python3", help="the Python that has the wheel, on a GPU"
    )
    parser.add_argument(
        "--from",
        dest="sources",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="take results, or another host's ledger, before",
    )
    testrun.add_limit(parser)


def run(project: Project, args: argparse.Namespace) -> int:
    listed = acceptance.load(project)
    series_id = lock.load(project.lock).series_id
    if args.check:
        table = ledger.check(project, listed, series_id)
        data(ledger.last_line(table))
        return FINDINGS if ledger.counts(table)[FAILED] else OK
    known = ledger.runs_of(project)
    for path in args.sources:
        known += _take(project, listed, path)
    # Of this series alone: a run of another one must not take the place of one of this.
    mine = [run for run in known if run["host"].get("series_id") == series_id]
    runs: Runs = {(run["on"], run["unit"]): run for run in mine}
    gpus = gpu_jobs.gpus()
    host = args.host or ("gpu" if gpus else "cpu")
    if host == "gpu":
        site = Site(args.python, gpus, args.model, args.tasks, args.limit)
        gpu_jobs.run(project, listed, site, series_id)
    elif host == "cpu":
        suite = suites.prepare(project, args.limit)
        if suite.facts["series_id"] != series_id:
            raise UsageError(
                "the CPU build is not of series.lock; run `make apply` and `make env`."
            )
        units = listed.units()
        for number, unit in enumerate(units, 1):
            say(f"promotion: {number} of {len(units)}")
            runs["cpu", unit] = suite.run(unit)
            _write(project, listed, series_id, runs)
    table = _write(project, listed, series_id, runs)
    for row in table["requirements"]:
        data(f"{row['verdict']:<8} {row['id']}")
    data(ledger.last_line(table))
    return FINDINGS if ledger.counts(table)[FAILED] else OK


def _write(
    project: Project, listed: acceptance.Acceptance, series_id: str, runs: Runs
) -> dict[str, Any]:
    """Write ledger and page, whole, whatever comes next."""
    table = ledger.assemble(project, listed, series_id, list(runs.values()))
    files.write(project.root / ledger.FILE, ledger.text(table).encode())
    files.write(project.root / promotion_page.FILE, promotion_page.page(table).encode())
    return table


def _take(project: Project, listed: acceptance.Acceptance, path: Path) -> list[dict[str, Any]]:
    """Take one file: a ledger, whose runs are returned, or results of a GPU."""
    try:
        table = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); name another.") from None
    if isinstance(table, dict) and "requirements" in table:
        found: list[dict[str, Any]] = ledger.load(path)["runs"]
        return found
    say(f"promotion: taken: {project.short(gpu_jobs.take(project, listed, path))}")
    return []
