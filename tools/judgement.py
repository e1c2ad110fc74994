"""What the evidence of a requirement says: passed, failed, or not run and why."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from tools import witness
from tools.acceptance import Requirement
from tools.witness import Evidence, Row

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
# How a value may be held to its bound.
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "is": lambda value, bound: type(value) is type(bound) and bool(value == bound),
    "least": lambda value, bound: _is_number(value) and bool(value >= bound),
    "most": lambda value, bound: _is_number(value) and bool(value <= bound),
    "holds": lambda value, bound: isinstance(value, str) and bound in value,
}


def of(one: Requirement, found: Evidence) -> list[Row]:
    """Return each piece of evidence that a requirement names, with its verdict."""
    rows = [tests(one.cpu, "cpu", found.runs, "`make promotion` on a CPU")] if one.cpu else []
    if one.gpu:
        rows.append(_gpu_tests(one.gpu, found))
    rows += [_value(entry, found) for entry in one.json]
    rows += [_target(name, found) for name in one.targets]
    return rows + [_ratio(entry, found) for entry in one.ratios]


def verdict(rows: Iterable[Row]) -> str:
    """All must have passed; one that failed is enough to fail."""
    said = {row["verdict"] for row in rows}
    if FAILED in said:
        return FAILED
    return PASSED if said == {PASSED} else NOT_RUN


# ---- tests -----------------------------------------------------------------------------------


def tests(ids: Iterable[str], on: str, runs: list[Row], maker: str) -> Row:
    """Look tests up in the runs of one kind of host: every case of each must have passed."""
    counts: dict[str, list[int] | None] = {}
    reasons: dict[str, list[str]] = {FAILED: [], NOT_RUN: []}
    hosts_of: list[Row] = []
    for name in ids:
        path = name.partition("::")[0]
        mine = [r for r in runs if r["on"] == on and r["tests"].keys() & {name, path}]
        counts[name] = None
        if not mine:
            reasons[NOT_RUN].append(f"{name} has not run on this series; {maker} runs it")
            continue
        hosts_of += [run["host"] for run in mine if run["host"] not in hosts_of]
        if any(path in run["tests"] for run in mine):
            reasons[FAILED].append(f"{path} could not be collected")
            continue
        # Of several hosts: what one of them shows must hold on all.
        good, bad, skipped = map(sum, zip(*(run["tests"][name] for run in mine), strict=True))
        counts[name] = [good, bad, skipped]
        if bad:
            reasons[FAILED].append(f"{name}: {bad} of {good + bad + skipped} cases failed")
        elif skipped or not good:
            reasons[NOT_RUN].append(f"{name}: {skipped} cases were skipped")
    said = FAILED if reasons[FAILED] else NOT_RUN if reasons[NOT_RUN] else PASSED
    return {
        "kind": "tests", "on": on, "tests": counts, "hosts": hosts_of,
        "verdict": said, "reason": _few(reasons.get(said, [])),
    }  # fmt: skip


def _gpu_tests(ids: tuple[str, ...], found: Evidence) -> Row:
    """Tests on a GPU: a file of bench/results holds what became of each."""
    of_series, others = witness.split("tests", found)
    runs = [
        {"on": "gpu", "host": table["host"], "tests": table.get("tests", {})}
        for table in of_series.values()
    ]
    row = tests(ids, "gpu", runs, found.acceptance.sources["tests"].command)
    if not of_series:
        row["reason"] = witness.absent("tests", others, found)
    return row


# ---- files and figures -----------------------------------------------------------------------


def _value(entry: Row, found: Evidence) -> Row:
    name, key = entry["file"], entry["key"]
    bound = next(word for word in HOLDS if word in entry)
    row: Row = {"kind": "json", "file": name, "key": key, bound: entry[bound], "hosts": []}
    here, others = witness.split(name, found)
    if not here:
        return row | {"verdict": NOT_RUN, "reason": witness.absent(name, others, found)}
    row |= {"values": {}, "hosts": [table["host"] for table in here.values() if "host" in table]}
    missing, wrong = [], []
    for path, table in here.items():
        try:
            value = _reach(table, key)
        except (KeyError, IndexError, TypeError):
            missing.append(f"{path} has no {_key(key)}")
            continue
        row["values"][path] = value
        if not HOLDS[bound](value, entry[bound]):
            wrong.append(f"{path}: {_key(key)} is {json.dumps(value)}")
    said = FAILED if wrong else NOT_RUN if missing else PASSED
    return row | {"verdict": said, "reason": _few(wrong or missing)}


def _reach(table: Any, key: list[Any]) -> Any:
    for part in key:
        table = table[part]
    return table


def _key(key: list[Any]) -> str:
    return ".".join(map(str, key))


def _target(name: str, found: Evidence) -> Row:
    figure = found.figures[name]
    facts = [run["host"] for run in figure["runs"]]
    others = sorted(
        {
            host["series_id"][: witness.SHORT]
            for host in facts
            if host["series_id"] != found.series_id
        }
    )
    row: Row = {"kind": "target", "name": name, "must": figure["must"], "worst": figure["worst"]}
    row |= {"file": figure["file"], "hosts": [] if others else facts}
    if figure["worst"] is None:
        return row | {"verdict": NOT_RUN, "reason": "not measured"}
    if others:
        return row | {"verdict": NOT_RUN, "reason": f"evidence of series {', '.join(others)}"}
    if figure["short_rows"]:
        return row | {"verdict": FAILED, "reason": f"{figure['short_rows']} rows fall short"}
    if figure["missing_rows"]:
        return row | {"verdict": NOT_RUN, "reason": f"{figure['missing_rows']} rows are missing"}
    return row | {"verdict": PASSED, "reason": ""}


def _ratio(entry: Row, found: Evidence) -> Row:
    name, bound = entry["file"], "least" if "least" in entry else "most"
    what = f"{entry['field']}, {entry['of']} over {entry['over']}"
    row: Row = {"kind": "ratio", "file": name, "what": what, bound: entry[bound], "hosts": []}
    tables = found.tables.get(name, {})
    if not tables:
        return row | {"verdict": NOT_RUN, "reason": witness.absent(name, [], found)}
    groups, facts, others = _grouped(entry, tables, found.series_id)
    lacking = [group for group, modes in groups.items() if not all(modes.values())]
    if others or len(lacking) == len(groups):
        reason = f"evidence of series {', '.join(others)}" if others else "not measured"
        return row | {"verdict": NOT_RUN, "reason": reason}
    if lacking:
        reasons = [f"{group}: one side was not measured" for group in lacking]
        return row | {"verdict": NOT_RUN, "reason": _few(reasons)}
    found_ratios = {
        group: statistics.median(modes[entry["of"]]) / statistics.median(modes[entry["over"]])
        for group, modes in groups.items()
    }
    wrong = [
        f"{group}: {value:.3f}"
        for group, value in found_ratios.items()
        if not HOLDS[bound](value, entry[bound])
    ]
    worst = (min if bound == "least" else max)(found_ratios.values())
    row |= {"worst": round(worst, 4), "groups": len(found_ratios), "hosts": facts}
    return row | {"verdict": FAILED if wrong else PASSED, "reason": _few(wrong)}


def _grouped(
    entry: Row, tables: dict[str, Row], series_id: str
) -> tuple[dict[str, dict[str, list[float]]], list[Row], list[str]]:
    """Return values by group and mode, the hosts, and which other series rows are of."""
    groups: dict[str, dict[str, list[float]]] = {}
    facts: list[Row] = []
    others: set[str] = set()
    for table in tables.values():
        for row in table.get(entry["rows"], []):
            mine = all(row.get(key) == value for key, value in entry.get("where", {}).items())
            if not mine or row["mode"] not in (entry["of"], entry["over"]):
                continue
            host = table["runs"][row["run"]]["host"]
            if host["series_id"] != series_id:
                others.add(host["series_id"][: witness.SHORT])
            facts += [host] if host not in facts else []
            group = ", ".join(str(row[key]) for key in entry["by"])
            values = groups.setdefault(group, {entry["of"]: [], entry["over"]: []})
            values[row["mode"]].append(float(row[entry["field"]]))
    return groups, facts, sorted(others)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _few(reasons: list[str]) -> str:
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return reasons[0] + more if reasons else ""
