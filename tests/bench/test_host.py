"""The facts beside a measured number."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import engine
import host
import pytest


def test_a_command_names_no_folder_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench/layer.py", "--out", "/a/b", "--batches", "8"])
    assert host.command() == "python bench/layer.py --out PATH --batches 8"


def test_memory_is_counted_on_whichever_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second GPU of a host is the first that a process sees with CUDA_VISIBLE_DEVICES=1."""
    mine, other = os.getpid(), -1
    running = [[(other, 8)], [(mine, 3), (other, 5)]]
    nvml = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(running),
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetComputeRunningProcesses=lambda i: [
            SimpleNamespace(pid=pid, usedGpuMemory=gib << 30) for pid, gib in running[i]
        ],
    )
    no_children = SimpleNamespace(Process=lambda: SimpleNamespace(children=lambda recursive: []))
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setitem(sys.modules, "psutil", no_children)
    assert engine.process_memory_gib() == 3
