"""Facts of the host and of the code that a measured number needs beside it."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any


def facts() -> dict[str, Any]:
    """GPU, driver, versions, the series that is installed, and the date."""
    import torch

    now = datetime.datetime.now(datetime.UTC)
    found: dict[str, Any] = {
        "date": now.date().isoformat(),
        "time": now.time().isoformat("seconds"),  # tells apart the runs of a command
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "vllm": _version("vllm"),
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


def why_not() -> str | None:
    """One sentence that says why nothing can be measured here, or None."""
    for module, cure in (("torch", "install it"), ("vllm", "install the wheel of `make build`")):
        if importlib.util.find_spec(module) is None:
            return f"The benchmarks need {module}, which this Python does not have; {cure}."
    import torch

    if not torch.cuda.is_available():
        return (
            "The benchmarks measure an NVIDIA GPU and this host has none that torch can use; run "
            "them on a GPU host (`make test-bench` runs their code on a CPU)."
        )
    return None


def slug(gpu: str) -> str:
    """Return the short name of a GPU, as file names carry it: "NVIDIA H200" is h200."""
    words = [w for w in gpu.lower().split() if w not in {"nvidia", "gpu", "geforce"}]
    return "-".join(words) or "gpu"


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that two rows must share to stand in one table."""
    return {name: found.get(name) for name in ("gpu", "torch", "triton", "vllm")}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


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


def command() -> str:
    """Return this process's command line, without the folders of this host."""
    script, *words = sys.argv
    return " ".join(["python", script, *("PATH" if "/" in word else word for word in words)])


def write_report(path: Path, found: dict[str, Any], said: str = "") -> str:
    """Write what a script found, with the host and the command that made it; return the text."""
    text = json.dumps({"host": facts(), "command": said or command(), **found}, indent=1)
    path.write_text(text + "\n")
    return text
