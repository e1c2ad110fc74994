"""The facts beside a measured number."""

from __future__ import annotations

import sys

import host
import pytest


def test_a_command_names_no_folder_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench/layer.py", "--out", "/a/b", "--batches", "8"])
    assert host.command() == "python bench/layer.py --out PATH --batches 8"
