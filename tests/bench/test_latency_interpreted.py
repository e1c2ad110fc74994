"""bench/latency.py: the real `vllm bench serve` against a server that keeps a known pace."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import geometry
import latency
import modes
import store

FAKE = [sys.executable, str(Path(__file__).with_name("fake_server.py"))]


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    monkeypatch.setenv("FAKE_TRACE", str(tmp_path / "trace"))
    monkeypatch.delenv("FAKE_BROKEN", raising=False)
    write = geometry.write_tokenizer
    monkeypatch.setattr(geometry, "write_tokenizer", lambda out, size: write(out, 1000))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return argparse.Namespace(
        geometry="qwen3.5-0.8b", drafts=4, modes=["snapshot", "window"], concurrency=[1, 4],
        repeats=1, kv_gib=None, compiled=False, seconds=60, logs=tmp_path, serve=FAKE, port=port,
    )  # fmt: skip


def opened(tmp_path: Path) -> store.Store:
    found = store.Store(tmp_path / "cpu-latency.json", {"rows": latency.FIELDS}, {"gpu": "none"})
    found.begin({"host": {}, "command": "test"})
    return found


def test_latencies_are_those_of_the_server_and_a_second_run_starts_none(
    arguments: argparse.Namespace, tmp_path: Path
) -> None:
    assert latency.measure(arguments, opened(tmp_path)) == 0
    assert "VLLM_USE_BREAKABLE_CUDAGRAPH" not in os.environ  # that is the servers' alone
    assert sorted((tmp_path / "trace").read_text().splitlines()) == ["other 1", "window 1"]
    rows = json.loads((tmp_path / "cpu-latency.json").read_text())["rows"]
    assert [(row["mode"], row["concurrency"]) for row in rows] == [
        ("snapshot", 1), ("window", 1), ("snapshot", 4), ("window", 4),
    ]  # fmt: skip
    for row in rows:
        # Eight chunks, 20 ms between two of them; 120 tokens a request.
        assert 19 < row["p50_itl_ms"] < 40
        assert row["p99_itl_ms"] >= row["p50_itl_ms"]
        assert row["mean_tpot_ms"] == pytest.approx(7 * row["p50_itl_ms"] / 119, rel=0.5)
        assert row["output_throughput"] > 500 * row["concurrency"]
        assert row["completed"] == max(4, 2 * row["concurrency"])
    (tmp_path / "trace").unlink()
    assert latency.measure(arguments, opened(tmp_path)) == 0
    assert not (tmp_path / "trace").exists()


def test_a_server_that_ends_is_named_and_the_other_measured(
    arguments: argparse.Namespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FAKE_BROKEN", "1")
    arguments.concurrency = [1]
    assert latency.measure(arguments, opened(tmp_path)) == 1
    rows = json.loads((tmp_path / "cpu-latency.json").read_text())["rows"]
    assert [row["mode"] for row in rows] == ["snapshot"]
    said = capsys.readouterr()
    assert "the server of qwen3.5-0.8b window 4 drafts ended with exit code 5" in said.err
    assert "requests failed" not in said.err
    assert "1 measurements are left" in said.out


def test_flags_are_those_of_vllm_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's own parser reads back what the engines of bench/engine.py get."""
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for name in ("VLLM_GDN_DECODE_KERNEL", "VLLM_USE_BREAKABLE_CUDAGRAPH"):
        monkeypatch.setenv(name, "")  # set below, and taken back with this
    for mode in modes.MODES.values():
        given: dict[str, Any] = modes.engine_arguments(
            mode, "folder", drafts=4, capture_sizes=[5, 40], synthetic_acceptance=3.0,
            max_model_len=1024, kv_cache_memory_bytes=1 << 30, load_format="dummy",
        )  # fmt: skip
        del given["skip_tokenizer_init"]
        parser = make_arg_parser(FlexibleArgumentParser())
        read = vars(parser.parse_args(latency.flags(given)))
        assert read.pop("model_tag") == given.pop("model")
        config = read.pop("compilation_config")
        want = given.pop("compilation_config")
        assert config.cudagraph_capture_sizes == want["cudagraph_capture_sizes"]
        assert config.cudagraph_mode.name == want["cudagraph_mode"]
        assert {name: read[name] for name in given} == given
