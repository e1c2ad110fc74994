"""Run a command that does not outlive whoever started it.

    python -P tools/leash.py COMMAND ...

Its standard input is a pipe from there: when that ends, by a kill as well, the whole process group
is killed. The caller makes it the leader of a group of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def watch() -> None:
    os.read(0, 1)  # not sys.stdin: a thread that holds its lock aborts the interpreter's end
    os.killpg(0, signal.SIGKILL)


def main(command: list[str]) -> int:
    threading.Thread(target=watch, daemon=True).start()
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
