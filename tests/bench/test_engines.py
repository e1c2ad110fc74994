"""The engine benchmark without an engine: order, resuming, failures, the clock."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path

import engines
import figures
import modes
import pages
import plan
import pytest
import store

FAKE = [sys.executable, str(Path(__file__).with_name("fake_engine.py"))]
LEGS = [plan.Leg("qwen3.5-0.8b", mode, 0 if mode == "none" else 4) for mode in plan.MODES]
SETTINGS = {"gpu": "fake"}


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "trace"
    monkeypatch.setenv("FAKE_TRACE", str(path))
    for name in ("FAKE_BROKEN", "FAKE_SLOW", "FAKE_DIES"):
        monkeypatch.delenv(name, raising=False)
    return path


def session(folder: Path, **changes: object) -> engines.Session:
    values = {
        "batches": [1, 128], "repeats": 2, "kv_gib": None, "compiled": False, "tiny": None,
        "seconds": 60, "levels": list(plan.LEVELS[1]), "ranks": 1, "executor": "mp",
        "hold": None,
    }  # fmt: skip
    found = store.Store(folder / "fake-engine.json", engines.TABLES, SETTINGS)
    found.begin({"host": {}, "command": "test"})
    return engines.Session(argparse.Namespace(**(values | changes)), found, FAKE)


def rows(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((folder / "fake-engine.json").read_text())["rows"]
    return found


def measured(trace: Path) -> list[str]:
    return [line for line in trace.read_text().splitlines() if line.split()[1] not in "startend"]


def test_engines_take_turns_at_each_load_and_another_is_first_in_each_repeat(
    tmp_path: Path, trace: Path
) -> None:
    assert session(tmp_path).run([LEGS]) == 0
    assert measured(trace)[:12] == [
        "none 1 None 0", "snapshot 1 3.0 0", "window 1 3.0 0",
        "none 128 None 0", "snapshot 128 3.0 0", "window 128 3.0 0",
        "snapshot 1 3.0 1", "window 1 3.0 1", "none 1 None 1",
        "snapshot 128 3.0 1", "window 128 3.0 1", "none 128 None 1",
    ]  # fmt: skip
    # Low and high acceptance come behind the middle one, and not for no speculation.
    assert measured(trace)[12:14] == ["snapshot 1 2.0 0", "window 1 2.0 0"]
    assert len(rows(tmp_path)) == 2 * 2 * (1 + 3 + 3)
    assert trace.read_text().count("end") == 3


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, trace: Path) -> None:
    """Seven rows were written; an engine with nothing left is not started again."""
    assert session(tmp_path).run([LEGS]) == 0
    data = json.loads((tmp_path / "fake-engine.json").read_text())
    kept = [row for row in data["rows"] if row["mode"] != "window"]
    data["rows"] = kept
    (tmp_path / "fake-engine.json").write_text(json.dumps(data))
    trace.unlink()
    assert session(tmp_path).run([LEGS]) == 0
    assert {line.split()[0] for line in trace.read_text().splitlines()} == {"window"}
    found = rows(tmp_path)
    assert found[: len(kept)] == kept
    assert [row["run"] for row in found] == [0] * len(kept) + [1] * 12
    trace.unlink()
    assert session(tmp_path).run([LEGS]) == 0
    assert not trace.exists()


def test_an_engine_that_does_not_start_leaves_the_others_measured(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_BROKEN", "window")
    run = session(tmp_path)
    assert run.run([LEGS]) == 1
    assert {row["mode"] for row in rows(tmp_path)} == {"none", "snapshot"}
    (said,) = run.failed
    assert "window 4 drafts ended with exit code 3" in said
    assert "ValueError: no room for the cache" in said
    assert "12 measurements are left" in capsys.readouterr().out


def test_an_engine_that_dies_on_the_way_loses_only_what_follows(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DIES", "snapshot:3")
    run = session(tmp_path)
    assert run.run([LEGS]) == 1
    by_mode = [row["mode"] for row in rows(tmp_path)]
    assert [by_mode.count(mode) for mode in plan.MODES] == [4, 3, 12]
    assert len(run.failed) == 1


def test_alone_one_ends_before_the_next_starts_and_its_rows_say_so(
    tmp_path: Path, trace: Path
) -> None:
    """Rows of engines that share the GPU neither count for those alone nor go lost."""
    assert session(tmp_path).run([LEGS]) == 0
    kept, total = rows(tmp_path), len(rows(tmp_path))
    trace.unlink()
    parties = plan.parties(plan.groups([("qwen3.5-0.8b", 4)], alone=True), 134)
    assert [leg.mode for (leg,) in parties] == ["snapshot", "window", "none"]
    assert session(tmp_path).run(parties) == 0
    said = [line.split() for line in trace.read_text().splitlines()]
    assert [mode for mode, what, *_ in said if what in {"start", "end"}] == [
        "snapshot", "snapshot", "window", "window", "none", "none",
    ]  # fmt: skip
    assert [mode for mode, *_ in said] == ["snapshot"] * 14 + ["window"] * 14 + ["none"] * 6
    found = rows(tmp_path)
    assert found[:total] == kept
    assert all("alone" not in row for row in kept)
    assert len(found) == 2 * total
    assert all(row["alone"] for row in found[total:])
    assert len(figures.compared(found)) == 2 * 3 * 2
    trace.unlink()
    assert session(tmp_path).run(parties) == 0
    assert not trace.exists()


def test_engines_alone_share_the_seconds(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one leaves over is the next one's; one with nothing to measure gets none."""
    clock, given = [0.0], []
    monkeypatch.setattr(engines.time, "monotonic", lambda: clock[0])
    run = session(tmp_path, seconds=600)

    def party(legs: list[plan.Leg], deadline: float) -> None:
        given.append((legs[0].mode, deadline - clock[0]))
        clock[0] += 100

    monkeypatch.setattr(run, "party", party)
    alone = [[plan.Leg(leg.geometry, leg.mode, leg.drafts, alone=True)] for leg in LEGS]
    run.run(alone)
    assert given == [("none", 200), ("snapshot", 250), ("window", 400)]
    given.clear()
    for item in plan.turns(alone[0], [1, 128], 2):
        run.found.add("rows", item.fields)
    run.run(alone)
    assert given == [("snapshot", 150), ("window", 200)]
    given.clear()
    run.run([LEGS, LEGS])
    assert given == [("none", 100), ("none", 0)]


def test_nothing_is_measured_while_engines_are_held(tmp_path: Path, trace: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    run = session(tmp_path, hold=hold)
    running = threading.Thread(target=run.run, args=([LEGS],))
    running.start()
    until = time.monotonic() + 20
    while not trace.exists() or trace.read_text().count("start") < len(LEGS):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(1)
    assert measured(trace) == []
    hold.unlink()
    running.join(20)
    assert len(measured(trace)) == run.total


def test_a_start_that_outlasts_its_seconds_is_ended(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SLOW", "none")
    run = session(tmp_path, seconds=1)
    before = time.monotonic()
    assert run.run([LEGS[:1]]) == 1
    assert time.monotonic() - before < 10
    (said,) = run.failed
    assert "qwen3.5-0.8b none did not answer in 1 s" in said


def test_behind_the_deadline_nothing_begins(tmp_path: Path, trace: Path) -> None:
    assert session(tmp_path, seconds=-1).run([LEGS]) == 1
    assert not trace.exists()


def test_rows_say_what_ran_together(tmp_path: Path, trace: Path) -> None:
    session(tmp_path).run([LEGS])
    loads = figures.compared(rows(tmp_path))
    assert len(loads) == 3 * 2
    load = next(x for x in loads if x["batch"] == 128 and x["level"] == "high")
    assert load["T"] == 5
    assert figures.window_over_snapshot(load) == pytest.approx(1.5)
    assert figures.window_over_none(load) == pytest.approx(3.0)
    assert figures.out_of_blocks(load["modes"]["snapshot"])
    assert not figures.out_of_blocks(load["modes"]["window"])


# ---- what starts together --------------------------------------------------------------------


def test_parties_fit_the_gpu_and_lose_no_engine() -> None:
    groups = plan.groups(plan.GROUPS)
    parties = plan.parties(groups, 134)
    assert [leg for party in parties for leg in party] == [leg for g in groups for leg in g]
    assert all(sum(leg.gib() for leg in party) <= 134 for party in parties)
    assert all(len(party) <= plan.MOST_ENGINES for party in parties)
    # What is compared starts together.
    assert {(leg.geometry, leg.mode) for leg in parties[0] if leg.drafts != 4} == {
        ("qwen3.6-27b-8-of-64-layers", "none")
    }
    names = [leg for g in groups for leg in g if leg.mode == "none"]
    assert len(names) == len({leg.geometry for leg in names}) == 3


def test_a_group_too_big_for_the_gpu_is_cut_and_an_engine_too_big_is_refused() -> None:
    whole = plan.groups([("qwen3.6-27b", 4)])
    assert [[leg.mode for leg in party] for party in plan.parties(whole, 180)] == [
        ["snapshot", "window"], ["none"],
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"need 142 GiB together and the GPU has 134; set"):
        plan.parties(whole, 134.2)


def test_the_whole_27b_fits_alone_and_no_engine_without_room_is_tried() -> None:
    whole = plan.groups([("qwen3.6-27b", 4)], alone=True)
    parties = plan.parties(whole, 134.2)
    assert [leg.mode for (leg,) in parties] == ["snapshot", "window", "none"]
    assert {leg.kv_gib() for (leg,) in parties} == {60}
    assert {leg.kv_gib(40) for (leg,) in parties} == {40}
    with pytest.raises(ValueError, match=r"alone need 153 GiB together"):
        plan.parties(whole, 134.2, 90)


@pytest.mark.parametrize("alone", [False, True])
def test_no_speculation_is_measured_once_for_each_geometry(*, alone: bool) -> None:
    pairs = [("qwen3.5-0.8b", 4), ("qwen3.5-0.8b", 7)]
    (party,) = plan.parties(plan.groups(pairs, ["none"], alone=alone), 134)
    assert party == [plan.Leg("qwen3.5-0.8b", "none", 0, alone)]


def test_window_and_snapshot_get_equal_caches() -> None:
    for name, drafts in plan.GROUPS:
        window, snapshot = (plan.Leg(name, mode, drafts) for mode in ("window", "snapshot"))
        assert window.kv_gib() == snapshot.kv_gib()
        assert window.kv_gib(9) == snapshot.kv_gib(9) == 9
        assert window.levels == snapshot.levels
        assert len(window.levels) == (1 if name == "tiny" else 3)


def test_acceptance_lengths_are_possible() -> None:
    for drafts, levels in plan.LEVELS.items():
        assert levels["low"] < levels["middle"] < levels["high"] <= drafts + 1
        assert next(iter(levels)) == "middle"


def test_the_command_line_picks_groups() -> None:
    def pairs(*argv: str) -> list[tuple[str, int]]:
        return engines.chosen(engines.parser().parse_args(argv))

    assert pairs("--quick") == [("qwen3.5-0.8b", 4)]
    assert len(pairs()) == 8  # without --tiny, no checkpoint
    assert len(pairs("--tiny", "folder")) == 12
    assert pairs("--geometries", "qwen3.6-27b", "--drafts", "4") == [("qwen3.6-27b", 4)]
    assert pairs("--drafts", "4")[0] == ("qwen3.6-27b-8-of-64-layers", 4)


@pytest.mark.parametrize("most", [1, 3, 8, 60, 64, 100, 256])
def test_graphs_fit_every_number_of_requests(most: int) -> None:
    for query in (1, 5):
        sizes = modes.capture_sizes(most, query)
        for running in range(1, most + 1):
            graph = min(size for size in sizes if size >= running * query and size % query == 0)
            spare = graph // query - running
            assert spare <= (7 if running <= 64 else 15)


def repeats_of(mode: str, rates: list[float], running: int = 32) -> list[dict[str, object]]:
    return [
        {
            "geometry": "qwen3.5-0.8b", "mode": mode, "drafts": 4, "level": "low", "batch": 32,
            "repeat": i, "run": 0, "running": running, "tokens_per_s": rate,
            "with_prefill_tokens_per_s": rate / 4 if mode == "window" else rate / 2,
        }
        for i, rate in enumerate(rates)
    ]  # fmt: skip


@pytest.mark.parametrize(("running", "ratio"), [(32, 2.0), (31, 1.0)])
def test_a_ratio_is_of_whole_answers_where_requests_waited(running: int, ratio: float) -> None:
    rows = [*repeats_of("snapshot", [90.0, 100.0], running), *repeats_of("window", [190.0, 190.0])]
    (load,) = figures.compared(rows)
    assert figures.window_over_snapshot(load) == pytest.approx(ratio)


@pytest.mark.parametrize(("rates", "scattered"), [([100.5, 120.0], False), ([99.5, 120.0], True)])
def test_ratios_of_repeats_that_overlap_are_marked(rates: list[float], *, scattered: bool) -> None:
    rows = [*repeats_of("snapshot", [90.0, 100.0]), *repeats_of("window", rates)]
    (load,) = figures.compared(rows)
    assert figures.scattered("snapshot", load) == scattered
    assert pages.over("snapshot", load).endswith(" ~") == scattered
