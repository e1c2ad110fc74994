"""The pin moves to a rebased series only when every configured command passes on it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import world as worlds
from fakeindex import Index
from lineage import a, rebase, result
from world import World

from tools import checkout, pinning

Said = Callable[[], str]
NEW_WHEEL = worlds.WHEEL.replace("1.2.0", "1.3.0")
# Each runs in the copy; the first writes what it sees where the test can read it.
LOOK = """
import os, pathlib, sys
seen = pathlib.Path("../seen.txt")
pin = pathlib.Path("vendor/upstream.toml").read_text()
seen.write_text(pin + pathlib.Path("series.lock").read_text() + os.environ["CACHE"])
assert not pathlib.Path("vendor/vllm").exists()
"""


@pytest.fixture
def releases(tmp_path: Path, upstream: Path) -> Path:
    folder = tmp_path / "releases"
    shutil.copytree(upstream, folder)
    worlds.release(folder, "1.3.0", {"vllm/a.py": "# top\n" + a(line_8="eight\n")})
    return folder


@pytest.fixture
def carried(series: World, releases: Path) -> World:
    (series.root / "look.py").write_text(LOOK)
    commands(series, f"{sys.executable} look.py")
    assert rebase(series, releases, "1.3.0") == 0
    return series


def commands(world: World, *lines: str) -> None:
    rows = ", ".join(f'"{line}"' for line in lines)
    (world.root / "vendor" / "rebase.toml").write_text(f"[promote]\ncommands = [{rows}]\n")


def promote(world: World, folder: Path) -> int:
    return world.run("rebase", "--promote", "--from", str(folder))


def state(world: World) -> dict[str, bytes]:
    pin = world.root / "vendor" / "upstream.toml"
    return {**world.snapshot(), "pin": pin.read_bytes(), "head": world.head().encode()}


def test_line_has_commands_of_its_own(carried: World, releases: Path, said: Said) -> None:
    path = carried.root / "vendor" / "rebase.toml"
    path.write_text('[promote]\ncommands = ["false"]\nline = ["true"]\n')
    assert promote(carried, releases) == 1
    assert carried.run("rebase", "--promote", "line", "--from", str(releases)) == 0
    assert "promote: true\npromote: lines/1.3.0 is the series on 1.3.0" in said()


def test_pin_patches_and_checkout_move_together(carried: World, releases: Path, said: Said) -> None:
    seen = carried.root / "vendor" / "rebase" / "seen.txt"
    lock = (result(carried) / "series.lock").read_bytes()
    assert promote(carried, releases) == 0
    message = said()
    assert f"promote: {sys.executable} look.py" in message
    assert "promote: the pin is 1.3.0 now" in message
    pin = carried.project.pin
    assert (pin.version, pin.git_tag, pin.sdist.name) == ("1.3.0", "v1.3.0", "vllm-1.3.0.tar.gz")
    assert pin.wheel.name == NEW_WHEEL
    assert pin.wheel.sha256 == worlds.sha256(releases / NEW_WHEEL)
    assert pin.sdist.commit == pin.wheel.commit == "gabc123456"
    assert pin.cpu_wheel.name == worlds.CPU_WHEEL  # 1.1.0 is the newest that is not newer
    assert pin.requires["python"] == ">=3.12"
    assert (carried.root / "series.lock").read_bytes() == lock
    assert seen.read_text().startswith((carried.root / "vendor" / "upstream.toml").read_text())
    assert seen.read_text().endswith(lock.decode() + str(carried.cache))
    assert f'commit = "{carried.head()}"' in lock.decode()
    assert "# top" in (carried.checkout / "vllm" / "a.py").read_text()
    assert carried.run("verify", "--no-import") == 0
    assert carried.run("rebase") == 2
    assert carried.debris() == []


def test_comments_of_the_pin_stay() -> None:
    old = (
        '# Why.\n[upstream]\nversion = "1.2.0"\ndate = 2026-01-01T00:00:00Z  # newest\n\n'
        '[sdist]\nname = "a"  # n\n[testonly.cpu_wheel]\nname = "b"\n'
    )
    values: dict[str, object] = {
        "upstream.version": '"1.3.0"',
        "upstream.date": "2026-02-01T00:00:00Z",
        "testonly.cpu_wheel.name": '"c"',
    }
    assert pinning.edit(old, values) == (
        '# Why.\n[upstream]\nversion = "1.3.0"\ndate = 2026-02-01T00:00:00Z  # newest\n\n'
        '[sdist]\nname = "a"  # n\n[testonly.cpu_wheel]\nname = "c"\n'
    )


def test_failing_command_leaves_the_pin(carried: World, releases: Path, said: Said) -> None:
    commands(
        carried,
        f"{sys.executable} look.py",
        f"{sys.executable} -c 'print(11 * 3); raise SystemExit(7)'",
        f"{sys.executable} look.py --never",
    )
    before = state(carried)
    said()
    assert promote(carried, releases) == 1
    message = said()
    assert "fails on the rebased series, so the pin stays" in message
    assert "--never" not in message
    assert state(carried) == before
    log = (carried.root / "vendor" / "rebase" / "promote.log").read_text()
    assert "33\n" in log
    # Nothing of it has to be done again.
    commands(carried, f"{sys.executable} look.py")
    assert promote(carried, releases) == 0
    assert carried.project.pin.version == "1.3.0"


def test_corrections_made_in_the_copy_are_taken(carried: World, releases: Path, said: Said) -> None:
    check = (
        "import pathlib; assert '555' in pathlib.Path('patches/core/change-five.patch').read_text()"
    )
    (carried.root / "check.py").write_text(check)
    commands(carried, f"{sys.executable} check.py")
    assert promote(carried, releases) == 1
    assert "`make -C vendor/rebase/candidate refresh`, then promote again" in said()
    copy = World(carried.root / "vendor" / "rebase" / "candidate", releases)
    assert copy.run("fetch", "--from", str(releases)) == 0
    assert copy.run("apply") == 0
    copy.edit("vllm/a.py", "line_5 = 55\n", "line_5 = 555\n")
    copy.git("commit", "-qam", "fixup! [Core] Change five")
    head = copy.head()
    for verb in ("--promote", "--abort"):
        said()
        assert carried.run("rebase", verb) == 3
        assert "candidate/vendor/vllm has 1 commit(s) that are not in patches/" in said()
        assert copy.head() == head
    assert copy.run("refresh") == 0
    assert promote(carried, releases) == 0
    assert "with the corrections made in vendor/rebase/candidate" in said()
    assert "+line_5 = 555" in carried.patch("core/change-five.patch").read_text()
    assert "line_5 = 555" in (carried.checkout / "vllm" / "a.py").read_text()
    assert carried.run("verify", "--no-import") == 0


def test_work_during_the_commands_is_seen(carried: World, releases: Path, said: Said) -> None:
    inner = (
        "import pathlib, subprocess, os; os.chdir('../../vllm');"
        "pathlib.Path('vllm/b.py').write_text('mine'); subprocess.check_call(['git', 'status'])"
    )
    (carried.root / "work.py").write_text(inner)
    commands(carried, f"{sys.executable} work.py")
    before = state(carried)
    assert promote(carried, releases) == 3
    assert "has edits in vllm/b.py" in said()
    assert state(carried) == before


def test_rebase_and_promotion_in_one(series: World, releases: Path) -> None:
    (series.root / "look.py").write_text(LOOK)
    commands(series, f"{sys.executable} look.py")
    assert rebase(series, releases, "1.3.0", "--promote") == 0
    assert series.project.pin.version == "1.3.0"


def test_conflict_promotes_nothing(series: World, releases: Path) -> None:
    worlds.release(releases, "1.4.0", {"vllm/a.py": a(line_3="three\n")})
    commands(series, "true")
    before = state(series)
    assert rebase(series, releases, "1.4.0", "--promote") == 3
    assert series.run("rebase", "--promote") == 3
    assert state(series) == before


@pytest.mark.parametrize("what", ["commit", "edit", "series"])
def test_work_since_then_is_never_undone(
    carried: World, releases: Path, said: Said, what: str
) -> None:
    carried.edit("vllm/b.py", "1", "2")
    if what != "edit":
        carried.commit("Mine", "Topic: core")
    if what == "series":
        assert carried.run("refresh") == 0
    before = state(carried)
    said()
    assert promote(carried, releases) == 3
    words = {
        "commit": "1 commit(s) that are not in patches/",
        "edit": "has edits in vllm/b.py",
        "series": "the series changed since the rebase began",
    }
    assert words[what] in said()
    assert state(carried) == before
    assert "value = 2" in (carried.checkout / "vllm" / "b.py").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "vendor/rebase.toml is missing"),
        ("[promote]\n", "names no commands under [promote]"),
        ("[promote]\ncommands = []\n", "names no command, so nothing would be tested"),
        ("[promote]\ncommands = ['no-such-program-at-all']\n", "`no-such-program-at-all` of"),
        ("[promote]\ncommands = [1]\n", "names no commands under [promote]"),
        ("promote\n", "names no commands under [promote]"),
    ],
)
def test_settings_that_test_nothing_are_refused(
    carried: World, releases: Path, said: Said, text: str | None, words: str
) -> None:
    path = carried.root / "vendor" / "rebase.toml"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    before = state(carried)
    said()
    assert promote(carried, releases) == 1
    assert words in said()
    assert state(carried) == before


def test_release_without_its_wheel(carried: World, releases: Path, said: Said) -> None:
    (releases / NEW_WHEEL).unlink()
    assert promote(carried, releases) == 1
    assert "there is no vllm 1.3.0 with the tags cp38-abi3-manylinux_2_28_x86_64" in said()


@pytest.mark.parametrize(
    ("there", "want"),
    [(("1.2.9", "1.3.0", "1.4.0"), "1.3.0"), (("1.2.9", "1.4.0"), "1.2.9"), (("1.4.0",), "1.1.0")],
)
def test_cpu_wheel_is_the_exact_one_or_an_older_one(
    carried: World, releases: Path, there: tuple[str, ...], want: str
) -> None:
    for version in there:
        name = worlds.CPU_WHEEL.replace("1.1.0", version)
        shutil.copy(releases / worlds.CPU_WHEEL, releases / name)
    assert promote(carried, releases) == 0
    assert carried.project.pin.cpu_wheel.name == worlds.CPU_WHEEL.replace("1.1.0", want)


def test_index_gives_hashes_and_files(
    series: World, index: Index, upstream: Path, said: Said
) -> None:
    made = [upstream / "vllm-1.3.0.tar.gz", upstream / NEW_WHEEL, upstream / "vllm-1.9.0.tar.gz"]
    try:
        worlds.release(upstream, "1.3.0", {"vllm/b.py": "value = 3\n"})
        shutil.copy(made[0], made[2])
        index.yanked = (made[2].name,)
        commands(series, "true")
        assert series.run("rebase", "--upstream", "latest", "--promote") == 0
        assert series.project.pin.sdist.sha256 == worlds.sha256(made[0])
        assert series.project.pin.wheel.sha256 == worlds.sha256(made[1])
    finally:
        for path in made:
            path.unlink(missing_ok=True)
    assert "fetching vllm-1.3.0.tar.gz" in said()


def test_index_that_names_no_hash(series: World, index: Index, upstream: Path, said: Said) -> None:
    index.fault = "no hashes"
    path = upstream / "vllm-1.3.0.tar.gz"
    try:
        path.write_bytes(b"")
        assert series.run("rebase", "--upstream", "1.3.0") == 1
    finally:
        path.unlink()
    assert "the index names no sha256 of vllm-1.3.0.tar.gz" in said()


def test_killed_after_the_deciding_step(carried: World, releases: Path) -> None:
    """The pin is new and the rebase still there: the next promotion only tidies."""
    note = carried.root / "vendor" / "rebase" / "state.json"
    kept = note.read_bytes()
    assert promote(carried, releases) == 0
    note.write_bytes(kept)
    lock = (carried.root / "series.lock").read_bytes()
    assert carried.run("rebase", "--promote") == 0
    assert carried.run("rebase") == 2
    assert (carried.root / "series.lock").read_bytes() == lock
    assert carried.git("rev-parse", checkout.APPLIED) == carried.head()
