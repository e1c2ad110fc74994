"""A real server, its kernels interpreted, under clients that come and go: tests/soak, in short."""

from __future__ import annotations

from typing import Any


def test_a_storm_changes_no_answer_and_leaves_nothing(soak_report: dict[str, Any]) -> None:
    found = soak_report
    assert found["failed"] == []
    assert found["answered"] == found["requests"] - found["left"]
    assert found["left"] >= 1
    assert found["structured"] >= 1
    assert found["preempted"] > 0
    # A window of 16 tokens, and a step's up to a block's end.
    assert 0 < found["commits"] < found["committed_tokens"] <= 20 * found["commits"]
    assert found["state_bytes_per_request"] > 0
    assert found["accepted_tokens"] > found["drafts"] / 2
