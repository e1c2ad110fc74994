"""A server of the installed wheel for as long as a test wants it, and what it says of itself."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

TESTS = Path(__file__).resolve().parents[1]
README = [
    "--use-replayssm",
    "--speculative-config",
    '{"method": "mtp", "num_speculative_tokens": 3}',
]
HOST = [
    # FlashInfer's prefill and the vision tower's kernels do not travel in the bundle.
    "--additional-config",
    '{"gdn_prefill_backend": "triton"}',
    "--limit-mm-per-prompt",
    '{"image": 0, "video": 0}',
    "--dtype", "bfloat16",
    "--host", "127.0.0.1",
]  # fmt: skip
ENDS_IN_S = 60


class Server:
    """One server process. Its log is a file; `engine` and `workers` are processes below it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    def exposed(self) -> str:
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    def metrics(self) -> dict[str, float]:
        """Sums over labels of the server's numbers."""
        found: dict[str, float] = {}
        for line in self.exposed().splitlines():
            if line and not line.startswith("#"):
                name, value = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
                found[name] = found.get(name, 0) + float(value)
        return found

    def block_size(self) -> int:
        found = re.search(r'vllm:cache_config_info{.*\bblock_size="(\d+)"', self.exposed())
        assert found is not None
        return int(found[1])

    def is_idle(self) -> bool:
        """Whether it runs and keeps nothing of any request."""
        found = self.metrics()
        busy = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        return not any(found[f"vllm:{name}"] for name in busy)

    def is_healthy(self) -> bool:
        url = f"http://127.0.0.1:{self.port}/health"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)

    def until(self, what: Callable[[], object], seconds: float) -> bool:
        """Wait until something holds of a server that runs; False if it ends or time does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if what():
                    return True
            except OSError:
                pass
            time.sleep(0.2)
        return False

    def processes(self, title: str) -> list[psutil.Process]:
        """Processes below the server whose title begins so: VLLM::EngineCore, VLLM::Worker."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if "".join(child.cmdline()[:1]).startswith(title):
                    found.append(child)
            except psutil.Error:
                pass  # it has just ended
        return found

    def said(self, characters: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-characters:]


def add_arguments(parser: argparse.ArgumentParser, port: int) -> None:
    """Let a command line say how a server is started; what else it says goes to the server."""
    parser.add_argument("--port", type=int, default=port)
    parser.add_argument("--interpreted", action="store_true", help="on a CPU, see tests/harness")


def command(model: str, port: int, more: list[str], *, interpreted: bool) -> list[str]:
    """Start a server as the README does, on this host; `interpreted` on a CPU."""
    program = ["-m", "vllm.entrypoints.cli.main", "serve"]
    if interpreted:
        program = [str(TESTS / "soak" / "interpreted_server.py")]
    return [sys.executable, *program, model, *README, *HOST, "--port", str(port), *more]


@contextmanager
def serving(
    words: list[str], port: int, log: Path, env: dict[str, str] | None = None
) -> Iterator[Server]:
    """Run a server; at the end it and all processes below it have ended."""
    with log.open("wb") as stream:
        process = subprocess.Popen(words, stdout=stream, stderr=subprocess.STDOUT, env=env)
    server = Server(process, port, log)
    try:
        yield server
    finally:
        try:
            below = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            below = []
        process.terminate()
        try:
            process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            process.kill()
        for left in below:
            with suppress(psutil.NoSuchProcess):
                left.kill()
