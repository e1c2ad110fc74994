"""`vllm serve` on a CPU with interpreted kernels; the engine's own process installs them too."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import harness

harness.install("kernels")
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"  # a server has no other way

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    sys.argv = ["vllm", "serve", *sys.argv[1:]]
    main()
