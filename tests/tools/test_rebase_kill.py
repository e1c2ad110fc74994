"""Kill a rebase at its steps, and anywhere: no resolution is lost, and it ends the same."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import lineage
import pytest
import world as worlds
from lineage import FIVE, THREE, a, resolve, result, scene
from test_kill import killed_at, timed
from world import World

CONFLICT = 3
UP = a(line_3="three\n", line_5="five\n")
ONCE = a(line_3="three * 11\n", line_5="five\n")
TWICE = a(line_3="three * 11\n", line_5="five * 11\n")


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    folder = tmp_path / "releases"
    worlds.release(folder, "1.3.0", {"vllm/a.py": UP})
    return folder


def begin(world: World, folder: Path) -> int:
    return lineage.rebase(world, folder, "1.3.0")


def go_on(world: World) -> int:
    return world.run("rebase", "--continue")


def results(world: World) -> dict[str, bytes]:
    folder = result(world)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def want(series: World, releases: Path, tmp_path: Path) -> dict[str, bytes]:
    """The result of a rebase that nobody killed."""
    made = worlds.copy(series, tmp_path / "reference")
    assert begin(made, releases) == CONFLICT
    resolve(made, "vllm/a.py", ONCE)
    assert go_on(made) == CONFLICT
    resolve(made, "vllm/a.py", TWICE)
    assert go_on(made) == 0
    return results(made)


def untouched(world: World) -> dict[str, bytes]:
    pin = world.root / "vendor" / "upstream.toml"
    return {**world.snapshot(), "pin": pin.read_bytes(), "head": world.head().encode()}


def finish(world: World, folder: Path) -> None:
    """Do what a user does next, whatever state a kill left."""
    if not (world.root / "vendor" / "rebase" / "state.json").is_file():
        assert begin(world, folder) == CONFLICT
    for _ in range(4):
        code = world.run("rebase")
        if code == 0:
            return
        done = lineage.statuses(world)
        if (scene(world) / "vllm" / "a.py").is_file() and waits(world):
            resolve(world, "vllm/a.py", ONCE if THREE not in done else TWICE)
        assert go_on(world) in (0, CONFLICT)
    pytest.fail("the rebase does not end")


def waits(world: World) -> bool:
    text = (world.root / "vendor" / "rebase" / "state.json").read_text()
    return '"ready": true' in text


def every_step(
    make: Callable[[], World],
    action: Callable[[World], int],
    check: Callable[[World], None],
    stride: int = 1,
) -> int:
    for step in itertools.count(0, stride):
        made = make()
        if not killed_at(step, lambda made=made: action(made), (0, CONFLICT)):  # type: ignore[misc]
            return step
        check(made)
        shutil.rmtree(made.root)
    raise AssertionError


@pytest.fixture
def numbered(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / f"w{number}" for number in itertools.count())


def test_on_the_way_to_the_conflict(
    series: World, releases: Path, want: dict[str, bytes], numbered: Iterator[Path]
) -> None:
    before = untouched(series)
    turn = itertools.count()

    def check(made: World) -> None:
        assert untouched(made) == before
        begun = (made.root / "vendor" / "rebase" / "state.json").is_file()
        assert (go_on(made) if begun else begin(made, releases)) == CONFLICT
        assert lineage.report(made)["patch"] == THREE
        assert "<<<<<<<" in lineage.in_scene(made, "vllm/a.py")
        if next(turn) % 3 == 0:  # what follows is the same, and takes longest
            finish(made, releases)
            assert results(made) == want
        assert untouched(made) == before
        assert made.debris() == []

    steps = every_step(
        lambda: worlds.copy(series, next(numbered)), lambda made: begin(made, releases), check, 2
    )
    assert steps > 20


def test_at_every_step_after_a_resolution(
    series: World, releases: Path, want: dict[str, bytes], numbered: Iterator[Path]
) -> None:
    """The resolution is in the folder or in the state; it is never asked for again."""
    assert begin(series, releases) == CONFLICT
    resolve(series, "vllm/a.py", ONCE)
    before = untouched(series)

    def check(made: World) -> None:
        assert untouched(made) == before
        if THREE not in lineage.statuses(made):
            assert lineage.in_scene(made, "vllm/a.py") == ONCE
        assert go_on(made) == CONFLICT
        assert THREE in lineage.statuses(made)
        assert lineage.report(made)["patch"] == FIVE
        resolve(made, "vllm/a.py", TWICE)
        assert go_on(made) == 0
        assert results(made) == want

    steps = every_step(lambda: worlds.copy(series, next(numbered)), go_on, check)
    assert steps > 10


def test_in_a_promotion(
    series: World, releases: Path, want: dict[str, bytes], numbered: Iterator[Path]
) -> None:
    (series.root / "vendor" / "rebase.toml").write_text('[promote]\ncommands = ["true"]\n')
    assert begin(series, releases) == CONFLICT
    finish(series, releases)
    shutil.copytree(series.upstream, releases, dirs_exist_ok=True)
    old = untouched(series)
    turn = itertools.count()

    def promote(made: World) -> int:
        return made.run("rebase", "--promote", "--from", str(releases))

    def check(made: World) -> None:
        for name, content in made.snapshot().items():
            assert content in (old.get(name), want.get(name)), name
        if untouched(made) == old and next(turn) % 3:
            return  # before the step that decides; what follows takes longest
        if made.run("rebase") != 2:  # 2: the rebase is over
            assert promote(made) == 0
        assert made.run("apply") == 0
        now = made.snapshot()
        assert now == {name: content for name, content in want.items() if name in now}
        assert made.project.pin.version == "1.3.0"
        assert f'commit = "{made.head()}"'.encode() in want["series.lock"]
        assert made.debris() == []

    steps = every_step(lambda: worlds.copy(series, next(numbered)), promote, check, 3)
    assert steps > 20


@pytest.mark.parametrize("part", [1, 4, 7])
def test_anywhere_with_git_itself(
    series: World, releases: Path, want: dict[str, bytes], part: int
) -> None:
    """SIGKILL to the tools and to the git they run, after a part of the usual time."""
    before = untouched(series)
    argv = ["rebase", "--upstream", "1.3.0", "--from", str(releases)]
    took = timed(worlds.copy(series, series.root.parent / "timed"), argv, None)
    timed(series, argv, took * part / 8)
    assert untouched(series) == before
    finish(series, releases)
    assert results(series) == want
    assert untouched(series) == before


def test_git_killed_while_it_set_the_scene(series: World, tmp_path: Path) -> None:
    """A lock, files without an index, half a file: the next run begins the scene anew."""
    folder = tmp_path / "others"
    worlds.release(folder, "1.3.0", {"vllm/old.py": "gone = 'no'\n"})
    assert begin(series, folder) == CONFLICT
    wanted = lineage.report(series)
    state = series.root / "vendor" / "rebase" / "state.json"
    state.write_text(state.read_text().replace('"ready": true', '"ready": false'))
    where = scene(series)
    series.git("cherry-pick", "--abort", folder=where)
    (where / "vllm" / "new.py").write_text("half of i")
    (where / "vllm" / "a.py").write_text("half\n")
    (where / ".git" / "index.lock").touch()
    assert series.run("rebase") == CONFLICT
    assert go_on(series) == CONFLICT
    assert lineage.report(series) == wanted
    assert "import vllm.a" in lineage.in_scene(series, "vllm/new.py")
    series.git("rm", "-q", "vllm/old.py", folder=where)
    assert go_on(series) == 0
