"""Write dashboard.json beside this file: `python deploy/grafana/make_dashboard.py`.

With --check nothing is written, and exit code 1 says that the file is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).with_name("dashboard.json")
# The window's own metrics: their names stand here alone.
COMMITS = "vllm:gdn_recoverssm_commits_total"
COMMITTED_TOKENS = "vllm:gdn_recoverssm_committed_tokens_total"
STATE_BYTES = "vllm:gdn_recoverssm_state_bytes_per_request"
WINDOW = (COMMITS, COMMITTED_TOKENS, STATE_BYTES)

MODEL = '{model_name=~"$model"}'
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
WIDTH, HEIGHT, ACROSS = 8, 8, 3
Query = tuple[str, str]  # expression, legend


def rate(name: str, by: str = "") -> str:
    return f"sum {by}(rate({name}{MODEL}[$__rate_interval]))"


def quantiles(name: str) -> list[Query]:
    buckets = rate(f"{name}_bucket", by="by (le) ")
    return [(f"histogram_quantile({q}, {buckets})", f"p{100 * q:.0f}") for q in (0.5, 0.99)]


BY_POSITION = rate(PER_POSITION, by="by (position) ")
# Title, unit, queries.
PANELS: list[tuple[str, str, list[Query]]] = [
    ("Tokens accepted a step", "short", [(f"1 + {rate(ACCEPTED)} / {rate(DRAFTS)}", "tokens")]),
    ("Drafts accepted", "percentunit", [(f"{rate(ACCEPTED)} / {rate(DRAFTED)}", "of all drafts")]),
    (
        "Drafts accepted, by position",
        "percentunit",
        [
            (
                f"{BY_POSITION} / ignoring (position) group_left {rate(DRAFTS)}",
                "{{position}}",
            )
        ],
    ),
    ("Commits of the window", "ops", [(rate(COMMITS), "windows a second")]),
    (
        "Tokens in a commit",
        "short",
        [(f"{rate(COMMITTED_TOKENS)} / {rate(COMMITS)}", "tokens")],
    ),
    ("State and window of a request", "bytes", [(f"max({STATE_BYTES}{MODEL})", "bytes")]),
    ("Tokens", "short", [(rate("vllm:generation_tokens_total"), "generated a second"),
                         (rate("vllm:prompt_tokens_total"), "of prompts a second")]),
    (
        "Requests",
        "short",
        [
            (f"sum({name}{MODEL})", name.rpartition("_")[2])
            for name in ("vllm:num_requests_running", "vllm:num_requests_waiting")
        ]
        + [(rate("vllm:num_preemptions_total"), "preempted a second")],
    ),
    (
        "Cache",
        "percentunit",
        [
            (f"max(vllm:kv_cache_usage_perc{MODEL})", "blocks in use"),
            (
                f"{rate(HITS)} / {rate(QUERIES)}",
                "prefix tokens found",
            ),
        ],
    ),
    ("Time to first token", "s", quantiles("vllm:time_to_first_token_seconds")),
    ("Time between steps' tokens", "s", quantiles("vllm:inter_token_latency_seconds")),
    ("Time of a request", "s", quantiles("vllm:e2e_request_latency_seconds")),
]  # fmt: skip


def panel(number: int, title: str, unit: str, queries: list[Query]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": {
            "h": HEIGHT, "w": WIDTH,
            "x": WIDTH * (number % ACROSS), "y": HEIGHT * (number // ACROSS),
        },
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": source, "expr": text, "legendFormat": name}
            for at, (text, name) in enumerate(queries)
        ],
    }  # fmt: skip


def dashboard() -> dict[str, Any]:
    variables = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"},
        {
            "name": "model",
            "type": "query",
            "label": "Model",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "query": "label_values(vllm:num_requests_running, model_name)",
            "includeAll": True,
            "multi": True,
            "refresh": 2,
        },
    ]
    return {
        "title": "vLLM, RecoverSSM for Gated DeltaNet",
        "uid": "vllm-gdnwindow",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": [panel(number, *each) for number, each in enumerate(PANELS)],
    }


def main(argv: list[str]) -> int:
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in argv:
        return int(not OUT.is_file() or OUT.read_text() != text)
    OUT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
