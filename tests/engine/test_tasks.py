"""Tasks on real engines, kernels interpreted: tests/gpu/tasks.py, in short."""

from __future__ import annotations

from typing import Any

from programs import ANSWER, TASKS


def test_the_window_does_what_snapshots_do(tasks_report: dict[str, Any]) -> None:
    found = tasks_report
    assert found["failed"] == []
    assert found["accuracy"]["tasks"] == TASKS
    assert found["accuracy"]["window"][0] == found["accuracy"]["snapshot"][0]
    assert found["checkpoint"]["geometry"] is None  # it is no real one
    assert found["checkpoint"]["has_weights"]
    tokens = {name: row["tokens"] for name, row in found["distances"].items()}
    assert set(tokens.values()) == {TASKS * ANSWER}
    counts = found["counters"]["window"]
    assert counts["num_accepted_tokens"] > counts["num_drafts"] / 2
