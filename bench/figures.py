"""The figures that tables, plots and targets are about, computed from measured rows.

A figure of a row that lacks what it needs is None: not measured.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

Row = dict[str, Any]
LEAST_REPEATS = 2  # of a mode whose ratio is resolved

# ---- kernels: one row a shape ----------------------------------------------------------------


def native_us(row: Row) -> float | None:
    """Return the better of upstream's paths; both must have been measured."""
    us = row["us"]
    if "snapshot_cuda" not in us or "snapshot_triton" not in us:
        return None
    return float(min(us["snapshot_cuda"], us["snapshot_triton"]))


def verify_us(row: Row) -> float | None:
    """After the convolution, up to the gated RMSNorm."""
    return row["us"].get("verify_convolved")


def step_us(row: Row) -> float | None:
    """Return the mean time of a step over a cycle from commit to commit."""
    return row["us"].get("step")


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def speedup(row: Row) -> float | None:
    """Native over a step, its share of the commits in it."""
    return _ratio(native_us(row), step_us(row))


def commit_over_floor(row: Row) -> float | None:
    """The commit over one read and one write of the states."""
    return _ratio(row["us"].get("commit"), row["floor_us"]["read_write"])


def memory_in_states(row: Row) -> float | None:
    """Block and window of a request, in blocks of snapshots, of which those need T.

    A block of snapshots has room for the convolution inputs of the drafts as well.
    """
    found = row.get("bytes")
    return (found["state"] + found["window"]) / found["snapshot"] if found else None


def native_errors(errors: dict[str, float]) -> list[float]:
    """Return the errors of upstream's paths."""
    return [error for name, error in errors.items() if name.startswith("snapshot")]


def window_errors(errors: dict[str, float]) -> list[float]:
    """Return the errors of the window: committed after another step, and ahead of it."""
    return [error for name, error in errors.items() if not name.startswith("snapshot")]


def _worst(errors: list[float]) -> float | None:
    """The greatest, or what is no number, which every comparison then fails."""
    return max(errors, key=lambda e: (math.isnan(e), e), default=None)


def state_error(row: Row) -> float | None:
    """Relative error against fp64 of the state with the accepted prefix committed."""
    return _worst(window_errors(row["check"]["state_error"]))


def output_error_ratio(row: Row) -> float | None:
    """Error of the verify's outputs against fp64 over that of the worse snapshot's."""
    errors = row["check"]["output_error"]
    return _ratio(_worst(window_errors(errors)), _worst(native_errors(errors)))


# ---- engines: one row a measurement, several repeats ------------------------------------------

SAME_LOAD = ("geometry", "drafts", "level", "batch")
TURN = (*SAME_LOAD, "repeat", "run")


def place(row: Row) -> str:
    """Return the geometry, and whether the engine had the GPU to itself."""
    return f"{row['geometry']}, alone" if row.get("alone") else str(row["geometry"])


def medians(rows: Iterable[Row]) -> list[Row]:
    """One row for each engine and load, its numbers the medians over the repeats."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found_at = {**row, "geometry": place(row)}
        groups[row["mode"], *(found_at[name] for name in SAME_LOAD)].append(found_at)
    found = []
    for group in groups.values():
        numbers = {
            name: statistics.median(row[name] for row in group)
            for name, value in group[0].items()
            if isinstance(value, float)
        }
        rates = sorted(row["tokens_per_s"] for row in group)
        found.append(
            {**group[0], **numbers, "repeats": len(group), "spread": (rates[0], rates[-1]),
             "running": max(row["running"] for row in group),
             "runs": {row["run"] for row in group}}
        )  # fmt: skip
    return found


def in_turns(rows: Iterable[Row]) -> list[Row]:
    """The rows without the repeats of a load that one run measured of a mode with drafts alone.

    A machine drifts: of window and snapshots those repeats are compared that took turns. A load
    without any keeps what it has, and so does an engine that had the GPU to itself.
    """
    rows = list(rows)
    turns: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in rows:
        turns[tuple(row[name] for name in TURN)].add(row["mode"])
    both = {turn for turn, modes in turns.items() if {"window", "snapshot"} <= modes}
    loads = {turn[: len(SAME_LOAD)] for turn in both}
    kept = []
    for row in rows:
        turn = tuple(row[name] for name in TURN)
        took_none = row.get("alone") or row["mode"] not in ("window", "snapshot")
        if took_none or turn in both or turn[: len(SAME_LOAD)] not in loads:
            kept.append(row)
    return kept


def compared(rows: Iterable[Row]) -> list[Row]:
    """One row for each load: the modes side by side.

    No speculation does not depend on drafts or acceptance, so it stands beside all of them.
    """
    rows = in_turns(rows)
    by_load: dict[tuple[Any, ...], Row] = {}
    plain: dict[tuple[Any, ...], Row] = {}
    for row in medians(rows):
        if row["drafts"] == 0:
            plain[row["geometry"], row["batch"]] = row
            continue
        key = tuple(row[name] for name in SAME_LOAD)
        load = by_load.setdefault(key, {**dict(zip(SAME_LOAD, key, strict=True)), "modes": {}})
        load["modes"][row["mode"]] = row
    for load in by_load.values():
        if found := plain.get((load["geometry"], load["batch"])):
            load["modes"]["none"] = found
        load["T"] = load["drafts"] + 1
    return list(by_load.values())


def _against(mode: str, load: Row) -> float | None:
    """Window over a mode, of the same runs; none where too small a cache held that mode back.

    State blocks that run out are the snapshots' price, but no speculation needs few of them.
    Where they do, prompts that waited are part of the rate, so all prompts are: on both sides.
    """
    rows = [load["modes"].get(name) for name in ("window", mode)]
    if None in rows or rows[0]["runs"] != rows[1]["runs"]:
        return None
    if mode == "none" and out_of_blocks(rows[1]):
        return None
    rate = "with_prefill_tokens_per_s" if any(map(out_of_blocks, rows)) else "tokens_per_s"
    return _ratio(rows[0][rate], rows[1][rate])


def over_all_loads(loads: Iterable[Row]) -> dict[tuple[str, int], tuple[float, float, int]]:
    """(geometry, drafts) -> geometric mean of window over snapshot, its error, loads.

    Of the loads at which the whole batch ran on both sides. The error is a factor, of two standard
    errors over the loads: each load counts once, however often it was repeated.
    """
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for load in loads:
        ratio = _against("snapshot", load)
        modes = [load["modes"].get(mode) for mode in ("window", "snapshot")]
        if ratio and not any(map(out_of_blocks, modes)):
            found[load["geometry"], load["drafts"]].append(math.log(ratio))
    return {
        of: (
            math.exp(statistics.mean(logs)),
            math.exp(2 * statistics.stdev(logs) / math.sqrt(len(logs))),
            len(logs),
        )
        for of, logs in found.items()
        if len(logs) > 1
    }


def scattered(mode: str, load: Row) -> bool:
    """Whether repeats of window and mode overlap or are too few, so their ratio is not resolved."""
    if min(load["modes"][m]["repeats"] for m in ("window", mode)) < LEAST_REPEATS:
        return True
    (low, high), (other_low, other_high) = (load["modes"][m]["spread"] for m in ("window", mode))
    return bool(low <= other_high and other_low <= high)


def window_over_snapshot(load: Row) -> float | None:
    """Tokens per second of the window over those of the snapshots."""
    return _against("snapshot", load)


def window_over_none(load: Row) -> float | None:
    """Tokens per second of the window over those without speculation."""
    return _against("none", load)


def out_of_blocks(row: Row) -> bool:
    """Whether requests had to wait: fewer ran together than were asked for."""
    return bool(row["running"] < row["batch"])


FIGURES: dict[str, Callable[[Row], float | None]] = {
    function.__name__: function
    for function in (
        verify_us, speedup, commit_over_floor, memory_in_states, state_error, output_error_ratio,
        window_over_snapshot, window_over_none,
    )
}  # fmt: skip


def rows_of(source: str, files: dict[str, dict[str, Any]]) -> list[Row]:
    """Return the rows that a target of this source is about; no file, no rows."""
    rows = files.get(source, {}).get("rows", [])
    return compared(rows) if source == "engine" else rows
