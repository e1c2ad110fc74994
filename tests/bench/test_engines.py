"""The engine benchmark without an engine: order, resuming, failures, the clock."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import engines
import figures
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
    monkeypatch.delenv("FAKE_BROKEN", raising=False)
    monkeypatch.delenv("FAKE_DIES", raising=False)
    return path


def session(folder: Path, **changes: object) -> engines.Session:
    values = {
        "batches": [1, 128], "repeats": 2, "kv_gib": None, "compiled": False, "tiny": None,
        "seconds": 60,
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
        ("qwen3.6-27b-8-of-64-layers", "none"), ("qwen3.5-0.8b", "none"),
    }  # fmt: skip
    names = [leg for g in groups for leg in g if leg.mode == "none"]
    assert len(names) == len({leg.geometry for leg in names}) == 3


def test_a_group_too_big_for_the_gpu_is_cut_and_an_engine_too_big_is_refused() -> None:
    whole = plan.groups([("qwen3.6-27b", 4)])
    assert [[leg.mode for leg in party] for party in plan.parties(whole, 134.2)] == [
        ["snapshot", "window"], ["none"],
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"need 134 GiB together and the GPU has 80; set"):
        plan.parties(whole, 80)


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
