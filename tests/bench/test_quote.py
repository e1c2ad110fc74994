"""Figures for others to quote: each with the runs its rows are of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import check
import pytest
import quote
import results

KERNEL = "verify, fp32 state, HV 32, B 64, T 5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return results.write(tmp_path)


def quoted(folder: Path, capsys: pytest.CaptureFixture[str], *names: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert quote.main(["--results", str(folder), *names]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_figure_has_its_worst_row_and_its_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"state": "float32", "HV": 32, "batch": 64, "T": 5}
    assert results.change(folder, "kernels", where, us__verify_convolved=93.25) == 1
    (figure,) = quoted(folder, capsys, KERNEL)
    assert figure["worst"] == "93.2 us"
    assert (figure["measured_rows"], figure["short_rows"], figure["missing_rows"]) == (1, 1, 0)
    table = json.loads((folder / "h200-kernels.json").read_text())
    assert [run["command"] for run in figure["runs"]] == [
        run["command"] for run in table["runs"][:1]
    ]
    assert figure["runs"][0]["host"] == table["runs"][0]["host"]


def test_runs_are_those_of_the_rows_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "h200-kernels.json"
    table = json.loads(path.read_text())
    table["runs"].append({**table["runs"][0], "command": "another"})
    path.write_text(json.dumps(table))
    (figure,) = quoted(folder, capsys, KERNEL)
    assert [run["command"] for run in figure["runs"]] == [table["runs"][0]["command"]]
    for row in table["rows"]:
        row["run"] = len(table["runs"]) - 1
    path.write_text(json.dumps(table))
    (figure,) = quoted(folder, capsys, KERNEL)
    assert [run["command"] for run in figure["runs"]] == ["another"]


def test_without_names_all_are_quoted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [figure["name"] for figure in quoted(folder, capsys)]
    assert names == [target["name"] for target in check.targets()]


def test_what_was_not_measured_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (figure,) = quoted(tmp_path, capsys, KERNEL)
    assert figure["worst"] is None
    assert figure["runs"] == []


def test_no_such_figure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quote.main(["--results", str(folder), "speed"]) == 2
    assert "no target 'speed'" in capsys.readouterr().err
