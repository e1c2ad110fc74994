"""After each step a request's block and records together hold the state of its accepted tokens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from compare import distance, nearest, prefix
from result import Result
from scenarios import REQUESTS, WATCHED

PARTS = ("conv", "temporal")
CHECKPOINTS = 8  # states of one request, layer and part, at the least
# The first layer's inputs are embeddings: the same bits in both runs wherever the tokens are.
FIRST_LAYER = ".layers.0."
# So its fp32 states differ by no more than sums in another order: 8 times the precision of fp32
# (seen: 3.3e-7).
SAME_INPUTS = 2**-20
# Inputs of later layers are bf16 and differ by a rounding here and there: as if all were one step
# of bf16 off (seen: 0.0055).
ROUNDED_INPUTS = 2**-7


def checkpoints(states: dict[str, np.ndarray]) -> dict[str, int]:
    """How many token counts there are for each request, layer and part."""
    counts: dict[str, int] = {}
    for key in states:
        name, _, rest = key.split("/", 2)
        counts[f"{name}/{rest}"] = counts.get(f"{name}/{rest}", 0) + 1
    return counts


def same_history(run: Result, other: Result, key: str) -> bool:
    """Whether both runs have the state, and it is one of the same tokens."""
    name, count, _ = key.split("/", 2)
    generated = int(count) - REQUESTS[name][1]
    return key in other.states and generated <= prefix(run.said[name], other.said[name])


@pytest.mark.parametrize(
    ("window", "snapshot"),
    [
        ("mtp_window", "mtp_snapshot"),
        ("ngram_window", "ngram_snapshot"),
    ],
)
def test_the_state_is_the_accepted_snapshot(
    runs: Mapping[str, Result], window: str, snapshot: str
) -> None:
    run, other = runs[window], runs[snapshot]
    complete = {key: state for key, state in run.states.items() if same_history(run, other, key)}
    for key, state in complete.items():
        if FIRST_LAYER not in key:
            assert distance(state, other.states[key]) <= ROUNDED_INPUTS, key
        elif key.endswith("/conv"):  # inputs as they came, only moved
            np.testing.assert_array_equal(state, other.states[key], err_msg=key)
        else:
            assert distance(state, other.states[key]) <= SAME_INPUTS, key
    counts = checkpoints(complete)
    assert {key.split("/")[0] for key in counts} == set(WATCHED)
    assert {key.rsplit("/", 1)[1] for key in counts} == set(PARTS)
    assert counts.keys() == checkpoints(run.states).keys()
    assert min(counts.values()) >= CHECKPOINTS
    assert any(FIRST_LAYER in key for key in counts)


@pytest.mark.parametrize("name", ["mtp_window", "ngram_window"])
def test_the_state_is_that_of_plain_decoding(
    runs: Mapping[str, Result], name: str, none: Result
) -> None:
    """After each step: near the plain state of that count, nearest to no other.

    Not even the first layer's bit for bit: with and without speculation, matrix products run on
    different numbers of rows.
    """
    run = runs[name]
    compared = 0
    for key, state in run.states.items():
        if key not in none.states:  # past the reference's last token
            continue
        assert distance(state, none.states[key]) <= ROUNDED_INPUTS, key
        assert nearest(run.states, key, none.states) == int(key.split("/")[1]), key
        compared += 1
    assert compared >= 0.9 * len(run.states)


def test_a_bf16_state_is_as_near_to_fp32_as_snapshots(
    runs: Mapping[str, Result], none: Result
) -> None:
    """Snapshots round it after each token, the window in its commits alone."""
    run, other = runs["half_window"], runs["half_snapshot"]
    distances = []
    for key, state in run.states.items():
        if key not in none.states or not same_history(run, other, key):
            continue
        if FIRST_LAYER in key and key.endswith("/conv"):
            np.testing.assert_array_equal(state, other.states[key], err_msg=key)
        assert nearest(run.states, key, none.states) == int(key.split("/")[1]), key
        if key.endswith("/temporal"):
            exact = none.states[key]
            distances.append([distance(run.states[key], exact), distance(other.states[key], exact)])
    window, snapshot = np.mean(distances, axis=0)
    assert len(distances) >= 3 * CHECKPOINTS
    assert window <= snapshot
