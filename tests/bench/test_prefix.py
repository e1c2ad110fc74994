"""tests/gpu/prefix.py: what it makes of the times of both modes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import prefix


def engine(
    cold: float, warm: float, cached: tuple[int, int] = (0, 640), block: int = 640
) -> dict[str, Any]:
    """Three prompts, two repeats of which the first is not timed."""
    times = {"cold": [cold, cold, 9.0], "warm": [warm, 0.1, warm]}
    return {**times, "block": block, "cached": [[[cached[0]] * 3, [cached[1]] * 3]] * 2}


def test_ratios_are_of_medians() -> None:
    found = prefix.compare({"snapshot": engine(2.0, 1.0), "window": engine(2.2, 0.9)})
    assert found["cold_ttft_over_snapshots"] == pytest.approx(1.1)
    assert found["warm_ttft_over_snapshots"] == pytest.approx(0.9)
    assert found["cached_tokens"] == [640] * 3
    assert found["failed"] == []


def test_blocks_may_be_of_other_sizes() -> None:
    both = {"snapshot": engine(2, 1, (0, 2176), 544), "window": engine(2, 1, (0, 2112), 528)}
    assert prefix.compare(both)["failed"] == []


@pytest.mark.parametrize(
    ("window", "snapshot", "said"),
    [
        ((640, 640), (640, 640), ["an empty cache had a prefix"]),
        ((0, 0), (0, 0), ["a prompt was not found again"]),
        ((0, 640), (0, 1280), ["the modes find different parts"]),
    ],
)
def test_times_of_other_things_are_told(
    window: tuple[int, int], snapshot: tuple[int, int], said: list[str]
) -> None:
    both = {"snapshot": engine(2, 1, snapshot), "window": engine(2, 1, window)}
    assert prefix.compare(both)["failed"] == said
