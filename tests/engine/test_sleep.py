"""Requests in a pause that clears all caches, kernels interpreted: tests/gpu/sleep.py, in short."""

from __future__ import annotations

from typing import Any


def test_requests_begin_anew_after_a_sleep(sleep_report: dict[str, Any]) -> None:
    assert sleep_report["failed"] == []
    cases = sleep_report["cases"]
    assert set(cases) == {"idle, level 1", "aborted, level 1", "kept, level 1"}
    # It came in the midst of the longest answer.
    assert cases["kept, level 1"]["tokens_before"] < cases["kept, level 1"]["tokens"]
