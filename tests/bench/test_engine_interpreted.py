"""bench/engine.py in the real patched engine, on a CPU (see README.md)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from crew import Worker

MICRO = [sys.executable, str(Path(__file__).with_name("micro_engine.py"))]


def test_an_engine_measures_what_it_is_asked(tmp_path: Path) -> None:
    command = [
        *MICRO,
        "micro",
        "window",
        "--drafts",
        "1",
        "--batches",
        "1",
        "2",
        "--kv-gib",
        "0.06",
    ]
    worker = Worker("window", command, tmp_path / "log")
    try:
        about = worker.answer(120)
        assert about["advertised"] > 10
        assert about["max_num_seqs"] == 2
        for batch, acceptance in ((1, 1.0), (2, 2.0)):
            request = {"batch": batch, "tokens": 6, "acceptance": acceptance, "seed": 0}
            answer = worker.ask(request, 60)
            assert answer["running"] == batch
            # Acceptance is set anew between two measurements, exactly.
            assert answer["tokens_a_step"] == acceptance
            assert answer["steps"] == (5 if acceptance == 1.0 else 3)
            assert answer["tokens_per_s"] > 0
            assert answer["ms_per_step"] > 0
    finally:
        worker.stop(10)
    assert worker.process.returncode == 0
