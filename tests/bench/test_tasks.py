"""tests/gpu/tasks.py: its statistics, what it reads, and what it finds of engines made up."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import host
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu"))

import paired
import tasks

FACTS = {"series_id": "abc", "gpu": "NVIDIA H200"}


# ---- statistics ------------------------------------------------------------------------------


def answers(both: int, only_a: int, only_b: int, neither: int) -> tuple[list[bool], list[bool]]:
    pairs = [(True, True)] * both + [(True, False)] * only_a
    pairs += [(False, True)] * only_b + [(False, False)] * neither
    return [a for a, _ in pairs], [b for _, b in pairs]


def test_wilson_is_that_of_the_literature() -> None:
    """Newcombe, Statistics in Medicine 17 (1998) 857: 81 of 263."""
    assert paired.wilson(81, 263) == pytest.approx((0.3080, 0.2553, 0.3662), abs=5e-5)
    assert paired.wilson(0, 20) == pytest.approx((0, 0, 0.1611), abs=5e-5)


def test_the_paired_difference_is_that_of_the_literature() -> None:
    """The same, 2635: method 10 on 36, 12, 2 and 0 pairs."""
    found = paired.difference(*answers(36, 12, 2, 0))
    assert found == pytest.approx((0.2, 0.0569, 0.3404), abs=5e-5)


@pytest.mark.parametrize("cells", [(100, 0, 0, 100), (50, 0, 0, 0), (0, 0, 0, 50)])
def test_answers_that_agree_leave_an_interval(cells: tuple[int, int, int, int]) -> None:
    apart, low, high = paired.difference(*answers(*cells))
    assert apart == 0
    assert -0.1 < low < -0.005
    assert 0.005 < high < 0.1


def test_swapped_sides_swap_the_interval() -> None:
    apart, low, high = paired.difference(*answers(40, 9, 4, 17))
    swapped = paired.difference(*answers(40, 4, 9, 17))
    assert swapped == pytest.approx((-apart, -high, -low))


def test_an_interval_covers_what_it_should() -> None:
    """Of 400 draws with a true difference of 0.1, about 95 % hold it."""
    import random

    rng = random.Random(3)
    cells = ("both", "a", "b", "none")
    held = 0
    for _ in range(400):
        drawn = rng.choices(cells, (0.5, 0.2, 0.1, 0.2), k=120)
        _, low, high = paired.difference(*answers(*(drawn.count(cell) for cell in cells)))
        held += low <= 0.1 <= high
    assert 0.92 <= held / 400 <= 0.98


def test_distances() -> None:
    found = paired.distances([[-1.0, -2.0], [-3.0]], [[-1.5, -2.0], [-2.0]])
    assert found == {"tokens": 3, "mean": 0.5, "p99": 1.0, "max": 1.0}
    assert paired.distances([], []) == {"tokens": 0}
    with pytest.raises(ValueError, match="longer"):
        paired.distances([[-1.0]], [[-1.0, -2.0]])


# ---- tasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("She has 3 + 4 = 7 eggs.\n#### 1,007", 1007), ("so 12.50 in all", Decimal("12.5")),
        ("-3", -3), ("none", None), ("#### 5.", 5), ("1 or 2", 2),
    ],
)  # fmt: skip
def test_the_number_of_an_answer(text: str, value: Any) -> None:
    assert tasks.number(text) == value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no task"),
        ("[1]", "is no task"),
        ('{"question": "a"}', "is no task"),
        ('{"question": "a", "answer": "b"}', "no number"),
        ("", "holds no task"),
    ],
)
def test_a_file_that_holds_no_tasks_is_refused(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(line + "\n")
    assert tasks.main(["model", str(tmp_path / "out"), "--tasks", str(file)]) == 2
    assert said in capsys.readouterr().err


def test_sums_are_ones() -> None:
    for task in tasks.sums(20):
        x, y = task["question"].rpartition(";")[2].rstrip("=").split("+")
        assert (int(x) + int(y)) % 100 == int(task["answer"])


# ---- both modes ------------------------------------------------------------------------------


def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str = "Qwen3.5-0.8B", **fakes: str
) -> tuple[int, dict[str, Any]]:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "out.json"
    rows = [{"question": f"{n} and {n}?", "answer": f"thus #### {2 * n + 1}"} for n in range(60)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(host, "facts", lambda: FACTS)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1] / "bench"))
    for name, value in fakes.items():
        monkeypatch.setenv(f"FAKE_{name.upper()}", value)
    fake = HERE / "fake_tasks_engine.py"
    code = tasks.main([model, str(out), "--tasks", str(file), "--engine", str(fake)])
    return code, json.loads(out.read_text()) if out.exists() else {}


def test_two_that_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = asked(tmp_path, monkeypatch)
    assert code == 0
    assert found["failed"] == []
    assert found["host"] == FACTS
    assert found["checkpoint"] == {
        "name": "Qwen3.5-0.8B", "geometry": "qwen3.5-0.8b", "has_weights": True,
    }  # fmt: skip
    accuracy = found["accuracy"]
    assert (accuracy["tasks"], accuracy["window"][0], accuracy["difference"][0]) == (60, 1, 0)
    assert found["equal_answers"] == 60
    assert {name: row["tokens"] for name, row in found["distances"].items()} == {
        "snapshot, decoded and forced": 120, "window, decoded and forced": 120,
        "the same texts, both engines": 60,
    }  # fmt: skip


def test_another_geometry_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = asked(tmp_path, monkeypatch, model="other")
    assert found["checkpoint"]["geometry"] is None


@pytest.mark.parametrize(
    ("fakes", "said"),
    [
        ({"wrong": "window:30"}, ["the window answers fewer tasks"]),
        ({"wrong": "window:1"}, []),
        ({"wrong": "snapshot:30"}, []),
        ({"drift": "window:0.1"}, ["the window's tokens are further from a prefill's"]),
        ({"drift": "snapshot:0.1"}, []),
        ({"gold": "window:0.1"}, ["the same texts have other log-probabilities"]),
        ({"idle": "window:1"}, ["no draft of the window was accepted"]),
        ({"switch": "window:1"}, ["the modes are not those asked for"]),
    ],
)
def test_what_is_worse_is_found(
    fakes: dict[str, str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = asked(tmp_path, monkeypatch, **fakes)
    assert found["failed"] == said
    assert code == bool(said)


def test_an_engine_that_dies_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = asked(tmp_path, monkeypatch, dies="window")
    assert (code, found) == (1, {})
    assert "no room for the cache" in capsys.readouterr().err
