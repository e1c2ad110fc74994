"""bench/steps.py in the real patched engine, on a CPU (see README.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MICRO = [sys.executable, str(Path(__file__).with_name("micro_steps.py"))]


def test_steps_tells_where_time_goes(tmp_path: Path) -> None:
    out = tmp_path / "steps.json"
    command = [
        *MICRO, "micro", "window", "--drafts", "1", "--batches", "2", "--kv-gib", "0.06",
        "--load", "2", "--tokens", "6", "--acceptance", "2", "--rounds", "2",
        "--turn", str(tmp_path / "turn"), "--out", str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(out.read_text())
    (row,) = found["rows"]
    # The prompts' step, then 5 tokens by twos.
    assert row["steps"] == 4
    assert [r for r in row["rounds"] if r["prompts_ms"] > 0 and r["step_ms"] > 0] == row["rounds"]
    assert len(row["rounds"]) == 2
    names = " ".join(entry["function"] for entry in row["host"])
    assert "qwen_gdn_linear_attn.py" in names
    assert row["gpu"]
