"""``make promotion``: what a GPU has shown, and what runs on one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import acceptances
import pytest
from acceptances import Place

from tools import gpu_jobs, judgement, testrun

Said = Callable[[], str]
OTHER = "f" * 64


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    (tmp_path / "project").mkdir()
    return acceptances.make(tmp_path / "project", monkeypatch)


def judged(place: Place, name: str) -> tuple[str, str]:
    assert place.run("--host", "none") in (0, 1)
    assert place.run("--check") in (0, 1)
    return place.verdict(name), place.reasons(name)


# ---- files of results ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "verdict", "reason"),
    [
        ({"failed": [], "found": [3]}, "passed", ""),
        ({"failed": ["a tie"], "found": [3]}, "failed", 'failed is ["a tie"]'),
        ({"failed": [], "found": [2]}, "failed", "found.0 is 2"),
        ({"failed": [], "found": []}, "not run", "has no found.0"),
        ({"failed": [], "found": ["3"]}, "failed", 'found.0 is "3"'),
        ({"failed": False, "found": [3]}, "failed", "failed is false"),
        ({"found": [3]}, "not run", "has no failed"),
    ],
)
def test_a_value_is_held_to_its_bound(
    values: dict[str, Any], verdict: str, reason: str, place: Place
) -> None:
    place.result("parity", **values)
    said, why = judged(place, "parity")
    assert said == verdict
    assert reason in why


def test_results_of_another_series_show_nothing(place: Place) -> None:
    place.result("parity", OTHER, failed=["worse"], found=[3])
    assert judged(place, "parity") == (
        "not run",
        "; ".join(["evidence of series ffffffffffff"] * 2),
    )
    place.result("parity", failed=[], found=[3])
    assert judged(place, "parity")[0] == "passed"


def test_without_results_it_says_what_makes_them(place: Place) -> None:
    assert (
        "no bench/results/GPU-parity.json: it needs a GPU; `{python} bench/fake.py"
        in (judged(place, "parity")[1])
    )


def test_every_gpu_must_agree(place: Place) -> None:
    good = place.result("parity", failed=[], found=[3])
    other = good.with_name("rtx-6000-parity.json")
    other.write_text(good.read_text().replace("[3]", "[1]"))
    said, why = judged(place, "parity")
    assert said == "failed"
    assert "rtx-6000-parity.json: found.0 is 1" in why


def test_a_longer_name_is_another_file(place: Place) -> None:
    place.edit(
        "tests/promotion.toml",
        "[file.serve-ray]",
        '[file.ray]\nneeds = ""\ncommand = ""\n[file.serve-ray]',
    )
    place.edit(
        "tests/promotion.toml",
        'file = "parity", key = ["failed"]',
        'file = "ray", key = ["failed"]',
    )
    place.result("serve-ray", failed=[], found=[3])
    place.result("parity", failed=[], found=[3])
    said, why = judged(place, "parity")
    assert (said, why.split(":")[0]) == ("not run", "no bench/results/GPU-ray.json")


@pytest.mark.parametrize("text", ["{", "[]", '{"failed": []}', '{"host": {"gpu": "H200"}}'])
def test_a_file_that_names_no_series_is_refused(text: str, place: Place, said: Said) -> None:
    place.write("bench/results/h200-parity.json", text)
    assert place.run("--host", "none") == 2
    assert "h200-parity.json" in said()


@pytest.mark.parametrize(
    ("bound", "value", "good"),
    [
        ("is", True, True), ("is", 1, False), ("least", 2, True), ("least", 1.9, False),
        ("least", True, False), ("most", 3, True), ("most", 3.1, False), ("most", None, False),
        ("holds", "a -tp 2 b", True), ("holds", "-tp 1", False), ("holds", ["-tp 2"], False),
    ],
)  # fmt: skip
def test_bounds(bound: str, value: Any, good: bool) -> None:  # noqa: FBT001
    wanted = {"is": True, "least": 2, "most": 3, "holds": "-tp 2"}[bound]
    assert judgement.HOLDS[bound](value, wanted) is good


# ---- tests on a GPU --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ({"tests/k/test_k.py::test_each": [3, 0, 0]}, "passed"),
        ({"tests/k/test_k.py::test_each": [2, 1, 0]}, "failed"),
        ({"tests/k/test_k.py::test_each": [2, 0, 1]}, "not run"),
        ({"tests/k/test_k.py::test_one": [2, 0, 0]}, "not run"),
        ({"tests/k/test_k.py": [0, 1, 0]}, "failed"),
        ({}, "not run"),
    ],
)
def test_tests_of_a_gpu(tests: dict[str, list[int]], verdict: str, place: Place) -> None:
    place.result("tests", tests=tests)
    assert judged(place, "gpu")[0] == verdict


def test_tests_of_every_gpu_must_pass(place: Place) -> None:
    good = place.result("tests", tests={"tests/k/test_k.py::test_each": [3, 0, 0]})
    other = good.with_name("a100-tests.json")
    for row in ("[2, 1, 0]", "[3, 0, 0]"):
        other.write_text(good.read_text().replace("[3, 0, 0]", row))
        said, _ = judged(place, "gpu")
        assert said == ("failed" if "1" in row else "passed")
    other.rename(other.with_name("l40s-tests.json"))
    assert judged(place, "gpu") == ("passed", "")
    assert place.row("gpu")["evidence"][0]["tests"] == {"tests/k/test_k.py::test_each": [6, 0, 0]}


def test_counts_without_names_show_nothing(place: Place) -> None:
    """As files of earlier versions of ci/gpu/test_counts.py are."""
    place.result("tests", passed=161)
    assert judged(place, "gpu")[0] == "not run"


@pytest.mark.parametrize(("on", "verdict"), [("cpu", "passed"), ("gpu", "not run")])
def test_a_run_counts_for_its_kind_of_host(on: str, verdict: str) -> None:
    run = {"on": on, "host": {}, "tests": {"a.py::test_b": [1, 0, 0]}}
    assert judgement.tests(["a.py::test_b"], "cpu", [run], "pytest")["verdict"] == verdict


def test_a_cpu_does_not_stand_for_a_gpu(place: Place) -> None:
    assert place.run() == 0
    assert place.verdict("kernels") == "passed"
    assert place.verdict("gpu") == "not run"


# ---- figures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "verdict", "reason"),
    [
        ({}, "passed", ""),
        ({"short_rows": 2}, "failed", "2 rows fall short"),
        ({"missing_rows": 1}, "not run", "1 rows are missing"),
        ({"worst": None, "runs": []}, "not run", "not measured"),
        ({"series": OTHER}, "not run", "evidence of series ffffffffffff"),
        ({"series": OTHER, "short_rows": 1}, "not run", "evidence of series"),
    ],
)
def test_figures(figure: dict[str, Any], verdict: str, reason: str, place: Place) -> None:
    place.figure(**figure)
    place.latency([1.0, 2.0])
    said, why = judged(place, "speed")
    assert said == verdict
    assert reason in why


@pytest.mark.parametrize(
    ("window", "series", "verdict", "reason"),
    [
        ([1.0, 2.0], "", "passed", ""),
        ([1.0, 2.1], "", "failed", "1: 1.050"),
        ([], "", "not run", "not measured"),
        ([1.0, 2.1], OTHER, "not run", "evidence of series ffffffffffff"),
    ],
)
def test_ratios(window: list[float], series: str, verdict: str, reason: str, place: Place) -> None:
    place.figure()
    place.latency(window, series)
    said, why = judged(place, "speed")
    assert said == verdict
    assert reason in why


def test_a_ratio_is_of_medians(place: Place) -> None:
    place.figure()
    place.latency([1.0])
    path = place.root / "bench/results/h200-latency.json"
    table = json.loads(path.read_text())
    table["rows"] += [{"mode": "window", "batch": 0, "ms": ms, "run": 0} for ms in (9.0, 1.5)]
    path.write_text(json.dumps(table))
    assert judged(place, "speed")[0] == "passed"
    assert place.row("speed")["evidence"][1]["worst"] == 0.75


def test_a_ratio_of_one_side_is_not_run(place: Place) -> None:
    place.figure()
    place.latency([1.0, 2.0])
    path = place.root / "bench/results/h200-latency.json"
    table = json.loads(path.read_text())
    table["rows"] = [row for row in table["rows"] if (row["mode"], row["batch"]) != ("window", 1)]
    path.write_text(json.dumps(table))
    said, why = judged(place, "speed")
    assert (said, "1: one side was not measured" in why) == ("not run", True)


def test_one_row_of_another_series_is_enough(place: Place) -> None:
    place.figure()
    place.latency([1.0, 1.0])
    path = place.root / "bench/results/h200-latency.json"
    table = json.loads(path.read_text())
    table["runs"].append({"host": {"series_id": OTHER, "gpu": "NVIDIA H200"}})
    table["rows"][0]["run"] = 1
    path.write_text(json.dumps(table))
    assert judged(place, "speed") == ("not run", "; evidence of series ffffffffffff")


# ---- what is taken in ------------------------------------------------------------------------


def test_results_are_taken_from_anywhere(place: Place, tmp_path: Path) -> None:
    host = {"series_id": place.series_id, "gpu": "NVIDIA RTX 6000 GPU"}
    path = tmp_path / "parity.json"
    path.write_text(json.dumps({"host": host, "failed": [], "found": [4]}))
    assert place.run("--host", "none", "--from", str(path)) == 0
    taken = place.root / "bench/results/rtx-6000-parity.json"
    assert taken.read_bytes() == path.read_bytes()
    assert place.verdict("parity") == "passed"


def test_another_host_s_ledger_is_taken(place: Place, tmp_path: Path) -> None:
    assert place.run() == 0
    path = tmp_path / "ledger.json"
    (place.root / "docs" / "promotion.json").rename(path)
    assert place.run("--host", "none") == 0
    assert place.verdict("kernels") == "not run"
    assert place.run("--host", "none", "--from", str(path)) == 0
    assert place.verdict("kernels") == "passed"


def test_a_ledger_of_another_series_replaces_nothing(place: Place, tmp_path: Path) -> None:
    assert place.run() == 0
    table = place.ledger()
    for run in table["runs"]:
        run["host"]["series_id"] = OTHER
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(table))
    assert place.run("--host", "none", "--from", str(path)) == 0
    assert place.verdict("kernels") == "passed"
    assert place.run("--check") == 0


@pytest.mark.parametrize(
    ("name", "host", "message"),
    [
        ("parity.json", {"series_id": "a"}, "is not of a GPU"),
        ("unknown.json", {"series_id": "a", "gpu": "NVIDIA H200"}, "has no [file] of its name"),
        ("parity.json", {"gpu": "NVIDIA H200"}, "names no host and series"),
    ],
)
def test_what_is_no_result_is_not_taken(
    name: str, host: dict[str, str], message: str, place: Place, tmp_path: Path, said: Said
) -> None:
    path = tmp_path / name
    path.write_text(json.dumps({"host": host}))
    assert place.run("--host", "none", "--from", str(path)) == 2
    assert message in said()
    assert not list((place.root / "bench").glob("results/*"))


# ---- jobs ------------------------------------------------------------------------------------


@pytest.fixture
def gpu(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(gpu_jobs, "gpus", lambda: 1)
    return place


def test_a_gpu_makes_what_is_not_there(gpu: Place, said: Said) -> None:
    gpu.result("latency", failed=[])
    assert gpu.run("--python", sys.executable) == 0
    assert gpu.ran() == ["parity tiny", "tests tiny"]
    message = said()
    assert "5: serve-ray: not run: it needs 2 GPUs, and here is 1" in message
    assert "tasks-real-1b: not run: it needs MODEL= to name that checkpoint" in message
    assert "latency: there already, of this series" in message
    assert gpu.verdict("parity") == "passed"
    assert gpu.run("--python", sys.executable) == 0
    assert gpu.ran() == ["parity tiny", "tests tiny"]


def test_another_series_is_measured_again(gpu: Place) -> None:
    assert gpu.run("--python", sys.executable) == 0
    count = len(gpu.ran())
    gpu.lock("b")
    assert gpu.run("--python", sys.executable) == 0
    assert len(gpu.ran()) == 2 * count


def test_two_gpus_and_a_real_checkpoint(
    gpu: Place, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    monkeypatch.setattr(gpu_jobs, "gpus", lambda: 2)
    assert gpu.run("--python", sys.executable, "--model", "Org/Real-1B") == 0
    assert "tasks-real-1b: not run: it needs TASKS=" in said()
    other = ["--model", "Org/Other-1B", "--tasks", "gsm.jsonl"]
    assert gpu.run("--python", sys.executable, *other) == 0
    assert "tasks-real-1b: not run: it needs MODEL= to name that checkpoint" in said()
    argv = ["--python", sys.executable, "--model", "Org/Real-1B", "--tasks", "gsm.jsonl"]
    assert gpu.run(*argv) == 0
    assert "serve-ray Org/Real-1B" in gpu.ran()
    assert "tasks-real-1b Org/Real-1B gsm.jsonl" in gpu.ran()
    assert (gpu.root / "bench/results/h200-tasks-real-1b.json").is_file()


def test_a_script_that_fails_leaves_nothing(gpu: Place, said: Said) -> None:
    gpu.edit("bench/fake.py", "table =", "sys.exit(7)\ntable =")
    assert gpu.run("--python", sys.executable) == 0
    assert "parity: exit code 7, nothing is taken" in said()
    assert gpu.verdict("parity") == "not run"


def test_what_is_cut_off_is_not_taken(
    gpu: Place, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    leashed = testrun.leashed
    monkeypatch.setattr(testrun, "leashed", lambda *a: (leashed(*a), None)[1])
    assert gpu.run("--python", sys.executable) == 0
    assert "s, nothing is taken" in said()
    assert gpu.verdict("parity") == "not run"


def test_gpus_are_those_the_driver_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_jobs.gpus() == 0
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\necho 'GPU 1: NVIDIA H200'\n")
    program.chmod(0o755)
    assert gpu_jobs.gpus() == 2
