"""Rows that come, go and share a step in unusual ways leave every request's words alone."""

from __future__ import annotations

import itertools

from compare import assert_same_words
from result import Result, Row
from scenarios import DRAFTS, MODEL_LEN, ONE_TOKEN, REQUESTS


def one_token_chunks(run: Result, name: str, prompt: int) -> list[dict[str, Row]]:
    """Steps that ran one token inside a prompt, beside rows with drafts."""
    return [
        step
        for step in run.steps
        if name in step
        and step[name].scheduled == 1
        and 0 < step[name].computed < prompt - 1
        and any(row.drafts for row in step.values())
    ]


def test_one_token_chunks_of_a_prompt_beside_verify_rows(
    chunks_window: Result, none: Result
) -> None:
    """Such a chunk is a verify row that samples nothing; its token has to reach the state all
    the same.
    """
    steps = one_token_chunks(chunks_window, "chunked", prompt=REQUESTS["chunked"][1])
    assert len(steps) >= 4
    assert all(step["chunked"].sampled == 0 for step in steps)
    assert_same_words(chunks_window, none, largest=0.02, mean=0.002)


def test_a_prompt_goes_on_after_a_one_token_chunk(chunks_window: Result) -> None:
    """The chunk's token is committed before the prefill reads the state."""
    rows = list(chunks_window.rows("chunked"))
    before, _ = next(pair for pair in itertools.pairwise(rows) if pair[1].scheduled > 1)
    assert before.scheduled == 1 and before.computed > 0 and before.sampled == 0
    assert "gdn_recoverssm_commit_kernel" in chunks_window.facts["kernels"]


def test_one_token_prompts_beside_verify_rows_run_alone(churn: Result) -> None:
    """Not padded with drafts: a prompt goes through prefill, which would keep the padding."""
    for name in ONE_TOKEN:
        step = next(step for step in churn.steps if name in step)
        assert step[name] == Row(computed=0, scheduled=1, drafts=0, sampled=1)
        assert any(row.drafts for row in step.values())


def test_one_token_prompts_say_what_they_say_alone(churn: Result, none: Result) -> None:
    assert_same_words(churn, none, largest=0.05, mean=0.006, names=ONE_TOKEN)


def test_abort_hands_its_blocks_to_a_request_that_waited(churn: Result, none: Result) -> None:
    aborted, heir = churn.said["copy"], "brackets"
    assert 1 < len(aborted.tokens) < REQUESTS["copy"][2]
    first = next(step for step in churn.steps if heir in step)
    assert (
        "copy" not in first
        and first[heir].computed == 0
        and first[heir].scheduled == REQUESTS[heir][1]
    )
    blocks = [churn.blocks[name] for name in ("copy", heir)]
    assert blocks[0] == blocks[1]
    survivors = [name for name in churn.said if name not in ONE_TOKEN]
    assert_same_words(churn, none, largest=0.01, mean=0.002, names=survivors)


def test_preempted_requests_resume(churn: Result) -> None:
    """Their words are compared above; here: requests did start over in the middle of their
    answers.
    """
    restarts = [name for name in churn.said for row in churn.rows(name)[1:] if row.computed == 0]
    assert len(restarts) >= 2
    assert all(len(churn.said[name].tokens) > 1 for name in restarts)


def test_drafts_are_cut_at_the_model_s_length(limit: Result, none: Result) -> None:
    """The last rows of a request are shorter than what it accepted just before, and stand beside
    full ones.
    """
    for name in ("text", "copy"):
        assert REQUESTS[name][1] + len(limit.said[name].tokens) == MODEL_LEN
    cut = [
        name
        for step in limit.steps
        for name, row in step.items()
        if row.computed >= REQUESTS[name][1]
        and row.drafts < DRAFTS
        and any(other.drafts == DRAFTS for other in step.values())
    ]
    assert {"text", "copy"} <= {*cut}
    assert any(
        row.scheduled < before.sampled
        for name in ("text", "copy")
        for before, row in itertools.pairwise(limit.rows(name))
    )
    assert_same_words(limit, none, largest=0.01, mean=0.002)


def test_a_request_that_ended_runs_once_more(overlap: Result, none: Result) -> None:
    """Its last row commits and records in a slot and in blocks that another request gets next."""
    assert overlap.facts["late"] >= 2
    assert {*overlap.said} == {"count", "brackets", "copy", "sums"}
    for ended, heir in (("count", "brackets"), ("copy", "sums")):
        assert overlap.blocks[ended][1] == overlap.blocks[heir][1]
    assert_same_words(overlap, none, largest=0.01, mean=0.002)
