"""A real server, its kernels interpreted, under the OpenAI client: tests/gpu/serve.py, in short."""

from __future__ import annotations

from typing import Any

OURS = ("commits_total", "committed_tokens_total", "state_bytes_per_request")


def test_clients_get_what_they_ask_for(serve_report: dict[str, Any]) -> None:
    found = serve_report
    assert found["failed"] == []
    assert found["concurrent_equal"] == found["concurrent"] == 4
    assert all(found["metrics"][f"vllm:gdn_recoverssm_{name}"] > 0 for name in OURS)
