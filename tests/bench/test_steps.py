"""What bench/steps.py makes of an engine's steps, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import steps
from test_stepwatch import watch


def test_prompts_end_with_the_first_wave_and_steps_are_of_the_whole_batch() -> None:
    found = watch(
        (1.0, 2, 64, 1, 0), (1.5, 4, 64, 3, 0), (1.6, 4, 0, 12, 0), (1.7, 4, 0, 12, 0),
        (2.7, 3, 0, 12, 1), (2.8, 3, 32, 9, 0), (2.9, 0, 0, 9, 3),
    )  # fmt: skip
    assert steps.first_and_steps(found, 0.5) == {
        "prompts_ms": pytest.approx(1000),
        "step_ms": pytest.approx(100),
    }
    # Nothing comes behind the prompts.
    assert steps.first_and_steps(watch((1.0, 0, 64, 1, 1)), 0.5)["step_ms"] is None


def test_the_longest_kernels_and_the_time_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST", 1)
    entries = [
        SimpleNamespace(key=name, count=1, self_device_time_total=us)
        for name, us in (("short", 1000.0), ("long", 3000.0), ("none", 0.0))
    ]
    profile = SimpleNamespace(key_averages=lambda: entries)
    assert steps.kernels(profile, "device") == (4.0, [{"kernel": "long", "calls": 1, "ms": 3.0}])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["qwen3.5-0.8b", "window"], "set --acceptance"),
        (["tiny", "window", "--load", "4", "--batches", "2"], "--load"),
        (["tiny", "window", "--load", "1", "--batches", "2", "--ranks", "2"], "--ranks"),
    ],
)
def test_what_it_cannot_measure_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        steps.main([*words, "--out", str(tmp_path / "out.json")])
    assert error.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
