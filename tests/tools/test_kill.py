"""Kill the tools at every step: nothing is half-written, and the next run completes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import world as worlds
from world import World

from tools import files
from tools.git import Git

ROOT = Path(__file__).parents[2]
DONE, KILLED = 0, 77
WRITES = (
    "add",
    "checkout",
    "cherry-pick",
    "clean",
    "rebase",
    "rerere",
    "reset",
    "update-ref",
)


def killed_at(step: int, action: Callable[[], int], done: tuple[int, ...] = (DONE,)) -> bool:
    """Run in a child that dies before its n-th write; say whether it died."""
    child = os.fork()
    if child == 0:
        left = step

        def count() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(KILLED)

        call = Git.call

        def git_call(self: Git, *argv: str, **rest: Any) -> Any:
            # The other commands read, or add loose objects.
            if argv[0] in WRITES:
                count()
            return call(self, *argv, **rest)

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def wrapper(*args: object, **kwargs: object) -> object:
                count()
                return function(*args, **kwargs)

            return wrapper

        Git.call = git_call  # type: ignore[method-assign]
        files.write = counted(files.write)  # type: ignore[assignment]
        for name in ("rename", "replace", "unlink", "write_bytes", "rmdir"):
            setattr(Path, name, counted(getattr(Path, name)))
        shutil.rmtree = counted(shutil.rmtree)  # type: ignore[assignment]
        code = 99
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = action()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (*done, KILLED)
    return os.waitstatus_to_exitcode(status) == KILLED


def every_step(make: Callable[[], World], verb: str, check: Callable[[World], None]) -> int:
    """Kill a verb at each of its steps, check, run it again, check again."""
    step = 0
    while True:
        made = make()
        if not killed_at(step, lambda made=made: made.run(verb)):  # type: ignore[misc]
            return step
        check(made)
        shutil.rmtree(made.root)
        step += 1


def is_whole(patch: bytes) -> bool:
    return patch.startswith(b"From: ") and b"\ndiff --git " in patch and patch.endswith(b"\n")


def test_first_apply(series: World, tmp_path: Path) -> None:
    want = series.head()
    shutil.rmtree(series.checkout)
    numbers = iter(range(10_000))

    def make() -> World:
        return worlds.copy(series, tmp_path / f"w{next(numbers)}")

    def check(made: World) -> None:
        # There is no checkout, or there is the whole one.
        if made.checkout.exists():
            assert made.head() == want
            assert made.git("status", "--porcelain") == ""
        assert made.run("apply") == 0
        assert made.head() == want
        assert made.debris() == []

    assert every_step(make, "apply", check) > 10


def test_moving_apply(series: World, tmp_path: Path) -> None:
    want = series.head()
    series.git("reset", "-q", "--hard", "series-base")
    numbers = iter(range(10_000))

    def make() -> World:
        return worlds.copy(series, tmp_path / f"w{next(numbers)}")

    def check(made: World) -> None:
        assert made.head() in (want, made.git("rev-parse", "series-base"))
        assert made.run("apply") == 0
        assert made.head() == want
        assert made.git("status", "--porcelain") == ""

    assert every_step(make, "apply", check) > 10


def test_refresh(series: World, tmp_path: Path) -> None:
    old = series.snapshot()
    # One patch changes, one goes, one comes.
    series.git("reset", "-q", "--hard", "HEAD~1")
    series.edit("vllm/a.py", "line_3 = 33\n", "line_3 = 333\n")
    series.git("commit", "-qa", "--amend", "--no-edit")
    series.edit("vllm/b.py", "1", "2")
    series.commit("Come", "Topic: fresh")
    reference = worlds.copy(series, tmp_path / "reference")
    assert reference.run("refresh") == 0
    new = reference.snapshot()
    assert new != old
    numbers, turn = iter(range(10_000)), iter(range(10_000))

    def make() -> World:
        return worlds.copy(series, tmp_path / f"w{next(numbers)}")

    def check(made: World) -> None:
        for name, content in made.snapshot().items():
            assert content in (old.get(name), new.get(name)), name
        assert made.tree() == reference.tree()  # the work is never lost
        # Either command goes on from there; before the deciding step apply says "refresh".
        if next(turn) % 2 == 0 and made.run("apply") == 0:
            assert made.snapshot() == new
        assert made.run("refresh") == 0
        assert made.snapshot() == new
        assert made.head() == reference.head()
        assert made.debris() == []

    assert every_step(make, "refresh", check) > 20


def test_checkout_killed_in_the_middle_is_finished(series: World) -> None:
    """Git itself died: some files are new, the index is old and locked."""
    want = series.head()
    series.git("reset", "-q", "--hard", "series-base")
    git = series.checkout / ".git"
    base = series.head()
    (git / "series-moving.json").write_text(f'{{"from": "{base}", "to": "{want}"}}')
    text = series.git("show", f"{want}:vllm/a.py") + "\n"
    (series.checkout / "vllm" / "a.py").write_text(text)
    (series.checkout / "vllm" / "new.py").write_text(
        series.git("show", f"{want}:vllm/new.py") + "\n"
    )
    (git / "index.lock").touch()
    assert series.run("apply") == 0
    assert series.head() == want
    assert series.git("status", "--porcelain") == ""


def test_real_edit_after_a_killed_checkout_is_kept(series: World, said: Callable[[], str]) -> None:
    want = series.head()
    series.git("reset", "-q", "--hard", "series-base")
    note = series.checkout / ".git" / "series-moving.json"
    note.write_text(f'{{"from": "{series.head()}", "to": "{want}"}}')
    series.edit("vllm/a.py", "line_3 = 3\n", "line_3 = mine\n")
    assert series.run("apply") == 3
    assert "edits in vllm/a.py" in said()
    assert "line_3 = mine" in (series.checkout / "vllm" / "a.py").read_text()


def test_interrupt_is_one_line(
    series: World, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)  # another thread may take it; this one hears of it soon

    monkeypatch.setattr("tools.stack.build", interrupt)
    # A job in the background inherits that SIGINT is ignored.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert series.run("apply") == 130
    finally:
        signal.signal(signal.SIGINT, inherited)
    assert "interrupted" in said()


# ---- anywhere, and git with it -------------------------------------------------------------


def timed(world: World, argv: list[str], limit: float | None) -> float:
    """Run a verb in a process group of its own; kill all of it after a time."""
    start = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "tools", "-C", str(world.root), *argv],
        cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        child.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return time.monotonic() - start


@pytest.mark.parametrize("part", [2, 4, 6])
@pytest.mark.parametrize("verb", ["refresh", "apply"])
def test_sigkill_loses_no_commit(series: World, verb: str, part: int) -> None:
    """SIGKILL to the tools and to the git they run, after a part of the usual time."""
    series.edit("vllm/a.py", "line_3 = 33\n", "line_3 = 333\n")
    series.git("commit", "-qa", "-m", "fixup! [Core] Change three")
    series.edit("vllm/b.py", "1", "2")
    mine = series.commit("Come", "Topic: fresh")
    tree = series.tree()
    took = timed(worlds.copy(series, series.root.parent / "timed"), [verb], None)
    timed(series, [verb], took * part / 8)
    # Git may have died over its lock, or halfway through a fold; both it says itself.
    (series.checkout / ".git" / "index.lock").unlink(missing_ok=True)
    if (series.checkout / ".git" / "rebase-merge").exists():
        series.git("rebase", "--abort")
    assert series.tree() == tree
    assert series.git("cat-file", "-t", mine) == "commit"
    assert series.run("refresh") == 0
    assert series.tree() == tree
    assert series.patch("fresh/come.patch").is_file()
    assert "line_3 = 333" in series.patch("core/change-three.patch").read_text()
