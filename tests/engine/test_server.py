"""A real server, its kernels interpreted, under the OpenAI client: tests/gpu/serve.py, in short."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from conftest import TESTS, build_folder
from tinymodel.checkpoint import checkpoint

OURS = ("commits_total", "committed_tokens_total", "state_bytes_per_request")


def test_clients_get_what_they_ask_for(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "serve.json"
    environment = os.environ | {
        "PYTHONPATH": f"{build_folder()}{os.pathsep}{TESTS}",
        "OMP_NUM_THREADS": "1",
    }
    options = ["--tokens", "24", "--asking", "4", "--interpreted", "--enforce-eager"]
    options += ["--max-model-len", "768", "--max-num-seqs", "5", "--port", "8737"]
    options += ["--kv-cache-memory-bytes", str(64 << 20)]
    done = subprocess.run(
        [sys.executable, str(TESTS / "gpu" / "serve.py"), str(checkpoint()), str(out), *options],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found = json.loads(out.read_text())
    assert found["failed"] == []
    assert found["concurrent_equal"] == found["concurrent"] == 4
    assert all(found["metrics"][f"vllm:gdn_recoverssm_{name}"] > 0 for name in OURS)
