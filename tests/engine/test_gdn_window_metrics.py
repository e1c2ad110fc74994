"""What the engine's metrics say of the window is what the commits were handed."""

from __future__ import annotations

import pytest
from result import Result

COMMITS = "vllm:gdn_recoverssm_commits"
TOKENS = "vllm:gdn_recoverssm_committed_tokens"
BYTES = "vllm:gdn_recoverssm_state_bytes_per_request"


@pytest.mark.parametrize("name", ["half_window", "chunks_window", "cache_window"])
def test_commits_are_counted_once_for_all_cache_groups(
    name: str, request: pytest.FixtureRequest
) -> None:
    run: Result = request.getfixturevalue(name)
    groups = list(run.facts["commits"].values())
    assert all(group == groups[0] for group in groups)
    commits, tokens = groups[0]
    assert tokens > commits > 0
    assert run.facts["metrics"] == {
        COMMITS: commits,
        TOKENS: tokens,
        BYTES: run.facts["request_bytes"],
    }


def test_ranks_count_as_one_does(ranks_cache: Result, cache_window: Result) -> None:
    """One of them reports, and has half of the bytes."""
    ranks, alone = ranks_cache.facts["metrics"], cache_window.facts["metrics"]
    if ranks_cache.steps == cache_window.steps:  # up to a near tie of the drafter
        assert (ranks[COMMITS], ranks[TOKENS]) == (alone[COMMITS], alone[TOKENS])
    assert 0 < ranks[COMMITS] < ranks[TOKENS]
    assert 0.4 * alone[BYTES] < ranks[BYTES] <= alone[BYTES]


def test_without_the_window_there_are_none(half_snapshot: Result) -> None:
    assert half_snapshot.facts["metrics"] == {}
    assert half_snapshot.facts["commits"] == {}
