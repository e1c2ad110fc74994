"""The kernel benchmark's own code on a tiny shape, kernels interpreted (see README.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import layer
import layer_case
import store

TINY = {"HV": (2,), "batch": (2,), "T": (2,), "state": ("float32", "bfloat16")}


@pytest.fixture
def found(tmp_path: Path) -> store.Store:
    return store.Store(tmp_path / "cpu-kernels.json", {"rows": layer.FIELDS}, {"gpu": "none"})


def tiny() -> list[dict[str, object]]:
    return [{**fields, "H": 1} for fields in layer.shapes(TINY)]


def test_rows_are_measured_written_and_not_measured_again(
    found: store.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    found.begin({"host": {"gpu": "none"}, "bandwidth_gb_s": 10.0})
    assert layer.run(found, tiny(), 10.0, "cpu", (1, 0), layers=2) == []
    rows = json.loads(found.path.read_text())["rows"]
    assert [row["state"] for row in rows] == ["float32", "bfloat16"]
    for row in rows:
        # The fused CUDA kernel cannot run here; everything else must have.
        assert set(row["us"]) == {"snapshot_triton", "verify", "verify_convolved", "commit"}
        assert min(row["us"].values()) > 0
        assert set(row["check"]["output_error"]) == {"snapshot_triton", "window"}
        assert row["check"]["verify_writes_no_state"]
        small = row["state"] == "float32"
        assert row["check"]["state_error"]["window"] < (1e-6 if small else 1e-2)
        assert row["check"]["output_error"]["window"] < 1e-2
        assert row["bytes"]["state"] > 2 * 128 * 128 * (4 if small else 2)
        assert row["floor_us"]["read"] == pytest.approx(
            2 * 2 * 128 * 128 * (4 if small else 2) / 1e4, rel=1e-2
        )
    capsys.readouterr()
    assert layer.run(found, tiny(), 10.0, "cpu", (1, 0), layers=2) == []
    assert "2 of 2 rows are in cpu-kernels.json already" in capsys.readouterr().out


def test_check_sees_a_wrong_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token too few in the state must be far outside of the snapshots' error."""
    commit = layer_case.Case.commit
    monkeypatch.setattr(
        layer_case.Case,
        "commit",
        lambda self, context, count=None: commit(self, context, (count - 1).clamp(min=1)),
    )
    torch.manual_seed(0)
    case = layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=1)
    row = {"check": case.check()}
    assert row["check"]["state_error"]["window"] > 1e-2
    assert not layer.sound(row)


def test_check_sees_a_verify_that_reads_a_neighbours_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verify = layer_case.Case.verify

    def swapped(self: layer_case.Case, s: int) -> torch.Tensor:
        kept, self.first = self.first, self.first.flip(0)
        try:
            return verify(self, s)
        finally:
            self.first = kept

    monkeypatch.setattr(layer_case.Case, "verify", swapped)
    torch.manual_seed(0)
    row = {"check": layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=1).check()}
    assert row["check"]["output_error"]["window"] > 0.1
    assert row["check"]["output_error"]["snapshot_triton"] < 1e-2
    assert not layer.sound(row)


def test_commit_covers_all_layers_of_its_context() -> None:
    torch.manual_seed(0)
    case = layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=2)
    before = case.state.clone()
    for s in range(2):
        case.verify(s)
    assert torch.equal(case.state, before)
    case.commit(0)
    changed = (case.state != before).flatten(1).any(1).nonzero()[:, 0].tolist()
    assert changed == case.table[:, :, 0].flatten().tolist()
