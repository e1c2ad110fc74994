"""The window says what the engine says without speculation, and what snapshots say."""

from __future__ import annotations

import collections
from collections.abc import Mapping

import pytest
from compare import assert_same_steps, assert_same_words, rounding
from result import Result
from scenarios import DRAFTS, MIX, REPETITIVE, WIDTH

WINDOW = (
    "mtp_window",
    "ngram_window",
    "chunks_window",
    "half_window",
    "churn",
    "limit",
    "overlap",
)
SNAPSHOTS = ("mtp_snapshot", "ngram_snapshot", "chunks_snapshot", "half_snapshot")
KERNELS = {f"gdn_recoverssm_{name}_kernel" for name in ("conv_verify", "factors", "verify", "plan")}
UPSTREAM_VERIFY = "fused_sigmoid_gating_delta_rule_update_kernel"


def test_reference_says_what_the_plain_cpu_engine_says(none: Result, plain: Result) -> None:
    """The reference itself: its interpreted kernels against C++ kernels and the other model
    runner.
    """
    assert none.facts["v2"] and not plain.facts["v2"]
    assert_same_words(none, plain, largest=0.1, mean=0.02)


@pytest.mark.parametrize("name", WINDOW)
def test_runs_ran_the_window(runs: Mapping[str, Result], name: str) -> None:
    run = runs[name]
    assert run.facts["v2"] and run.facts["replayssm"]
    assert not run.facts["unused_hooks"], "these modules were never imported"
    assert run.facts["kernels"].keys() >= KERNELS
    assert UPSTREAM_VERIFY not in run.facts["kernels"]
    held = {len(blocks) for groups in run.blocks.values() for blocks in groups if blocks}
    assert held == {1}, "a request holds more than one state block"


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_snapshot_runs_ran_snapshots(runs: Mapping[str, Result], name: str) -> None:
    run = runs[name]
    assert not run.facts["replayssm"]
    assert UPSTREAM_VERIFY in run.facts["kernels"]
    assert not run.facts["kernels"].keys() & KERNELS
    held = {len(blocks) for groups in run.blocks.values() for blocks in groups if blocks}
    assert held == {WIDTH}


@pytest.mark.parametrize("name", ["mtp_window", "ngram_window"])
def test_window_says_what_no_speculation_says(
    runs: Mapping[str, Result], name: str, none: Result
) -> None:
    run = runs[name]
    assert {*run.said} >= {*(MIX if name == "mtp_window" else REPETITIVE)}
    assert_same_words(run, none, largest=0.01, mean=0.001)


@pytest.mark.parametrize(
    ("window", "snapshot"), [x for x in zip(WINDOW, SNAPSHOTS, strict=False) if "half" not in x[0]]
)
def test_window_says_what_snapshots_say(
    runs: Mapping[str, Result], window: str, snapshot: str
) -> None:
    """Not bit for bit: the window's sums are fp32 sums in another order, so now and then an
    activation rounds to the next bf16.

    Log-probabilities were seen to move by 0.005 at most and 0.00025 on average.
    """
    assert_same_words(runs[window], runs[snapshot], largest=0.01, mean=0.001)
    assert_same_steps(runs[window], runs[snapshot])


def test_window_says_what_snapshots_say_with_states_of_16_bits(
    half_window: Result, half_snapshot: Result, none: Result
) -> None:
    """The window rounds a state when it commits, snapshots after each token: so they part by
    what rounding moves a checkpoint by, which is read off the snapshots against fp32 states. On
    some it is 0.018, where fp32 states part by 0.002.
    """
    for name, said in half_snapshot.said.items():
        bounds = rounding(said, none.said[name])
        for reference in (half_snapshot, none):
            assert_same_words(half_window, reference, **bounds, names=[name])
    assert_same_steps(half_window, half_snapshot)


def test_every_accepted_count_occurs(mtp_window: Result, ngram_window: Result) -> None:
    full = collections.Counter[int]()
    for run in (mtp_window, ngram_window):
        for (drafts, sampled), times in run.accepted().items():
            if drafts == DRAFTS:
                full[sampled] += times
    assert set(full) == set(range(1, WIDTH + 1)), full
    assert min(full.values()) >= 2, full


def test_rows_of_every_length_occur(ngram_window: Result) -> None:
    lengths = {1 + drafts for drafts, _ in ngram_window.accepted()}
    assert lengths == set(range(1, WIDTH + 1))
    assert ngram_window.draftless_after_acceptance() >= 3


def test_a_prompt_parts_the_verify_rows(ngram_window: Result) -> None:
    """Order in a batch: rows with drafts, the prompt of a full row's length, rows without
    drafts.
    """
    step = next(s for s in ngram_window.steps if "short" in s and s["short"].computed == 0)
    assert step["short"].scheduled == WIDTH
    drafts = {row.drafts for name, row in step.items() if name != "short"}
    assert 0 in drafts and drafts != {0}
