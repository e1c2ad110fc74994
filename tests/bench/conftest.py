from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# Its modules are scripts that import each other by their plain names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

# Those need the test environment and the interpreter: ci/bench_tests.py runs them.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["*_interpreted.py"]
