"""Stands for tests/gpu/tasks_engine.py: answers from the job's own tasks.

FAKE_WRONG "mode:n" makes the first n answers of a mode wrong, FAKE_DRIFT "mode:nats" moves the
log-probabilities of its decoded tokens and FAKE_GOLD those of given texts. FAKE_SWITCH names a mode
that serves the other way, FAKE_IDLE one that accepts no draft, FAKE_DIES one that ends.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import geometry

model, mode, job_file, out = sys.argv[1:5]
job = json.loads(Path(job_file).read_text())


def told(name: str) -> float:
    said, _, value = os.environ.get(name, "").partition(":")
    return float(value or 1) if said == mode else 0.0


if told("FAKE_DIES"):
    sys.exit("no room for the cache")
rows = []
for at, task in enumerate(job["tasks"]):
    wrong = at < told("FAKE_WRONG")
    logprobs = [-0.5 + told("FAKE_DRIFT"), -0.25]
    answer = "0" if wrong else task["answer"].rpartition("####")[2]
    rows.append(
        {"prompt": [1, at], "tokens": [7, at], "text": f"so {answer}.", "logprobs": logprobs}
    )
said = {"own": [(row["prompt"], row["tokens"]) for row in rows[: job["forced"]]], **job["said"]}
sizes = geometry.GEOMETRIES["qwen3.5-0.8b"] if model.endswith("0.8B") else {}
report = {
    "answers": rows,
    "forced": {name: [[-0.5, -0.25] for _ in texts] for name, texts in said.items()},
    "gold": [[-1.0 - told("FAKE_GOLD")] for _ in job["tasks"][: job["forced"]]],
    "counters": {"num_drafts": 9, "num_accepted_tokens": 0 if told("FAKE_IDLE") else 12},
    "replayssm": (mode == "window") != bool(told("FAKE_SWITCH")),
    "load_format": "auto",
    "text_config": {"vocab_size": 9, **sizes},
}
Path(out).write_text(json.dumps(report))
