"""Facts of the host and of the code that a measured number needs beside it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from typing import Any


def facts() -> dict[str, Any]:
    """GPU, driver, versions, the series that is installed, and the date."""
    import torch

    found: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": importlib.metadata.version("triton"),
        "vllm": importlib.metadata.version("vllm"),
        "series_id": _series_id(),
        "commit": os.environ.get("PROJECT_COMMIT")
        or _output("git", "rev-parse", "--short", "HEAD"),
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": properties.name,
            "gpu_memory_gib": round(properties.total_memory / 2**30, 1),
            "multiprocessors": properties.multi_processor_count,
            "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        }
    return found


def _series_id() -> str | None:
    try:
        from vllm.series_provenance import series_id
    except ImportError:
        return None
    return series_id()


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.split("\n")[0].strip()
