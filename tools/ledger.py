"""``docs/promotion.json``: each requirement with its evidence and verdict.

A ledger follows from the list, the runs of tests that it holds itself and bench/results, so whoever
has those can make it again and compare.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools import judgement, promotion_page, witness
from tools.acceptance import Acceptance
from tools.errors import UsageError
from tools.judgement import FAILED, NOT_RUN, PASSED
from tools.project import Project

FILE = "docs/promotion.json"
FORMAT = 1
COUNTS = 3  # passed, failed, skipped
CURE = "run `make promotion`"
KEYS = {"format", "series_id", "requirements", "runs"}
RUN_KEYS = {"on", "unit", "host", "outcome", "reason", "seconds", "tests"}
Table = dict[str, Any]


def assemble(project: Project, acceptance: Acceptance, series_id: str, runs: list[Table]) -> Table:
    """Judge every requirement by the runs, all of this series, and bench/results."""
    mine = sorted(runs, key=lambda run: (run["on"], run["unit"]))
    found = witness.collect(project, acceptance, series_id, mine)
    rows = []
    for one in acceptance.requirements:
        evidence = judgement.of(one, found)
        rows.append({
            "id": one.id, "topic": one.topic, "statement": one.statement,
            "verdict": judgement.verdict(evidence), "evidence": evidence,
        })  # fmt: skip
    return {"format": FORMAT, "series_id": series_id, "requirements": rows, "runs": mine}


def text(table: Table) -> str:
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def load(path: Path) -> Table:
    """Read a ledger."""
    try:
        table = json.loads(path.read_bytes())
        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise TypeError("it has another format")
        if table.keys() != KEYS:
            raise TypeError(f"it should hold {', '.join(sorted(KEYS))}")
        for run in table["runs"]:
            if run.keys() != RUN_KEYS or not isinstance(run["host"], dict):
                raise TypeError("a run of tests lacks a field")
            if any(len(row) != COUNTS for row in run["tests"].values()):
                raise TypeError("a count is not of three numbers")
        for row in table["requirements"]:
            if row["verdict"] not in (PASSED, FAILED, NOT_RUN):
                raise TypeError(f"{row['id']} has no verdict")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no ledger ({error}); restore it with git checkout.") from None
    return table


def runs_of(project: Project) -> list[Table]:
    """Return the runs of tests that the committed ledger holds, none if there is no ledger."""
    if not (project.root / FILE).exists():
        return []
    found: list[Table] = load(project.root / FILE)["runs"]
    return found


def check(project: Project, acceptance: Acceptance, series_id: str) -> Table:
    """Return the committed ledger; refuse one that does not follow from what it names."""
    table = load(project.root / FILE)
    others = {
        str(table["series_id"]),
        *(str(run["host"].get("series_id")) for run in table["runs"]),
    }
    others |= {
        str(host.get("series_id"))
        for row in table["requirements"]
        for evidence in row["evidence"]
        for host in evidence.get("hosts", [])
    }
    others.discard(series_id)
    if others:
        names = ", ".join(one[: witness.SHORT] for one in sorted(others))
        raise UsageError(
            f"{FILE} holds evidence of series {names}, and series.lock names "
            f"{series_id[: witness.SHORT]}; {CURE}."
        )
    made = assemble(project, acceptance, series_id, table["runs"])
    if made != table:
        raise UsageError(
            f"{FILE} does not follow from tests/promotion.toml, its runs and bench/results "
            f"({_difference(made, table)}); {CURE}."
        )
    page = project.root / promotion_page.FILE
    if not page.is_file() or page.read_text(encoding="utf-8") != promotion_page.page(table):
        raise UsageError(f"{promotion_page.FILE} does not show {FILE}; {CURE}.")
    return table


def _difference(made: Table, table: Table) -> str:
    here = {row["id"]: row for row in table["requirements"]}
    for row in made["requirements"]:
        if here.get(row["id"]) != row:
            return f"the first difference is {row['id']}"
    return "its requirements or runs are others"


def counts(table: Table) -> dict[str, int]:
    said = [row["verdict"] for row in table["requirements"]]
    return {verdict: said.count(verdict) for verdict in (PASSED, FAILED, NOT_RUN)}


def last_line(table: Table) -> str:
    return "promotion: " + ", ".join(f"{number} {name}" for name, number in counts(table).items())
