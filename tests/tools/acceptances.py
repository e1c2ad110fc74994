"""A small project with a list of acceptance, tests that a CPU runs, and results of a GPU."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools import cpu, environment, gpu_jobs
from tools.__main__ import main
from tools.environment import Environment
from tools.lock import Lock, Step
from tools.project import Project

ROOT = Path(__file__).resolve().parents[2]
LIST = """\
[file.parity]
needs = "a GPU"
command = "{python} bench/fake.py parity {model} {out}"

[file.serve-ray]
needs = "2 GPUs"
command = "{python} bench/fake.py serve-ray {model} {out}"

[file."tasks-real-1b"]
needs = "a GPU and the real one"
real = true
command = "{python} bench/fake.py tasks-real-1b {model} {out} {tasks}"

[file.latency]
needs = "a GPU"
command = "{python} bench/fake.py latency {model} {out}"

[file.tests]
needs = "a GPU"
command = "{python} bench/fake.py tests {model} {out}"

[[requirement]]
id = "kernels"
topic = "Kernels"
statement = "they are right | everywhere"
cpu = ["tests/k/test_k.py::test_each", "tests/k/test_k.py::test_one"]

[[requirement]]
id = "engine"
topic = "Engine"
statement = "it says the same"
cpu = ["tests/engine/test_e.py::test_words", "tests/k/test_k.py::test_one"]

[[requirement]]
id = "gpu"
topic = "Kernels"
statement = "compiled as well"
gpu = ["tests/k/test_k.py::test_each"]

[[requirement]]
id = "parity"
topic = "Engine"
statement = "on a GPU"
json = [
    { file = "parity", key = ["failed"], is = [] },
    { file = "parity", key = ["found", 0], least = 3 },
]

[[requirement]]
id = "speed"
topic = "Speed"
statement = "faster"
targets = ["twice"]
[[requirement.ratios]]
file = "latency"
rows = "rows"
field = "ms"
of = "window"
over = "snapshot"
by = ["batch"]
most = 1.0
"""
KERNELS = """\
import pytest


@pytest.mark.parametrize("n", [1, 2, 3])
def test_each(n):
    assert n


def test_one():
    assert True
"""
ENGINE = "def test_words():\n    assert True\n"
HOST = """\
import json, pathlib


def facts():
    series = pathlib.Path(__file__).parent.joinpath("series").read_text()
    return {"series_id": series, "commit": "abc1234", "date": "2026-01-02", "torch": "2.14"}
"""
# Writes results of the series that the CPU build has, and notes that it ran.
FAKE = """\
import json, pathlib, sys
sys.path.append("bench")
import host

name, model, out, *more = sys.argv[1:]
with open("ran", "a") as log:
    print(name, model, *more, file=log)
table = {"host": {**host.facts(), "gpu": "NVIDIA H200"}, "failed": [], "found": [3]}
pathlib.Path(out, f"{name}.json").write_text(json.dumps(table))
"""
QUOTE = 'import pathlib\nprint(pathlib.Path(__file__).with_name("figures.json").read_text())\n'


@dataclass
class Place:
    """The project, and what its commands come to."""

    root: Path

    @property
    def project(self) -> Project:
        return Project(self.root)

    @property
    def series_id(self) -> str:
        return (self.root / "bench" / "series").read_text()

    def run(self, *argv: str) -> int:
        return main(["-C", str(self.root), "promotion", *argv])

    def ledger(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "docs" / "promotion.json").read_text())
        return found

    def write_ledger(self, table: dict[str, Any]) -> None:
        path = self.root / "docs" / "promotion.json"
        path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")

    def row(self, name: str) -> dict[str, Any]:
        return next(row for row in self.ledger()["requirements"] if row["id"] == name)

    def verdict(self, name: str) -> str:
        return str(self.row(name)["verdict"])

    def reasons(self, name: str) -> str:
        return "; ".join(one["reason"] for one in self.row(name)["evidence"])

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        (self.root / path).write_text(text.replace(old, new))

    def ran(self) -> list[str]:
        path = self.root / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def lock(self, patch: str) -> None:
        """Let the series be another; the CPU build follows."""
        chain = Lock("0" * 40, "0" * 40, (Step("a.patch", patch * 64, "1", "2", "3"),))
        self.write("series.lock", chain.text())
        self.write("bench/series", chain.series_id)

    def result(self, name: str, series: str = "", **values: Any) -> Path:
        host = {"series_id": series or self.series_id, "gpu": "NVIDIA H200", "date": "2026-01-02"}
        self.write(f"bench/results/h200-{name}.json", json.dumps({"host": host, **values}))
        return self.root / f"bench/results/h200-{name}.json"

    def figure(self, series: str = "", **values: Any) -> None:
        host = {"series_id": series or self.series_id, "gpu": "NVIDIA H200"}
        row = {
            "name": "twice", "worst": "2.1 x", "must": "at least 2 x", "short_rows": 0,
            "missing_rows": 0, "file": "bench/results/h200-engine.json", "runs": [{"host": host}],
        }  # fmt: skip
        self.write("bench/figures.json", json.dumps([row | values]))

    def latency(self, window: list[float], series: str = "", snapshot: float = 2.0) -> None:
        run = {"host": {"series_id": series or self.series_id, "gpu": "NVIDIA H200"}}
        rows = [
            {"mode": mode, "batch": batch, "ms": ms, "run": 0}
            for batch, each in enumerate(window)
            for mode, ms in (("window", each), ("snapshot", snapshot), ("none", 1.0))
        ]
        self.write("bench/results/h200-latency.json", json.dumps({"runs": [run], "rows": rows}))


def make(root: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(root)
    place.write("vendor/upstream.toml", (ROOT / "vendor" / "upstream.toml").read_text())
    place.write("tests/promotion.toml", LIST)
    place.write("vendor/vllm/tests/k/test_k.py", KERNELS)
    place.write("tests/engine/test_e.py", ENGINE)
    place.write("tests/harness/__init__.py", "")
    place.write("tests/harness/pytest_interpreted.py", "# kernels here are plain Python\n")
    place.write("tests/tinymodel/checkpoint.py", 'print("tiny")\n')
    place.write("bench/host.py", HOST)
    place.write("bench/fake.py", FAKE)
    place.write("bench/quote.py", QUOTE)
    place.write("bench/targets.toml", '[[target]]\nname = "twice"\n')
    (root / "ci").mkdir()
    shutil.copy(ROOT / "ci" / "interpreted.py", root / "ci")
    place.lock("a")
    place.figure(worst=None, runs=[])
    (root / "vendor" / "cache").mkdir()
    build = root / "build"
    build.mkdir()
    # This environment, which has pytest, stands for the one of `make env`.
    monkeypatch.setattr(environment, "default", lambda project: Environment(Path(sys.prefix)))
    monkeypatch.setattr(cpu, "unpacked", lambda project: build)
    monkeypatch.setattr(gpu_jobs, "gpus", lambda: 0)
    return place
