"""Two tensor-parallel ranks, each with the heads and windows of its own, say what one says."""

from __future__ import annotations

import platform

import pytest
from compare import assert_same_words
from result import Result
from scenarios import BLOCK


@pytest.mark.parametrize(
    ("two", "one"), [("ranks_chunks", "chunks_window"), ("ranks_cache", "cache_window")]
)
def test_two_ranks_say_what_one_says(two: str, one: str, request: pytest.FixtureRequest) -> None:
    ranks, alone = request.getfixturevalue(two), request.getfixturevalue(one)
    assert ranks.facts["replayssm"]
    assert_same_words(ranks, alone, largest=0.05, mean=0.006)


def test_two_ranks_find_the_same_prefixes(ranks_cache: Result, cache_window: Result) -> None:
    cached = {name: said.cached for name, said in ranks_cache.said.items()}
    assert cached == {name: said.cached for name, said in cache_window.said.items()}
    assert BLOCK in cached.values()


@pytest.mark.parametrize("name", ["ranks_disagree"])
def test_ranks_that_disagree_serve_nothing_more(name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(RuntimeError, match="accepted different numbers of draft tokens"):
        request.getfixturevalue(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ranks_foreign", "patch series 000000000000"),
        ("ranks_upstream", "vLLM without the patch series"),
    ],
)
def test_a_rank_of_another_installation_is_refused(
    name: str, found: str, request: pytest.FixtureRequest
) -> None:
    """At start, and by the process that the user has started: others come in its output first."""
    with pytest.raises(RuntimeError) as error:
        request.getfixturevalue(name)
    lines = str(error.value).splitlines()
    last = [line for line in lines if line.startswith("RuntimeError: ")][-1]
    assert "RecoverSSM for Gated DeltaNet needs one installation on all nodes, but" in last
    assert f"worker 1 on {platform.node()} runs {found} and the engine patch series" in last
    assert last.endswith("install the engine's wheel on all nodes and start again.")
