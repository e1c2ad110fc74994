"""What is cached at a block's end inside an accepted prefix is the state of just that prefix."""

from __future__ import annotations

import pytest
from compare import assert_same_words
from result import Result
from scenarios import BLOCK, LONG, WIDTH

AGAIN = [*(f"{name}_again" for name in LONG), "copy_too"]


@pytest.mark.parametrize("name", ["cache_window", "cache_ngram", "cache_async"])
def test_cold_and_warm_say_the_same(
    name: str, cache_cold: Result, request: pytest.FixtureRequest
) -> None:
    run, cold = request.getfixturevalue(name), cache_cold
    assert all(cold.said[again].cached == 0 for again in AGAIN)
    assert all(run.said[again].cached == BLOCK for again in AGAIN)
    assert_same_words(run, cold, largest=0.05, mean=0.006)


def test_hits_are_those_of_snapshots(cache_window: Result, cache_snapshot: Result) -> None:
    for name, said in cache_snapshot.said.items():
        assert cache_window.said[name].cached == said.cached
    assert_same_words(cache_window, cache_snapshot, largest=0.05, mean=0.006)


def test_boundaries_lie_inside_accepted_prefixes(cache_window: Result) -> None:
    """Before their end, so that the request goes on from another state than it publishes. Of some
    the state lacks tokens of steps before, too.
    """
    inside = [
        (name, row)
        for name in LONG
        for row in cache_window.rows(name)
        if row.computed < BLOCK < row.computed + row.sampled and row.scheduled == WIDTH
    ]
    assert inside
    assert any(row.computed > LONG[name] for name, row in inside)
    assert "gdn_recoverssm_boundary_kernel" in cache_window.facts["kernels"]
