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
        assert set(row["us"]) == {
            "snapshot_triton", "verify", "verify_longest", "verify_convolved", "step", "commit",
        }  # fmt: skip
        assert min(row["us"].values()) > 0
        assert row["check"]["verify_writes_no_state"]
        assert row["check"]["history_exact"]
        small = row["state"] == "float32"
        for name, most in (("state_error", 1e-6 if small else 1e-2), ("output_error", 1e-2)):
            errors = row["check"][name]
            assert set(errors) == {"snapshot_triton", "window", "commit"}
            assert max(errors.values()) < most
        assert row["bytes"]["state"] > 2 * 128 * 128 * (4 if small else 2)
        # A window of 16 tokens: k of the key head, u and g of each value head; a ring of two and
        # three inputs of the convolution.
        assert row["bytes"]["window"] == 16 * (2 * 128 + 4 * 2 * 129) + 2 * 5 * 4 * 128
        assert row["cycle"] == 8
        assert row["floor_us"]["read"] == pytest.approx(
            2 * 2 * 128 * 128 * (4 if small else 2) / 1e4, rel=1e-2
        )
    capsys.readouterr()
    assert layer.run(found, tiny(), 10.0, "cpu", (1, 0), layers=2) == []
    assert "2 of 2 rows are in cpu-kernels.json already" in capsys.readouterr().out


def checked() -> dict[str, dict[str, dict[str, float]]]:
    torch.manual_seed(0)
    return {"check": layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=1).check()}


@pytest.mark.parametrize("wrong", [-1, 1])
@pytest.mark.parametrize("name", ["verify", "commit"])
def test_check_sees_a_wrong_length(monkeypatch: pytest.MonkeyPatch, name: str, wrong: int) -> None:
    """A token too few or too many must be far outside of the snapshots' error."""
    right = getattr(layer_case.Case, name)

    def changed(case: layer_case.Case, s: int, lens: torch.Tensor | None = None) -> torch.Tensor:
        return right(case, s, None if lens is None else (lens + wrong).clamp(0, 2))

    monkeypatch.setattr(layer_case.Case, name, changed)
    row = checked()
    state, output = row["check"]["state_error"], row["check"]["output_error"]
    path, other = ("window", "commit") if name == "verify" else ("commit", "window")
    assert output[path] > 1e-2
    assert output[other] < 1e-2
    # A step that takes its window for shorter records over the end of it.
    is_harmed = name == "commit" or wrong < 0
    assert (max(state["window"], state["commit"]) > 1e-2) == is_harmed
    assert row["check"]["history_exact"] != is_harmed
    assert not layer.sound(row)


@pytest.mark.parametrize("name", ["first", "slots"])
def test_check_sees_a_neighbours_state_and_window(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Read behind a window alone, so that what the first step recorded is another row's."""
    verify = layer_case.Case.verify

    def swapped(
        case: layer_case.Case, s: int, window_lens: torch.Tensor | None = None
    ) -> torch.Tensor:
        kept = getattr(case, name)
        if window_lens is not None:
            setattr(case, name, kept.flip(0))
        try:
            return verify(case, s, window_lens)
        finally:
            setattr(case, name, kept)

    monkeypatch.setattr(layer_case.Case, "verify", swapped)
    row = checked()
    assert row["check"]["output_error"]["window"] > 0.1
    assert row["check"]["output_error"]["commit"] < 1e-2
    assert row["check"]["output_error"]["snapshot_triton"] < 1e-2
    assert not layer.sound(row)


@pytest.mark.parametrize("cache", [0, 1])
def test_check_sees_a_verify_that_writes(monkeypatch: pytest.MonkeyPatch, cache: int) -> None:
    """The last bit of one channel of the history, or of a state."""
    verify = layer_case.Case.verify

    def writes(
        case: layer_case.Case, s: int, window_lens: torch.Tensor | None = None
    ) -> torch.Tensor:
        out = verify(case, s, window_lens)
        case.window_layers[s].kv_cache[cache][2].view(torch.uint8).flatten()[-4] ^= 1
        return out

    monkeypatch.setattr(layer_case.Case, "verify", writes)
    row = checked()
    assert not row["check"]["verify_writes_no_state"]
    assert not layer.sound(row)


def changed_blocks(case: layer_case.Case, before: list[torch.Tensor]) -> list[list[int]]:
    return [
        (now != then).flatten(1).any(1).nonzero()[:, 0].tolist()
        for now, then in zip((case.state, case.history), before, strict=True)
    ]


def test_what_is_timed_verifies_and_commits_in_all_layers() -> None:
    """A verify changes no state; a commit those of all its layers, once a cycle."""
    torch.manual_seed(0)
    case = layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=2)
    before = [case.state.clone(), case.history.clone()]
    timed = case.timed()
    for name in ("verify", "verify_longest", "verify_convolved"):
        for s in range(2):
            timed[name][0](s)
    assert changed_blocks(case, before) == [[], []]
    step, *amount = timed["step"]
    # Eight steps of two tokens: a commit's launch and two layers in each.
    assert amount == [24, 16]
    for call in range(1, 24):
        step(call)
    assert changed_blocks(case, before) == [[], []]
    step(0)
    assert changed_blocks(case, before) == [case.table[:, :, 0].flatten().tolist()] * 2
    before = [case.state.clone(), case.history.clone()]
    timed["commit"][0](0)
    # The same window again: its last inputs are the history already.
    assert changed_blocks(case, before) == [case.table[:, :, 0].flatten().tolist(), []]
    assert timed["commit"][1:] == (1, 2)


def test_the_steps_of_a_cycle_are_behind_longer_and_longer_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=1)
    lens: list[tuple[str, int]] = []
    for name in ("verify", "commit"):
        monkeypatch.setattr(
            case, name, lambda s, given, name=name: lens.append((name, int(given[0])))
        )
    for call in range(2 * case.cycle):
        case.step(call)
    assert lens[:4] == [("commit", 16), ("verify", 0), ("commit", 0), ("verify", 2)]
    assert lens[-1] == ("verify", 14)


def test_states_stay_bounded_while_steps_are_timed() -> None:
    """Every cycle commits what the same set recorded in the cycle before."""
    torch.manual_seed(0)
    case = layer_case.Case(layer_case.Shape(**tiny()[0]), "cpu", layers=1)
    largest = case.state.abs().max()
    for recorded in vars(case.window_layers[0].recoverssm_records).values():
        if torch.is_tensor(recorded):
            recorded.fill_(float("nan"))  # as memory may be that nothing was recorded in
    step, calls, _ = case.timed()["step"]
    for call in [*range(calls)] * 2:
        step(call)
        assert case.out.isfinite().all() or call == 0
    assert case.state.isfinite().all()
    assert case.state.abs().max() < 4 * largest
