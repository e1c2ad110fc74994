"""Tables of two earlier measurements, shown until `make bench` replaces them.

Delete this module with bench/results/h200-engines.json and h200-layer.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return loaded


def rows(header: str, body: list[list[str]]) -> list[str]:
    """A Markdown table."""
    columns = header.split("|")
    lines = ["| " + " | ".join(c.strip() for c in columns) + " |", "|---" * len(columns) + "|"]
    return lines + ["| " + " | ".join(cells) + " |" for cells in body]


def about(host: dict[str, Any]) -> str:
    return (
        f"{host['gpu']}, driver {host['driver']}, torch {host['torch']}, triton "
        f"{host['triton']}, vllm {host['vllm']} (series `{host['series_id'][:12]}`, commit "
        f"`{host['commit']}`), {host['date']}"
    )


def engines() -> list[str]:
    runs = load("h200-engines.json")["runs"]
    body = []
    for run in runs:
        body += [
            [
                run["geometry"],
                f"{run['mode']} ({run['run']})",
                f"{run['kv_cache_gib']} GiB",
                f"{run['max_concurrency']:.0f}",
                f"{run['gpu_memory_gib']:.1f} GiB",
                *(f"{b['tokens_per_s']:.0f} ({b['ms_per_step']:.1f} ms)" for b in run["batches"]),
            ]
        ]
    hosts = {run["run"]: run["host"] for run in runs}
    batches = "|".join(f"batch {b['batch']}" for b in runs[0]["batches"])
    return [
        "Accepted tokens per second and milliseconds per step; 4 drafts (MTP), 3.0 tokens "
        "accepted a step by synthetic acceptance, random weights, fp32 state. Modes that "
        "share a letter were measured in one run. Concurrency is what the engine advertises "
        "at 1,024 tokens a request and `max_num_seqs` 128. Compilation is off and piecewise "
        'graphs break at the attention operators on every side (`bench/modes.py`); "snapshot" is '
        "upstream's fused CUDA kernel with FULL graphs. "
        + " ".join(f"Run {name}: {about(host)}." for name, host in sorted(hosts.items())),
        "",
        *rows(f"geometry|mode|KV cache|concurrency|GPU memory|{batches}", body),
    ]


def layer() -> list[str]:
    found = load("h200-layer.json")
    body = []
    for row in found["rows"]:
        if row["T"] != 5 or row["HV"] == 32:
            continue
        us = row["us"]
        snapshot = min(us["snapshot_cuda"], us["snapshot_triton"])
        verify = us["window_cuda"]
        body.append(
            [
                f"{row['state']}, HV {row['HV']}",
                str(row["batch"]),
                f"{us['snapshot_cuda']:.0f} / {us['snapshot_triton']:.0f}",
                f"{us['window_cuda']:.0f} / {us['window_triton']:.0f}",
                f"{us['commit']:.0f}",
                f"{snapshot / (verify + us['commit']):.2f}",
                (
                    f"{row['check']['state_error']['window']:.1e} / "
                    f"{row['check']['state_error']['snapshot_cuda']:.1e}"
                ),
            ]
        )
    return [
        (
            "One layer from the convolution on, T = 5, microseconds, cold L2, graph replay, "
            "all tokens accepted (the dearest commit). The ratio is the better snapshot over the "
            "CUDA verify plus commit. The error is a state's against fp64, relative. The Triton "
            f"columns have no gated RMSNorm. {about(found['host'])}."
        ),
        "",
        *rows(
            "state|batch|snapshot CUDA / Triton|verify CUDA / Triton|commit|ratio|"
            "state error window / snapshot",
            body,
        ),
    ]
