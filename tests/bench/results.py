"""Made-up measurements in the form of the benchmarks, complete, for tests of what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import layer
import plan

HOST = {
    "gpu": "NVIDIA H200", "driver": "1.2", "torch": "2.14", "triton": "3.8", "vllm": "0.33.0",
    "series_id": "0123456789abcdef", "commit": "abc1234", "date": "2026-01-02", "python": "3.12",
}  # fmt: skip
SPEED = {"none": 100.0, "snapshot": 90.0, "window": 135.0}


def kernels() -> dict[str, Any]:
    """Every target reached: at the floor, with 1 us a launch."""
    rows = []
    for fields in layer.shapes(layer.FULL):
        state = fields["HV"] * 128 * 128 * (4 if fields["state"] == "float32" else 2)
        read = fields["batch"] * state / 4.4e6
        rows.append({
            **fields, "layers": 8, "run": 0, "cycle": 16 // fields["T"],
            "us": {
                "snapshot_cuda": 4 + 1.2 * read * (1 + fields["T"]),
                "snapshot_triton": 9 + 1.2 * read * (1 + fields["T"]),
                "snapshot_cuda_convolved": 3 + 1.2 * read * (1 + fields["T"]),
                "verify": 1 + read, "verify_longest": 1 + 1.1 * read,
                "verify_convolved": 1 + read,
                "step": 1 + 2 * read, "commit": 2.05 * read,
            },
            "floor_us": {"read": read, "read_write": 2 * read},
            "bytes": {"state": state, "window": state // 25, "snapshot": state},
            "check": {
                "verify_writes_no_state": True, "history_exact": True,
                "output_error": {
                    "window": 1e-3, "commit": 1e-3, "snapshot_cuda": 1e-3, "snapshot_triton": 1e-3,
                },
                "state_error": {
                    "window": 6e-8, "commit": 6e-8, "snapshot_cuda": 6e-8, "snapshot_triton": 7e-8,
                },
            },
        })  # fmt: skip
    run = {"host": HOST, "command": "python bench/layer.py", "bandwidth_gb_s": 4400.0}
    return {"settings": {}, "runs": [run], "rows": rows}


def engine() -> dict[str, Any]:
    """The window half as fast again as the snapshots, of which 170 fit."""
    engines, rows = [], []
    whole = plan.groups([("qwen3.6-27b", 4)], ["snapshot", "window"], alone=True)
    for legs in [*plan.parties(plan.groups(plan.GROUPS), 134), *whole]:
        engines += [
            {
                **leg.fields, "run": 0,
                "advertised": 143.2, "kv_cache_gib": leg.kv_gib(), "gpu_memory_gib": 20.25,
                "start_s": 160.0,
            }
            for leg in legs
        ]  # fmt: skip
        rows += [
            {
                **item.fields, "acceptance": item.acceptance, "run": 0, "preempted": 0,
                "steps": 40, "full_steps": 30,
                "running": min(item.batch, 170 if item.leg.mode == "snapshot" else 999),
                "tokens_per_s": item.batch * SPEED[item.leg.mode] + item.repeat,
                "with_prefill_tokens_per_s": 0.9 * item.batch * SPEED[item.leg.mode],
                "ms_per_step": 7.25, "tokens_a_step": item.acceptance or 1.5,
            }
            for item in plan.turns(legs, plan.BATCHES, plan.REPEATS)
        ]  # fmt: skip
    run = {"host": HOST, "command": "python bench/engines.py"}
    return {"settings": {"compiled": False}, "runs": [run], "engines": engines, "rows": rows}


def latency() -> dict[str, Any]:
    rows = [
        {
            "geometry": "qwen3.5-0.8b", "mode": mode, "drafts": 0 if mode == "none" else 4,
            "concurrency": n, "repeat": repeat, "run": 0, "p50_itl_ms": 5.0 + repeat,
            "p99_itl_ms": 9.5, "mean_tpot_ms": 2.0, "p50_ttft_ms": 40.0,
            "output_throughput": 100.0,
        }
        for n in (1, 32)
        for repeat in range(3)
        for mode in plan.MODES
    ]  # fmt: skip
    run = {"host": HOST, "command": "python bench/latency.py"}
    return {"settings": {}, "runs": [run], "rows": rows}


def write(folder: Path) -> Path:
    for name, made in (("kernels", kernels()), ("engine", engine()), ("latency", latency())):
        (folder / f"h200-{name}.json").write_text(json.dumps(made))
    return folder


def change(folder: Path, name: str, where: dict[str, Any], **values: Any) -> int:
    """Change rows of a written file, dotted names reaching inside; return how many."""
    path = folder / f"h200-{name}.json"
    data = json.loads(path.read_text())
    found = [r for r in data["rows"] if all(r[key] == value for key, value in where.items())]
    for row in found:
        for key, value in values.items():
            outer, _, inner = key.partition("__")
            if inner:
                row[outer][inner] = value
            else:
                row[outer] = value
    path.write_text(json.dumps(data))
    return len(found)
