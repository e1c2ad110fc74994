"""``make promotion`` and ``make promotion-check``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import acceptances
import pytest
from acceptances import ROOT, Place

from tools import acceptance, ledger, promotion_page, suites
from tools.project import Project
from tools.suites import Suites

Said = Callable[[], str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    (tmp_path / "project").mkdir()
    return acceptances.make(tmp_path / "project", monkeypatch)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The units that really ran."""
    found: list[str] = []
    run = Suites.execute

    def noted(self: Suites, unit: str, log: Path) -> dict[str, Any]:
        found.append(unit)
        return run(self, unit, log)

    monkeypatch.setattr(Suites, "execute", noted)
    return found


# ---- this project's own ----------------------------------------------------------------------


def test_the_list_names_tests_targets_and_files_that_exist() -> None:
    found = acceptance.load(Project(ROOT))
    assert acceptance.problems(ROOT, found) == []
    named = [name for one in found.requirements for name in one.tests()]
    assert len(set(named)) > 80
    assert {one.topic for one in found.requirements} >= {
        "Kernel and state equivalence", "Mixed metadata and accepted counts", "Prefix cache",
        "Abort and preemption", "Eager and CUDA graphs", "Tensor parallelism",
        "Correctness of checkpoints", "Window against snapshots", "Soak and sanitizers",
    }  # fmt: skip


def test_the_page_shows_the_committed_ledger() -> None:
    table = ledger.load(ROOT / ledger.FILE)
    assert (ROOT / promotion_page.FILE).read_text() == promotion_page.page(table)
    ids = [row["id"] for row in table["requirements"]]
    assert ids == [one.id for one in acceptance.load(Project(ROOT)).requirements]


def test_jobs_write_the_files_they_are_named_for() -> None:
    for name, source in acceptance.load(Project(ROOT)).sources.items():
        words = source.command.split()
        scripts = [word for word in words if word.endswith((".py", ".sh"))]
        assert all((ROOT / script).is_file() for script in scripts), name
        assert bool(scripts) == bool(words)
        outs = [word for word in words if word.startswith("{out}/")]
        assert outs in ([], [f"{{out}}/{name}.json"])


# ---- what a CPU shows ------------------------------------------------------------------------


def test_one_run_feeds_many_requirements(place: Place, units: list[str], said: Said) -> None:
    assert place.run() == 0
    assert units == ["tests/k/test_k.py", "tests/engine"]
    message = said()
    assert "1 of 2" in message
    assert "promotion: 2 passed, 0 failed, 3 not run\n" in message
    assert [place.verdict(name) for name in ("kernels", "engine", "gpu")] == [
        "passed", "passed", "not run",
    ]  # fmt: skip
    (evidence,) = place.row("kernels")["evidence"]
    assert evidence["tests"] == {
        "tests/k/test_k.py::test_each": [3, 0, 0],
        "tests/k/test_k.py::test_one": [1, 0, 0],
    }
    assert evidence["hosts"][0]["series_id"] == place.series_id
    assert evidence["hosts"][0]["cores"] >= 1
    page = (place.root / "docs" / "promotion.md").read_text()
    assert page == promotion_page.page(place.ledger())
    assert "right \\| everywhere | passed | 2 tests, 4 cases passed, on a CPU (CPU, " in page
    assert place.run("--check") == 0
    assert said() == "promotion: 2 passed, 0 failed, 3 not run\n"


def test_what_passed_is_remembered(place: Place, units: list[str], said: Said) -> None:
    assert place.run() == 0
    first = place.ledger()
    units.clear()
    assert place.run() == 0
    assert units == []
    assert said().count("as remembered") == 2
    assert place.ledger() == first


@pytest.mark.parametrize(
    ("path", "again"),
    [
        ("tests/harness/__init__.py", ["tests/k/test_k.py", "tests/engine"]),
        ("tests/engine/test_e.py", ["tests/engine"]),
        ("ci/interpreted.py", ["tests/k/test_k.py", "tests/engine"]),
    ],
)
def test_what_its_tests_are_made_of_runs_it_again(
    path: str, again: list[str], place: Place, units: list[str]
) -> None:
    assert place.run() == 0
    units.clear()
    with (place.root / path).open("a") as file:
        file.write("\n# changed\n")
    assert place.run() == 0
    assert units == again


def test_a_stopped_run_goes_on(
    place: Place, units: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Suites.execute

    def stopped(self: Suites, unit: str, log: Path) -> dict[str, Any]:
        if unit == acceptance.ENGINE:
            raise KeyboardInterrupt
        return run(self, unit, log)

    with monkeypatch.context() as patch:
        patch.setattr(Suites, "execute", stopped)
        assert place.run() == 130
    assert place.verdict("kernels") == "passed"
    assert place.verdict("engine") == "not run"
    assert place.run("--check") == 0
    units.clear()
    assert place.run() == 0
    assert units == ["tests/engine"]
    assert place.verdict("engine") == "passed"


def test_a_failure_fails_all_that_name_it(place: Place, units: list[str], said: Said) -> None:
    place.edit("vendor/vllm/tests/k/test_k.py", "assert True", "assert False")
    assert place.run() == 1
    assert place.verdict("kernels") == place.verdict("engine") == "failed"
    assert "test_one: 1 of 1 cases failed" in place.reasons("kernels")
    said()
    assert place.run("--check") == 1
    assert said() == "promotion: 0 passed, 2 failed, 3 not run\n"
    units.clear()
    place.run()
    assert units == ["tests/k/test_k.py"]  # a failure is never remembered


def test_one_case_of_many_fails_a_test(place: Place) -> None:
    place.edit("vendor/vllm/tests/k/test_k.py", "assert n", "assert n < 3")
    assert place.run() == 1
    assert "test_each: 1 of 3 cases failed" in place.reasons("kernels")
    assert place.verdict("engine") == "passed"


@pytest.mark.parametrize("how", ["pytest.skip('no GPU')", "pytest.xfail('known')"])
def test_skipped_is_not_passed(how: str, place: Place) -> None:
    place.edit("vendor/vllm/tests/k/test_k.py", "assert n", f"n < 3 or {how}")
    assert place.run() == 0
    assert place.verdict("kernels") == "not run"
    assert "test_each: 1 cases were skipped" in place.reasons("kernels")


def test_a_fixture_that_fails_fails_its_test(place: Place) -> None:
    place.edit(
        "vendor/vllm/tests/k/test_k.py",
        "def test_one():",
        "@pytest.fixture\ndef gone():\n    raise OSError\n\n\ndef test_one(gone):",
    )
    assert place.run() == 1
    assert "test_one: 1 of 1 cases failed" in place.reasons("kernels")


def test_a_file_that_cannot_be_collected_fails(place: Place) -> None:
    place.edit("vendor/vllm/tests/k/test_k.py", "import pytest", "import pytest, no_such_module")
    assert place.run() == 1
    assert place.verdict("kernels") == "failed"
    assert "tests/k/test_k.py could not be collected" in place.reasons("kernels")


def test_a_run_that_does_not_end_shows_nothing(place: Place) -> None:
    place.edit("tests/engine/test_e.py", "assert True", "import time; time.sleep(60)")
    assert place.run("--limit", "5") == 0
    assert place.verdict("engine") == "not run"
    outcomes = {run["unit"]: run["outcome"] for run in place.ledger()["runs"]}
    assert outcomes == {"tests/k/test_k.py": "passed", "tests/engine": "aborted"}


@pytest.mark.parametrize(
    "words",
    ["os._exit(3)", "pytest.exit('enough', 3)"],
)
def test_a_run_that_breaks_off_shows_nothing(words: str, place: Place) -> None:
    place.edit(
        "vendor/vllm/tests/k/test_k.py",
        "def test_one():\n    assert True",
        f"def test_one():\n    import os; {words}",
    )
    assert place.run() == 0
    assert place.verdict("kernels") == "not run"
    assert {run["unit"]: run["tests"] for run in place.ledger()["runs"]}["tests/k/test_k.py"] == {}


def test_a_build_of_another_series_is_refused(place: Place, said: Said) -> None:
    place.write("bench/series", "f" * 64)
    assert place.run() == 2
    assert "not of series.lock" in said()


# ---- a list that says nothing ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("test_k.py::test_one", "test_k.py::test_two", "no test is called tests/k/test_k"),
        ("k/test_k.py::test_each", "k/test_j.py::test_each", "no test is called tests/k/test_j.py"),
        ('targets = ["twice"]', 'targets = ["thrice"]', "no target is called 'thrice'"),
        ('id = "engine"', 'id = "kernels"', "kernels occurs twice"),
        ('gpu = ["tests/k/test_k.py::test_each"]', "", "gpu names no evidence"),
        ("[file.tests]", "[file.others]", "no [file.tests] says"),
        ("gpu = [", "tpu = [", "nothing reads 'tpu'"),
        ('{ file = "parity"', '{ file = "party"', "no [file.party]"),
        ('key = ["failed"], is = []', 'key = ["failed"]', "must have one of"),
        ('key = ["failed"], is', "is", "lacks 'key'"),
        ('field = "ms"\n', "", "lacks 'field'"),
        ("[[requirement]]", "[[requirement", "cannot be read"),
        ('statement = "faster"\n', "", "lacks a field"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["--host=none", "--check"])
def test_a_list_that_names_nothing_is_refused(
    verb: str, old: str, new: str, message: str, place: Place, said: Said
) -> None:
    place.edit("tests/promotion.toml", old, new)
    assert place.run(verb) == 2
    assert message in said()


# ---- the committed ledger --------------------------------------------------------------------


def test_evidence_of_another_series_is_refused(place: Place, said: Said) -> None:
    assert place.run() == 0
    before = place.series_id
    place.lock("b")
    said()
    assert place.run("--check") == 2
    assert f"evidence of series {before[:12]}" in said()
    assert place.run("--host", "none") == 0
    assert place.ledger()["runs"] == []
    assert place.verdict("kernels") == "not run"
    assert "has not run on this series" in place.reasons("kernels")
    assert place.run("--check") == 0


def test_one_run_of_another_series_is_refused(place: Place, said: Said) -> None:
    assert place.run() == 0
    table = place.ledger()
    table["runs"][0]["host"]["series_id"] = "f" * 64
    place.write_ledger(table)
    assert place.run("--check") == 2
    assert "evidence of series ffffffffffff" in said()


def change_verdict(table: dict[str, Any]) -> None:
    row = next(row for row in table["requirements"] if row["verdict"] == "not run")
    row["verdict"] = "passed"


def change_count(table: dict[str, Any]) -> None:
    run = next(run for run in table["runs"] if run["unit"] != acceptance.ENGINE)
    run["tests"]["tests/k/test_k.py::test_each"] = [2, 1, 0]


def drop_test(table: dict[str, Any]) -> None:
    run = next(run for run in table["runs"] if run["unit"] != acceptance.ENGINE)
    del run["tests"]["tests/k/test_k.py::test_each"]


def drop_requirement(table: dict[str, Any]) -> None:
    del table["requirements"][-1]


@pytest.mark.parametrize("change", [change_verdict, change_count, drop_test, drop_requirement])
def test_a_verdict_follows_from_its_evidence(
    change: Callable[[dict[str, Any]], None], place: Place, said: Said
) -> None:
    assert place.run() == 0
    table = place.ledger()
    change(table)
    place.write_ledger(table)
    place.write("docs/promotion.md", promotion_page.page(table))
    assert place.run("--check") == 2
    assert "does not follow from" in said()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "series_id": "a"}', None]
)
def test_no_ledger_is_refused(text: str | None, place: Place, said: Said) -> None:
    assert place.run("--host", "none") == 0
    path = place.root / "docs" / "promotion.json"
    path.unlink() if text is None else path.write_text(text)
    assert place.run("--check") == 2
    assert "is no ledger" in said()


def test_a_stale_page_is_refused(place: Place, said: Said) -> None:
    assert place.run("--host", "none") == 0
    place.edit("docs/promotion.md", "faster", "much faster")
    assert place.run("--check") == 2
    assert "docs/promotion.md does not show" in said()
    assert place.run("--host", "none") == 0
    assert place.run("--check") == 0


def test_results_that_came_later_are_to_be_taken_in(place: Place, said: Said) -> None:
    assert place.run("--host", "none") == 0
    place.result("parity", failed=[], found=[5])
    assert place.run("--check") == 2
    assert "first difference is parity" in said()
    assert place.run("--host", "none") == 0
    assert place.verdict("parity") == "passed"


# ---- what became of each test ----------------------------------------------------------------


def test_a_summary_counts_all_cases() -> None:
    run = {
        "outcome": "failed", "reason": "boom", "seconds": 3.2,
        "tests": {"a::b": [2, 1, 0], "a::c": [1, 0, 4]},
    }  # fmt: skip
    assert suites.summary(run) == "failed (boom); 3 passed, 1 failed, 4 skipped; 3 s"


def test_ledger_is_plain_json(place: Place) -> None:
    assert place.run("--host", "none") == 0
    text = (place.root / "docs" / "promotion.json").read_text()
    assert ledger.text(json.loads(text)) == text
    assert not list((place.root / "docs").glob(".*"))
