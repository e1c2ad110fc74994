"""A real server, its kernels interpreted, under clients that come and go: tests/soak, in short."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from conftest import TESTS, build_folder
from tinymodel.checkpoint import checkpoint

# Three requests of four cache groups and the null block: one that grows preempts another.
BLOCKS = 3 * 4 + 1


def test_a_storm_changes_no_answer_and_leaves_nothing(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "soak.json"
    environment = os.environ | {
        "PYTHONPATH": f"{build_folder()}{os.pathsep}{TESTS}",
        "OMP_NUM_THREADS": "1",
    }
    options = ["--requests", "12", "--seed", "2", "--most-tokens", "24", "--calm", "3"]
    options += ["--storm", "12", "--interpreted", "--enforce-eager", "--max-model-len", "768"]
    options += ["--max-num-seqs", "5", "--num-gpu-blocks-override", str(BLOCKS)]
    options += ["--kv-cache-memory-bytes", str(64 << 20)]
    options += ["--least-cached", "0"]  # so few blocks keep no prefix
    done = subprocess.run(
        [sys.executable, str(TESTS / "soak" / "soak.py"), str(checkpoint()), str(out), *options],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(out.read_text())
    assert found["failed"] == []
    assert found["answered"] == found["requests"] - found["left"]
    assert found["left"] >= 1
    assert found["structured"] >= 1
    assert found["preempted"] > 0
    # A window of 16 tokens, and a step's up to a block's end.
    assert 0 < found["commits"] < found["committed_tokens"] <= 20 * found["commits"]
    assert found["state_bytes_per_request"] > 0
    assert found["accepted_tokens"] > found["drafts"] / 2
