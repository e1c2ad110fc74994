"""Scripts of tests/ that run beside the engines, kernels interpreted; each writes a report.

A program is named as the fixture that gives its report.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

from tinymodel.tasks import Tasks, docstrings

TASKS, QUESTION, ANSWER = 3, 36, 24  # tokens, each a byte
# Three requests of four cache groups and the null block: one that grows preempts another.
BLOCKS = 3 * 4 + 1
INTERPRETED = ["--interpreted", "--enforce-eager", "--max-model-len", "768", "--max-num-seqs", "5"]
INTERPRETED += ["--kv-cache-memory-bytes", str(64 << 20)]


def soak(folder: pathlib.Path) -> list[str]:
    options = ["--requests", "12", "--seed", "2", "--most-tokens", "24", "--calm", "3"]
    options += ["--storm", "12", "--num-gpu-blocks-override", str(BLOCKS)]
    options += ["--least-cached", "0"]  # so few blocks keep no prefix
    return ["soak/soak.py", *options, *INTERPRETED]


def serve(folder: pathlib.Path) -> list[str]:
    return ["gpu/serve.py", "--tokens", "24", "--asking", "4", "--port", "8737", *INTERPRETED]


def tasks(folder: pathlib.Path) -> list[str]:
    made = Tasks(31, docstrings())
    chains = [made.sums(QUESTION + ANSWER) for _ in range(TASKS)]
    rows = [
        {"question": chain[:QUESTION], "answer": chain[QUESTION : QUESTION + ANSWER]}
        for chain in chains
    ]
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--tasks", str(file), "--max-tokens", str(ANSWER), "--max-num-seqs", "4"]
    options += ["--max-model-len", "256", "--kv-gib", "0.0625", "--interpreted"]
    return ["gpu/tasks.py", *options]


def sleep(folder: pathlib.Path) -> list[str]:
    options = ["--requests", "2", "--tokens", "20", "--levels", "1", "--interpreted"]
    return ["gpu/sleep.py", *options]


# Script below tests/ and its options; MODEL and OUT are put between.
PROGRAMS: dict[str, Callable[[pathlib.Path], list[str]]] = {
    "soak_report": soak,
    "serve_report": serve,
    "tasks_report": tasks,
    "sleep_report": sleep,
}
