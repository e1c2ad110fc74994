"""After each step's commit the state block of a request holds the state of its accepted tokens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from compare import distance, nearest
from result import Result
from scenarios import WATCHED

PARTS = ("conv", "temporal")
CHECKPOINTS = 8  # states of one request, layer and part, at the least


def checkpoints(states: dict[str, np.ndarray]) -> dict[str, int]:
    """How many token counts there are for each request, layer and part."""
    counts: dict[str, int] = {}
    for key in states:
        name, _, rest = key.split("/", 2)
        counts[f"{name}/{rest}"] = counts.get(f"{name}/{rest}", 0) + 1
    return counts


@pytest.mark.parametrize(
    ("window", "snapshot"),
    [
        ("mtp_window", "mtp_snapshot"),
        ("ngram_window", "ngram_snapshot"),
        ("half_window", "half_snapshot"),
    ],
)
def test_settled_state_is_the_accepted_snapshot(
    runs: Mapping[str, Result], window: str, snapshot: str
) -> None:
    settled, snapshots = runs[window].states, runs[snapshot].states
    counts = checkpoints(settled)
    assert {key.split("/")[0] for key in counts} == set(WATCHED)
    assert {key.rsplit("/", 1)[1] for key in counts} == set(PARTS)
    assert min(counts.values()) >= CHECKPOINTS
    assert settled.keys() == snapshots.keys()
    for key, state in settled.items():
        np.testing.assert_array_equal(state, snapshots[key], err_msg=key)


@pytest.mark.parametrize("name", ["mtp_window", "ngram_window"])
def test_settled_state_is_that_of_plain_decoding(
    runs: Mapping[str, Result], name: str, none: Result
) -> None:
    """Wherever the window settled: near the plain state of that count, nearest to no other.

    Not bit for bit: with and without speculation, matrix products run on different numbers of rows.
    """
    run = runs[name]
    compared = 0
    for key, state in run.states.items():
        if key not in none.states:  # past the reference's last token
            continue
        assert distance(state, none.states[key]) < 0.005, key
        assert nearest(run.states, key, none.states) == int(key.split("/")[1]), key
        compared += 1
    assert compared >= 0.9 * len(run.states)
