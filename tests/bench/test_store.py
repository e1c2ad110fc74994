"""Rows are written one by one, survive a kill, and never mix what cannot be compared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import layer
import pytest
import store

TABLES = {"rows": ("batch", "T")}
SETTINGS = {"gpu": "H200", "torch": "2.11"}


def opened(path: Path, **changes: str) -> store.Store:
    found = store.Store(path, TABLES, SETTINGS | changes)
    found.begin({"host": "h", "command": "c"})
    return found


def test_a_row_is_on_disk_as_soon_as_it_is_added(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.json"
    found = opened(path)
    assert not path.exists()  # a run that measured nothing leaves nothing
    found.add("rows", {"batch": 1, "T": 5, "us": 3.0})
    assert json.loads(path.read_text()) == {
        "settings": SETTINGS,
        "runs": [{"host": "h", "command": "c"}],
        "rows": [{"batch": 1, "T": 5, "us": 3.0, "run": 0}],
    }
    assert sorted(p.name for p in path.parent.iterdir()) == ["x.json"]


def test_another_run_goes_on_and_says_which_rows_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    opened(path).add("rows", {"batch": 1, "T": 5})
    found = opened(path)
    assert found.note == ""
    assert found.has("rows", {"batch": 1, "T": 5, "more": True})
    assert not found.has("rows", {"batch": 1, "T": 2})
    found.add("rows", {"batch": 8, "T": 5})
    data = json.loads(path.read_text())
    assert [(row["batch"], row["run"]) for row in data["rows"]] == [(1, 0), (8, 1)]
    assert len(data["runs"]) == 2


def test_a_row_of_the_same_identity_is_replaced_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    found = opened(path)
    for batch in (1, 8, 32):
        found.add("rows", {"batch": batch, "T": 5, "us": 1})
    found.add("rows", {"batch": 8, "T": 5, "us": 2})
    rows = json.loads(path.read_text())["rows"]
    assert [(row["batch"], row["us"]) for row in rows] == [(1, 1), (8, 2), (32, 1)]


@pytest.mark.parametrize("name", ["gpu", "torch"])
def test_rows_of_another_gpu_or_torch_are_put_aside(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.json"
    opened(path).add("rows", {"batch": 1, "T": 5})
    before = path.read_text()
    found = opened(path, **{name: "other"})
    assert f"measured with another {name};" in found.note
    assert not found.has("rows", {"batch": 1, "T": 5})
    assert path.with_suffix(".json.old").read_text() == before
    found.add("rows", {"batch": 2, "T": 5})
    assert [row["batch"] for row in json.loads(path.read_text())["rows"]] == [2]


def run_of(series: str) -> dict[str, object]:
    return {"host": {"series_id": series}, "command": "c"}


def test_rows_of_an_older_series_stay_until_measured_again(tmp_path: Path) -> None:
    path, tables = tmp_path / "x.json", {"rows": ("batch", "repeat")}
    old = store.Store(path, tables, SETTINGS)
    old.begin(run_of("a"))
    for batch in (1, 8):
        for repeat in range(3):
            old.add("rows", {"batch": batch, "repeat": repeat, "us": 1})
    new = store.Store(path, tables, SETTINGS)
    new.begin(run_of("b"))
    assert new.note == ""
    assert not new.has("rows", {"batch": 1, "repeat": 0})
    new.add("rows", {"batch": 1, "repeat": 0, "us": 2})
    assert new.has("rows", {"batch": 1, "repeat": 0})
    assert not new.has("rows", {"batch": 1, "repeat": 1})
    new.add("rows", {"batch": 1, "repeat": 1, "us": 2})
    rows = json.loads(path.read_text())["rows"]
    assert sorted((r["batch"], r["repeat"], r["us"], r["run"]) for r in rows) == [
        (1, 0, 2, 1), (1, 1, 2, 1), (8, 0, 1, 0), (8, 1, 1, 0), (8, 2, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": []}', "\x00"])
def test_a_file_that_is_none_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(store.UnreadableError, match=r"x\.json") as caught:
        opened(path)
    assert len(str(caught.value).splitlines()) == 1
    assert path.read_text() == text


def test_killed_at_any_time_the_file_is_whole(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import store\n"
        "s = store.Store(Path(sys.argv[2]), {'rows': ('n',)}, {}); s.begin({})\n"
        "for n in range(10**6): s.add('rows', {'n': n, 'text': 'x' * 500})"
    )
    path = tmp_path / "x.json"
    known = 0
    for delay in (0.15, 0.3, 0.45):
        job = subprocess.Popen(
            [sys.executable, "-c", program, str(Path(store.__file__).parent), str(path)]
        )
        while not path.exists():
            time.sleep(0.01)
        time.sleep(delay)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        rows = store.read(path)["rows"]
        assert [row["n"] for row in rows] == list(range(len(rows)))
        assert len(rows) >= max(1, known)
        known = len(rows)


def test_where_measurements_go(tmp_path: Path) -> None:
    assert store.place(None, tmp_path, "h200-kernels.json") == tmp_path / "h200-kernels.json"
    assert store.place(tmp_path, Path("else"), "a.json") == tmp_path / "a.json"
    assert store.place(tmp_path / "b.json", Path("else"), "a.json") == tmp_path / "b.json"


# ---- what a kernel run measures --------------------------------------------------------------


def test_shapes_start_with_what_the_targets_are_about() -> None:
    full, quick = layer.shapes(layer.FULL), layer.shapes(layer.QUICK)
    assert len({tuple(s.values()) for s in full}) == len(full) == 3 * 6 * 3 * 2
    assert all(shape in full for shape in quick)
    assert len(quick) == 4
    assert {shape["T"] for shape in full[:36]} == {5}
    only = layer.shapes(layer.FULL | {"state": ["float32"], "batch": [8]})
    assert {(s["state"], s["batch"]) for s in only} == {("float32", 8)}


def test_a_run_measures_only_what_the_file_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = []

    def measure(fields: dict[str, object], *_: object) -> dict[str, object]:
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(fields)
        error = {"window": 1e-3, "snapshot_cuda": 1e-3}
        check = {
            "verify_writes_no_state": True, "history_exact": True,
            "output_error": error, "state_error": error,
        }  # fmt: skip
        us = {"snapshot_cuda": 9.0, "verify": 3.0, "step": 4.5, "commit": 1.5}
        return {**fields, "check": check, "us": us}

    monkeypatch.setattr(layer, "measure", measure)
    path = tmp_path / "x.json"
    todo = layer.shapes(layer.QUICK)

    def run() -> list[str]:
        found = store.Store(path, {"rows": layer.FIELDS}, {})
        found.begin({})
        return layer.run(found, todo, 1.0, "cpu", (1, 0))

    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(json.loads(path.read_text())["rows"]) == 3
    measured.clear()
    assert run() == []
    assert measured == todo[3:]
    said = capsys.readouterr().out
    assert "3 of 4 rows are in x.json already" in said
    assert (
        "[1/1] bfloat16 HV 32 batch 8 T 5: native 9.0 us, step 4.5 us, 2.00 x (verify 3.0 us, "
        "commit 1.5 us)" in said
    )


@pytest.mark.parametrize(
    "change",
    [
        {"verify_writes_no_state": False},
        {"history_exact": False},
        {"output_error": {"window": 2.1e-3, "snapshot_cuda": 1e-3, "snapshot_triton": 5e-4}},
        {"state_error": {"window": 1e-4, "snapshot_cuda": 1e-7, "snapshot_triton": 1e-7}},
        {"state_error": {"window": float("nan"), "snapshot_cuda": 1e-7}},
        {"state_error": {"window": 1e-7, "commit": 1e-4, "snapshot_cuda": 1e-7}},
        {"output_error": {"window": 1e-3, "commit": float("nan"), "snapshot_cuda": 1e-3}},
    ],
)
def test_a_wrong_result_is_not_sound(change: dict[str, object]) -> None:
    error = {"window": 1e-3, "snapshot_cuda": 1e-3, "snapshot_triton": 5e-4}
    good = {
        "verify_writes_no_state": True, "history_exact": True,
        "output_error": error, "state_error": error,
    }  # fmt: skip
    assert layer.sound({"check": good})
    assert not layer.sound({"check": good | change})


def test_times_are_medians_for_one_layer_sides_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    clock = iter([900.0, 900.0, 10.0, 60.0, 30.0, 20.0, 20.0, 40.0])

    def elapsed(replay: Callable[[], None], *, gpu: bool) -> float:
        assert not gpu
        replay()
        return next(clock)

    monkeypatch.setattr(layer, "elapsed_us", elapsed)
    case = SimpleNamespace(
        device=SimpleNamespace(type="cpu"),
        timed=lambda: {
            "verify": (lambda s: ran.append(f"v{s}"), 2, 2),
            "commit": (lambda s: ran.append(f"c{s}"), 1, 4),
        },
    )
    # The first replay is warm-up: medians of 10, 30, 20 over two layers and 60, 20, 40 over four.
    assert layer.times_us(case, 4, 1) == {"verify": 10.0, "commit": 10.0}
    assert ran == ["v0", "v1", "c0"] * 4


def test_floors_come_from_the_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of 134 MB of states at 4.4 TB/s takes 30.5 us."""
    case = SimpleNamespace(layers=8, cycle=3, check=dict, memory=lambda: {"state": 1, "window": 1})
    shape = SimpleNamespace(batch=64, state_bytes=32 * 128 * 128 * 4)
    fake = SimpleNamespace(Case=lambda *_: case, Shape=lambda **_: shape)
    monkeypatch.setitem(sys.modules, "layer_case", fake)
    monkeypatch.setattr(layer, "times_us", lambda *_: {"verify": 1.0})
    row = layer.measure({"batch": 64}, 4400.0, "cuda", (1, 0))
    assert row["floor_us"] == {"read": 30.5, "read_write": 61.01}
