"""Files of measurements of several GPUs become one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import merge
import pytest
import store

SETTINGS = {"gpu": "G", "torch": "t"}


def row(batch: int, mode: str = "window", *, run: int = 0, rate: float = 1.0) -> dict[str, Any]:
    return {
        "geometry": "g", "mode": mode, "drafts": 4, "level": "middle", "batch": batch, "repeat": 0,
        "tokens_per_s": rate, "run": run,
    }  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]], runs: int = 1, **settings: Any) -> Path:
    data = {
        "settings": SETTINGS | settings,
        "runs": [{"command": f"{path.stem} {n}"} for n in range(runs)],
        "engines": [{"geometry": "g", "mode": "window", "drafts": 4, "run": 0}],
        "rows": rows,
    }
    path.write_text(json.dumps(data))
    return path


def test_rows_keep_the_run_that_made_them(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", [row(1), row(8, run=1)], runs=2)
    b = write(tmp_path / "b.json", [row(8, rate=2.0), row(32)])
    out = tmp_path / "h200-engine.json"
    write(out, [row(256)])  # what was there goes
    assert merge.merge(out, [a, b]) is None
    made = store.read(out)
    said = {
        r["batch"]: (made["runs"][r["run"]]["command"], r["tokens_per_s"]) for r in made["rows"]
    }
    assert said == {1: ("a 0", 1.0), 8: ("b 0", 2.0), 32: ("b 0", 1.0)}
    assert made["settings"] == SETTINGS
    assert len(made["engines"]) == 1


def lane(path: Path, old: list[int], new: list[int]) -> Path:
    """A lane that went on from a file of an older series."""
    rows = [row(batch) for batch in old] + [row(batch, run=1, rate=2.0) for batch in new]
    write(path, rows, runs=2)
    data = json.loads(path.read_text())
    for run, series in zip(data["runs"], ("old", "new"), strict=True):
        run["host"] = {"series_id": series}
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_of_an_older_series_give_way_in_any_lane(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    lanes = [lane(tmp_path / "a.json", [8, 32], [1]), lane(tmp_path / "b.json", [1, 8, 32], [32])]
    out = tmp_path / "h200-engine.json"
    assert merge.merge(out, [lanes[n] for n in order]) is None
    rates = {r["batch"]: r["tokens_per_s"] for r in store.read(out)["rows"]}
    assert rates == {1: 2.0, 8: 1.0, 32: 2.0}


def test_a_lane_that_measured_nothing_takes_nothing_back(tmp_path: Path) -> None:
    new = lane(tmp_path / "a.json", [8], [1])
    idle = lane(tmp_path / "b.json", [1, 8], [])
    data = json.loads(idle.read_text())
    data["runs"].pop()
    idle.write_text(json.dumps(data))
    out = tmp_path / "h200-engine.json"
    assert merge.merge(out, [new, idle]) is None
    assert {r["batch"]: r["tokens_per_s"] for r in store.read(out)["rows"]} == {1: 2.0, 8: 1.0}


def test_a_file_of_something_else_leaves_what_was_there(tmp_path: Path) -> None:
    out = write(tmp_path / "h200-engine.json", [row(256)])
    before = out.read_text()
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"settings": SETTINGS, "runs": [], "rows": []}))
    reason = merge.merge(out, [write(tmp_path / "a.json", [row(1)]), other])
    assert reason is not None
    assert "has no engines" in reason
    assert out.read_text() == before


@pytest.mark.parametrize("name", ["h200-engine.json", "h200.json"])
def test_what_does_not_belong_together_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a.json", [row(1)])
    b = write(tmp_path / "b.json", [row(8)], torch="other" if "engine" in name else "t")
    out = tmp_path / name
    monkeypatch.setattr("sys.argv", ["merge.py", str(out), str(a), str(b)])
    assert merge.main() == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not out.exists()


def test_a_run_that_several_files_hold_is_held_once(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", [row(1), row(8)])
    lanes = []
    for number, batch in enumerate((32, 64)):
        data = json.loads(first.read_text())
        # One that measured nothing in between.
        data["runs"] += [{"command": "idle"}, {"command": f"lane {number}"}]
        data["rows"].append(row(batch, run=2))
        lanes.append(tmp_path / f"lane{number}.json")
        lanes[-1].write_text(json.dumps(data))
    out = tmp_path / "h200-engine.json"
    assert merge.merge(out, [first, *lanes]) is None
    made = store.read(out)
    assert [run["command"] for run in made["runs"]] == ["a 0", "lane 0", "lane 1"]
    assert {r["batch"]: r["run"] for r in made["rows"]} == {1: 0, 8: 0, 32: 1, 64: 2}
    assert [r["run"] for r in made["engines"]] == [0]
