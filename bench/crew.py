"""Engines as processes: start them together, ask them one at a time, stop them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any


class GoneError(Exception):
    """An engine ended, or did not answer in time."""


class Worker:
    """A process that answers each line of JSON on its standard input with one on a pipe."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name, self.log = name, log
        log.parent.mkdir(parents=True, exist_ok=True)
        read, write = os.pipe()
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*command, "--reply-fd", str(write)],
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                pass_fds=[write],
                start_new_session=True,  # its children end with it
            )
        os.close(write)
        self.replies: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self.reader.start()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor) as stream:
            for line in stream:
                self.replies.put(line)

    def answer(self, seconds: float) -> dict[str, Any]:
        """Return the next answer; raise GoneError with the end of the log if none comes."""
        deadline = time.monotonic() + seconds
        while True:
            # Asked before the look at the answers: what it left behind must not be missed.
            ended, silent = self.process.poll() is not None, not self.reader.is_alive()
            with contextlib.suppress(queue.Empty):
                found: dict[str, Any] = json.loads(self.replies.get(timeout=0.2))
                return found
            if ended and silent:
                code = self.process.returncode
                raise GoneError(f"{self.name} ended with exit code {code}; {self._last_words()}")
            if ended and time.monotonic() > deadline - seconds + 10:
                raise GoneError(f"{self.name} ended; {self._last_words()}")
            if time.monotonic() > deadline:
                raise GoneError(
                    f"{self.name} did not answer in {seconds:.0f} s; {self._last_words()}"
                )

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise GoneError(f"{self.name} is gone; {self._last_words()}") from error
        return self.answer(seconds)

    def _last_words(self) -> str:
        """Return where the log is and the last line of it that names an error."""
        lines = [x.strip() for x in self.log.read_text(errors="replace").splitlines() if x.strip()]
        errors = [x for x in lines if "Error" in x or "error:" in x]
        said = (errors or lines or ["nothing"])[-1]
        return f"its log {self.log} says: {said[-600:]}"

    def dismiss(self) -> None:
        """Say that nothing more will be asked: it ends by itself."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()

    def stop(self, seconds: float = 30) -> None:
        """Let it end by itself, else end it and its children."""
        self.dismiss()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
