"""bench/steps.py on a CPU, as micro_engine.py."""

from __future__ import annotations

import sys

import micro_engine  # noqa: F401, installs the harness and the model
import steps

if __name__ == "__main__":
    steps.main([*sys.argv[1:], "--eager"])
