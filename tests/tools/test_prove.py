"""Each patch's tests pass with it and fail without it."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import proofs
import pytest
import world as worlds
from proofs import ANSWER, CHANGE, SPDX
from world import World

from tools import environment, lock, pick, prefixes, testrun, verdict
from tools.errors import UsageError
from tools.testrun import Runner
from tools.verdict import Run

Said = Callable[[], str]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, empty_template: World) -> World:
    made = worlds.copy(empty_template, tmp_path_factory.mktemp("tested") / "project")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GDNWINDOW_CACHE", raising=False)
        return proofs.make(made)


@pytest.fixture
def tested(template: World, tmp_path: Path) -> World:
    return worlds.copy(template, tmp_path / "project")


def proof(world: World, *flags: str) -> int:
    return world.run("prove", "--env", sys.prefix, *flags)


def grid(world: World) -> dict[str, Any]:
    rows = json.loads((world.root / "out" / "prove.json").read_text())["rows"]
    return {row["patch"]: row for row in rows}


def answers(world: World, name: str) -> list[str]:
    return [cell["answer"] for cell in grid(world)[name]["cells"].values()]


def remembered(world: World) -> list[str]:
    return sorted(path.name for path in (world.cache / "prove").glob("*.json"))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], str]]:
    """The runs of tests that really took place."""
    found: list[tuple[tuple[str, ...], str]] = []
    run = Runner.run

    def noted(self: Runner, subject: testrun.Subject, build: Path, log: Path) -> Run:
        found.append((subject.paths, subject.wanted))
        return run(self, subject, build, log)

    monkeypatch.setattr(Runner, "run", noted)
    return found


def test_sound_series_is_proven_and_remembered(
    tested: World, said: Said, runs: list[tuple[tuple[str, ...], str]]
) -> None:
    assert proof(tested) == 0
    message = said()
    assert "2 of 2 patches proven" in message
    assert answers(tested, ANSWER) == ["yes"] * 5
    assert answers(tested, CHANGE) == ["yes"] * 5
    # The one for want of its module, the other by its assertion.
    cells = grid(tested)
    assert "No module named 'vllm.answer'" in cells[ANSWER]["cells"]["fail before"]["note"]
    assert "assert 1 == 2" in cells[CHANGE]["cells"]["fail before"]["note"]
    assert cells[CHANGE]["cells"]["tests pass"]["run"]["passed"] == 1
    assert len(runs) == 4
    assert proof(tested) == 0
    assert len(runs) == 4
    assert said().count("as remembered") == 4
    assert grid(tested)[CHANGE]["cells"]["tests pass"]["run"]["remembered"]
    assert tested.debris() == []
    assert not list(tested.cache.glob(".pr*"))


def test_only_what_changed_runs_again(
    tested: World, runs: list[tuple[tuple[str, ...], str]]
) -> None:
    assert proof(tested) == 0
    runs.clear()
    proofs.put(tested, "vllm/b.py", "value = 2  # two\n")
    tested.git("commit", "-qam", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    assert proof(tested) == 0
    # Without the last patch both trees are the same as before; with it one is not.
    assert runs == [(("tests/test_b.py",), verdict.PASSED)]


@pytest.mark.parametrize("what", ["harness", "script"])
def test_other_way_of_running_tests_proves_anew(
    tested: World, runs: list[tuple[tuple[str, ...], str]], what: str
) -> None:
    assert proof(tested, "--patch", CHANGE) == 0
    runs.clear()
    path = {
        "harness": tested.root / "tests" / "harness" / "pytest_interpreted.py",
        "script": tested.root / "ci" / "interpreted.py",
    }[what]
    path.write_text(path.read_text() + "# changed\n")
    assert proof(tested, "--patch", CHANGE) == 0
    assert len(runs) == 2


def test_test_that_needs_nothing_of_its_patch(tested: World, said: Said) -> None:
    proofs.put(tested, "vllm/a.py", "line = 1\n")
    proofs.put(tested, "tests/test_idle.py", f"{SPDX}def test_it():\n    assert True\n")
    proofs.commit(tested, "[Core] Idle", tests="tests/test_idle.py")
    assert tested.run("refresh") == 0
    name = "core/idle.patch"
    assert proof(tested, "--patch", name) == 1
    assert f"{name}: fail before: no: all 1 pass without the patch" in said()
    assert answers(tested, name) == ["yes", "yes", "yes", "yes", "NO"]
    kept = len(remembered(tested))
    assert kept == 1
    assert proof(tested, "--patch", name) == 1
    assert len(remembered(tested)) == kept


def test_failing_test_is_never_remembered_as_passed(
    tested: World, said: Said, runs: list[tuple[tuple[str, ...], str]]
) -> None:
    proofs.put(tested, "tests/test_b.py", f"{SPDX}def test_it():\n    assert 1 == 3\n")
    tested.git("commit", "-qam", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    for _ in range(2):
        assert proof(tested, "--patch", CHANGE) == 1
        message = said()
        assert f"{CHANGE}: tests pass: no: assert 1 == 3" in message
        assert "0 of 1 patches proven" in message
    assert [wanted for _, wanted in runs].count(verdict.PASSED) == 2


def test_skipped_tests_neither_pass_nor_fail(tested: World, said: Said) -> None:
    proofs.put(
        tested,
        "tests/test_b.py",
        f'{SPDX}import pytest\n\npytest.importorskip("vllm.c")\n\n\ndef test_it():\n    pass\n',
    )
    proofs.put(tested, "vllm/c.py", SPDX)
    tested.git("add", "-A")
    tested.git("commit", "-qm", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    assert proof(tested, "--patch", CHANGE) == 1
    assert answers(tested, CHANGE)[3:] == ["yes", "NO"]
    assert f"{CHANGE}: fail before: no: every file was empty or skipped" in said()


def test_patch_without_tests_says_so(tested: World, said: Said) -> None:
    proofs.put(tested, "vllm/a.py", "line = 1\n")
    proofs.commit(tested, "[Core] Quiet")
    assert tested.run("refresh") == 0
    assert proof(tested, "--patch", "quiet") == 1
    assert "core/quiet.patch: it has no tests of its own; add one, or declare why" in said()


def test_patch_that_declares_why_it_has_no_tests(tested: World, said: Said) -> None:
    proofs.put(tested, "vllm/a.py", "line = 1\n")
    proofs.commit(tested, "[Core] Quiet", tests="none [it renames a line]")
    assert tested.run("refresh") == 0
    assert tested.run("verify", "--no-import", "--no-quilt") == 0
    assert proof(tested, "--patch", "quiet") == 0
    assert "core/quiet.patch: no tests: it renames a line" in said()
    assert grid(tested)["core/quiet.patch"]["no_tests_because"] == "it renames a line"


def test_declared_reason_spares_no_tests_that_are_there(tested: World) -> None:
    proofs.put(tested, "vllm/a.py", "line = 1\n")
    proofs.put(tested, "tests/test_idle.py", f"{SPDX}def test_it():\n    assert True\n")
    proofs.commit(tested, "[Core] Idle", tests="none [nothing to see]")
    assert tested.run("refresh") == 0
    assert proof(tested, "--patch", "idle") == 1


def test_interpreter_that_dies_proves_nothing(
    tested: World, said: Said, runs: list[tuple[tuple[str, ...], str]]
) -> None:
    # Without the patch as well as with it: no report is no failure.
    proofs.put(tested, "tests/test_b.py", f"{SPDX}import os\n\nos._exit(1)\n")
    tested.git("commit", "-qam", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    for _ in range(2):
        assert proof(tested, "--patch", CHANGE) == 1
        assert said().count("pytest ended with exit code 1 and no report") >= 2
    assert answers(tested, CHANGE)[3:] == ["NO", "NO"]
    assert len(runs) == 4
    assert remembered(tested) == []


def runs_still(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # killed, and nobody has asked after it


def test_run_past_its_limit_is_ended_with_all_it_started(
    tested: World, said: Said, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    text = f"import os, pathlib, time\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))"
    proofs.put(tested, "tests/test_b.py", f"{SPDX}{text}\ntime.sleep(600)\n")
    tested.git("commit", "-qam", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    assert proof(tested, "--patch", CHANGE, "--limit", "4") == 1
    assert "it took longer than 4 s" in said()
    deadline = time.monotonic() + 10
    while runs_still(int(note.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert remembered(tested) == []


def test_killed_proof_leaves_no_test_running(tested: World, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = f"import os, pathlib, time\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))"
    proofs.put(tested, "tests/test_b.py", f"{SPDX}{text}\ntime.sleep(600)\n")
    tested.git("commit", "-qam", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    argv = [sys.executable, "-m", "tools", "-C", str(tested.root), "prove", "--env", sys.prefix]
    with subprocess.Popen([*argv, "--patch", CHANGE], cwd=proofs.ROOT) as proving:
        deadline = time.monotonic() + 60
        while not (note.is_file() and note.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert runs_still(int(note.read_text()))
        proving.kill()
    deadline = time.monotonic() + 10
    while runs_still(int(note.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert remembered(tested) == []


def test_interrupt_keeps_what_was_finished(
    tested: World, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Runner._pytest  # noqa: SLF001
    calls: list[str] = []

    def interrupted(self: Runner, subject: testrun.Subject, *rest: Any) -> Run:
        calls.append(subject.wanted)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return ran(self, subject, *rest)

    monkeypatch.setattr(Runner, "_pytest", interrupted)
    assert proof(tested) == 130
    assert len(remembered(tested)) == 1
    assert not list(tested.cache.glob(".pr*"))
    said()
    assert proof(tested) == 0
    assert said().count("as remembered") == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"passed"', '"failed"', 1).replace('": "failed"', '": "no"', 1),
        lambda text: text.replace('"key": "', '"key": "0'),
        lambda text: "[]",
        lambda text: text.replace('"skipped"', '"other"'),
    ],
    ids=["empty", "half", "outcome", "key", "list", "field"],
)
def test_record_that_is_not_whole_is_not_believed(
    tested: World, runs: list[tuple[tuple[str, ...], str]], spoil: Callable[[str], str]
) -> None:
    assert proof(tested, "--patch", CHANGE) == 0
    runs.clear()
    for name in remembered(tested):
        path = tested.cache / "prove" / name
        changed = spoil(path.read_text())
        assert changed != path.read_text()
        path.write_text(changed)
    assert proof(tested, "--patch", CHANGE) == 0
    assert len(runs) == 2


def test_patch_that_does_not_apply_stops_those_behind_it(tested: World, said: Said) -> None:
    path = tested.patch(ANSWER)
    path.write_text(path.read_text().replace("+value = 42", "+value = 43"))
    series = tested.root / "series"
    series.write_text(series.read_text().replace(ANSWER, f"{CHANGE}\n{ANSWER}", 1))
    lines = series.read_text().splitlines()
    series.write_text("\n".join([*lines[:-1], ""]))
    broken = tested.patch(CHANGE)
    broken.write_text(broken.read_text().replace("-value = 1", "-value = 7"))
    assert proof(tested) == 1
    assert answers(tested, CHANGE) == ["NO", "-", "-", "-", "-"]
    assert answers(tested, ANSWER) == ["-"] * 5
    assert f"{CHANGE}: applies: no: {CHANGE} does not apply" in said()


def test_file_that_does_not_compile(tested: World, said: Said) -> None:
    proofs.put(tested, "vllm/b.py", "value = = 2\n")
    tested.git("commit", "-qam", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    assert proof(tested) == 1
    assert answers(tested, CHANGE) == ["yes", "NO", "-", "-", "-"]
    assert answers(tested, ANSWER) == ["yes"] * 5
    assert f"{CHANGE}: compiles: no: {CHANGE}: vllm/b.py does not compile" in said()


def test_module_that_does_not_import(tested: World, said: Said) -> None:
    proofs.put(tested, "vllm/data.py", f"{SPDX}import vllm.nothing\n")
    tested.git("add", "-A")
    tested.git("commit", "-qm", "fixup", "--fixup=HEAD")
    assert tested.run("refresh") == 0
    assert proof(tested, "--patch", CHANGE) == 1
    assert answers(tested, CHANGE) == ["yes", "yes", "NO", "yes", "yes"]
    assert "import vllm.data fails: ModuleNotFoundError" in said()


def test_one_patch_by_its_name_or_its_last_part(tested: World, said: Said) -> None:
    for word in (CHANGE, "change-b", "core/change-b", f"patches/{CHANGE}"):
        assert pick.find([ANSWER, CHANGE], word) == CHANGE
    with pytest.raises(UsageError, match="several patches"):
        pick.find(["a/x.patch", "b/x.patch"], "x")
    assert proof(tested, "--patch", "nothing") == 2
    assert "nothing is no patch of the series; name one as series does" in said()
    assert proof(tested, "--patch", "change-b") == 0
    assert list(grid(tested)) == [CHANGE]


def test_works_without_a_checkout_and_leaves_none(tested: World) -> None:
    shutil.rmtree(tested.checkout)
    assert proof(tested, "--patch", CHANGE) == 0
    assert not tested.checkout.exists()


def test_work_in_the_checkout_is_not_what_is_proven(tested: World) -> None:
    tested.edit("vllm/b.py", "2", "3")
    assert proof(tested, "--patch", CHANGE) == 0
    assert (tested.checkout / "vllm" / "b.py").read_text() == "value = 3\n"


def test_file_above_the_tree_is_no_part_of_it(tested: World) -> None:
    tested.cache.mkdir(exist_ok=True)
    (tested.cache / "__init__.py").write_text("raise ImportError\n")
    assert proof(tested, "--patch", CHANGE) == 0


def test_environment_that_is_not_there(tested: World, said: Said) -> None:
    assert tested.run("prove") == 1
    assert "is not there, and tests run in it; run `make env`" in said()


def test_moved_build_runs_no_bytecode_of_the_prefix_before(tested: World) -> None:
    project, git = tested.project, tested.project.git
    chain = lock.load(project.lock)
    env = environment.given(project, Path(sys.prefix))
    with prefixes.building(project, git, env) as build:
        build.move(chain.base, chain.base_tree)
        source = build.folder / "vllm" / "b.py"
        py_compile.compile(str(source))
        before = source.stat()
        build.move(chain.base, chain.tree)
        assert source.stat().st_size == before.st_size
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))  # a quick machine
        done = env.run("-c", "import vllm.b; print(vllm.b.value)", path=[build.folder])
    assert done.stdout == "2\n"


def test_package_of_a_later_prefix_leaves_no_folder(tested: World) -> None:
    """Python would import the empty folder, and a test that must fail would find it."""
    new = tested.checkout / "vllm" / "more" / "deep" / "new.py"
    new.parent.mkdir(parents=True)
    new.write_text("value = 1\n")
    tested.commit("A package", "Topic: fresh")
    git, tree = tested.project.git, tested.tree()
    base = lock.load(tested.project.lock).base
    env = environment.given(tested.project, Path(sys.prefix))
    with prefixes.building(tested.project, git, env) as build:
        build.move(base, tree)
        py_compile.compile(str(build.folder / "vllm" / "more" / "deep" / "new.py"))
        build.move(base, base.base_tree)
        assert not (build.folder / "vllm" / "more").exists()
        assert (build.folder / "vllm" / "b.py").is_file()


CASE = '<testcase name="a"/>'
BAD = '<testcase name="b"><failure message="assert 0"/></testcase>'
SKIP = '<testcase name="c"><skipped/></testcase>'


FETCH = "tests/test_hub.py::TestHub::test_fetch[a.b]"


def hub(world: World, text: str, value: int = 2) -> str:
    """Let a patch edit upstream's own file of tests, and b; return its name."""
    proofs.put(world, "vllm/b.py", f"value = {value}\n")
    proofs.put(world, "tests/test_hub.py", SPDX + worlds.HUB_TESTS + text)
    # Its own row of the grid; the patch before it has another value.
    proofs.put(world, "vllm/a.py", "more = 1\n")
    proofs.commit(world, "[Core] Hub", tests="tests/test_hub.py")
    assert world.run("refresh") == 0
    return "core/hub.patch"


def test_upstreams_test_that_fails_without_the_series_is_left_out_and_named(
    tested: World, said: Said, runs: list[tuple[tuple[str, ...], str]]
) -> None:
    name = hub(tested, "\n\ndef test_new():\n    from vllm.a import more\n")
    said()
    assert proof(tested, "--patch", name) == 0
    line = (
        f"{name}: left out: {FETCH}, which fails on the pristine tree as well: OSError: no network"
    )
    assert line in said()
    cells = grid(tested)[name]["cells"]
    after, before = cells["tests pass"]["run"], cells["fail before"]["run"]
    assert list(after["left_out"]) == list(before["left_out"]) == [FETCH]
    assert (after["passed"], after["failed"]) == (2, 0)
    # The reason is the patch's, not the network.
    assert "cannot import name 'more'" in before["reason"]
    assert list(before["failures"]) == ["tests/test_hub.py::test_new"]
    count = len(runs)
    assert proof(tested, "--patch", name) == 0
    assert len(runs) == count
    assert line in said()


def test_failure_that_is_upstreams_own_shows_nothing_of_a_patch(tested: World, said: Said) -> None:
    name = hub(tested, "\n\ndef test_idle():\n    assert True\n")
    assert proof(tested, "--patch", name) == 1
    assert answers(tested, name) == ["yes", "yes", "yes", "yes", "NO"]
    assert f"{name}: fail before: no: all 2 pass without the patch" in said()


@pytest.mark.parametrize(
    ("value", "text", "culprit", "reason"),
    [
        (3, "", "test_value", "assert 3 < 3"),
        (2, "\n\ndef test_new():\n    assert b.value == 7\n", "test_new", "assert 2 == 7"),
    ],
    ids=["breaks upstream's test", "adds one that fails"],
)
def test_failure_that_is_the_patchs_counts(
    tested: World, said: Said, value: int, text: str, culprit: str, reason: str
) -> None:
    name = hub(tested, text, value)
    for _ in range(2):
        assert proof(tested, "--patch", name) == 1
        assert f"{name}: tests pass: no: {reason}" in said()
    run = grid(tested)[name]["cells"]["tests pass"]["run"]
    assert list(run["failures"]) == [f"tests/test_hub.py::{culprit}"]
    assert list(run["left_out"]) == [FETCH]


def test_test_that_a_patch_mends_counts(tested: World) -> None:
    mended = worlds.HUB_TESTS.replace('raise OSError("no network")', "assert b.value == 7")
    proofs.put(tested, "vllm/b.py", "value = 7\n")
    proofs.put(tested, "tests/test_hub.py", SPDX + mended.replace("< 3", "< 8"))
    proofs.commit(tested, "[Core] Hub", tests="tests/test_hub.py")
    assert tested.run("refresh") == 0
    assert proof(tested, "--patch", "hub") == 0
    before = grid(tested)["core/hub.patch"]["cells"]["fail before"]["run"]
    assert before["reason"].startswith("assert 2 == 7")
    assert before["left_out"] == {}


def test_failure_of_a_patchs_own_file_is_never_left_out(tested: World) -> None:
    """Also where upstream's file beside it is left out, and the tests have the same names."""
    proofs.put(tested, "tests/test_lub.py", SPDX + worlds.HUB_TESTS)
    name = hub(tested, "\n\ndef test_new():\n    from vllm.a import more\n")
    assert proof(tested, "--patch", name) == 1
    run = grid(tested)[name]["cells"]["tests pass"]["run"]
    assert list(run["failures"]) == [FETCH.replace("hub", "lub")]
    assert list(run["left_out"]) == [FETCH]


def test_run_is_remembered_with_what_does_not_count(tested: World) -> None:
    project, git = tested.project, tested.project.git
    runner = Runner(project, git, environment.given(project, Path(sys.prefix)), 1)
    subject = testrun.Subject(tested.tree(), tested.tree(), ("tests/test_b.py",), verdict.FAILED)
    runner.keep(subject, Run(verdict.FAILED, 1, failed=1))
    assert runner.recall(subject)
    assert runner.recall(replace(subject, without=("a",))) is None


def test_what_is_left_of_a_run() -> None:
    run = Run(verdict.FAILED, 1, passed=1, failed=2, reason="x", failures={"a": "x", "b": "y"})
    assert run.leave_out(["c"]) == run
    some = run.leave_out(["a"])
    assert (some.outcome, some.failed, some.reason) == (verdict.FAILED, 1, "y")
    assert (some.failures, some.left_out) == ({"b": "y"}, {"a": "x"})
    every = run.leave_out(["a", "b"])
    assert (every.outcome, every.failed, every.reason) == (verdict.PASSED, 0, "")
    none = Run(verdict.FAILED, 1, failed=1, reason="x", failures={"a": "x"}).leave_out(["a"])
    assert (none.outcome, none.reason) == (verdict.NOTHING, "no test that counts passed")


def test_failures_are_named_only_where_all_tests_ran(tmp_path: Path) -> None:
    """Half a run whose failures do not count would pass."""
    report = tmp_path / "report.xml"
    bad = BAD.replace('name="b"', 'classname="tests.test_b.TestB" name="b"')
    report.write_text(f"<testsuites><testsuite>{CASE}{bad}</testsuite></testsuites>")
    paths = ("tests/test_a.py", "tests/test_b.py")
    assert verdict.judge(1, report, paths).failures == {"tests/test_b.py::TestB::b": "assert 0"}
    assert verdict.judge(2, report, paths).outcome == verdict.FAILED
    assert verdict.judge(2, report, paths).failures == {}


@pytest.mark.parametrize(
    ("code", "cases", "outcome"),
    [
        (0, CASE, verdict.PASSED),
        (0, CASE + SKIP, verdict.PASSED),
        (0, SKIP, verdict.NOTHING),
        (0, CASE + BAD, verdict.ABORTED),
        (1, CASE + BAD, verdict.FAILED),
        (1, CASE, verdict.ABORTED),
        (2, BAD, verdict.FAILED),
        (2, CASE, verdict.ABORTED),  # somebody's Ctrl-C
        (3, BAD, verdict.ABORTED),
        (4, CASE, verdict.ABORTED),
        (5, "", verdict.NOTHING),
        (-9, CASE, verdict.ABORTED),
        (0, None, verdict.ABORTED),
        (1, None, verdict.ABORTED),
    ],
)
def test_exit_code_and_report_are_judged_together(
    tmp_path: Path, code: int, cases: str | None, outcome: str
) -> None:
    report = tmp_path / "report.xml"
    if cases is not None:
        report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert verdict.judge(code, report).outcome == outcome


def test_what_is_a_test() -> None:
    assert testrun.is_test("tests/a/test_b.py")
    assert testrun.is_test("tests/b_test.py")
    for path in ("tests/utils.py", "vllm/test_b.py", "tests/test_b.txt", "tests/latest_x.py"):
        assert not testrun.is_test(path)
