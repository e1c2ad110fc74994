"""Tasks on real engines, kernels interpreted: tests/gpu/tasks.py, in short."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from conftest import TESTS, build_folder
from tinymodel.checkpoint import checkpoint
from tinymodel.tasks import Tasks, docstrings

TASKS, QUESTION, ANSWER = 3, 36, 24  # tokens, each a byte


def test_the_window_does_what_snapshots_do(tmp_path: pathlib.Path) -> None:
    tasks = Tasks(31, docstrings())
    chains = [tasks.sums(QUESTION + ANSWER) for _ in range(TASKS)]
    rows = [
        {"question": chain[:QUESTION], "answer": chain[QUESTION : QUESTION + ANSWER]}
        for chain in chains
    ]
    file, out = tmp_path / "tasks.jsonl", tmp_path / "tasks.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = os.environ | {
        "PYTHONPATH": f"{build_folder()}{os.pathsep}{TESTS}",
        "OMP_NUM_THREADS": "1",
    }
    options = ["--tasks", str(file), "--max-tokens", str(ANSWER), "--max-num-seqs", "4"]
    options += ["--max-model-len", "256", "--kv-gib", "0.0625", "--interpreted"]
    done = subprocess.run(
        [sys.executable, str(TESTS / "gpu" / "tasks.py"), str(checkpoint()), str(out), *options],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(out.read_text())
    assert found["failed"] == []
    assert found["accuracy"]["tasks"] == TASKS
    assert found["accuracy"]["window"][0] == found["accuracy"]["snapshot"][0]
    assert found["checkpoint"]["geometry"] is None  # it is no real one
    assert found["checkpoint"]["has_weights"]
    tokens = {name: row["tokens"] for name, row in found["distances"].items()}
    assert set(tokens.values()) == {TASKS * ANSWER}
    counts = found["counters"]["window"]
    assert counts["num_accepted_tokens"] > counts["num_drafts"] / 2
