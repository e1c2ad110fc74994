"""Lines: the series on another release, beside the main one and sharing what is equal."""

from __future__ import annotations

import importlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import world as worlds
from lineage import FIVE, OLD, THREE, a, rebase
from test_kill import killed_at
from world import World

from tools import checkout, files, lines

Said = Callable[[], str]
CI = Path(__file__).resolve().parents[2] / "ci"


@pytest.fixture
def releases(tmp_path: Path, upstream: Path) -> Path:
    folder = tmp_path / "releases"
    shutil.copytree(upstream, folder)
    worlds.release(folder, "1.3.0", {"vllm/a.py": "# top\n" + a()})
    worlds.release(folder, "1.4.0", {"vllm/b.py": "value = 4\n"})
    worlds.release(folder, "1.5.0", {"vllm/a.py": a(line_3="line_3 = 33\n")})
    return folder


def keep(world: World, folder: Path, version: str) -> int:
    (world.root / "vendor" / "rebase.toml").write_text('[promote]\ncommands = ["true"]\n')
    return rebase(world, folder, version, "--promote", "line")


def on(world: World, version: str, *argv: str) -> int:
    return world.run("--line", version, *argv)


def held(world: World, version: str) -> list[str]:
    root = world.root / "lines" / version
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def inner(world: World, version: str) -> World:
    """The copy of a line, as a world of its own."""
    return World(world.root / "vendor" / "lines" / version, world.upstream)


def main_state(world: World) -> dict[str, bytes]:
    pin = world.root / "vendor" / "upstream.toml"
    return {**world.snapshot(), "pin": pin.read_bytes(), "head": world.head().encode()}


@pytest.fixture
def lined(series: World, releases: Path) -> World:
    """A line with two patches of its own and one that is shared; its files at hand."""
    assert keep(series, releases, "1.3.0") == 0
    assert on(series, "1.3.0", "fetch", "--from", str(releases), "--cpu") == 0
    assert on(series, "1.3.0", "apply") == 0
    return series


def test_only_what_differs_is_kept(series: World, releases: Path, said: Said) -> None:
    before = main_state(series)
    assert keep(series, releases, "1.3.0") == 0
    assert "lines/1.3.0 is the series on 1.3.0; commit it. The pin stays." in said()
    assert held(series, "1.3.0") == [
        f"patches/{FIVE}", f"patches/{THREE}", "series.lock", "upstream.toml",
    ]  # fmt: skip
    assert keep(series, releases, "1.4.0") == 0
    assert held(series, "1.4.0") == ["series.lock", "upstream.toml"]
    assert main_state(series) == before
    assert lines.names(series.project) == ["1.3.0", "1.4.0"]
    assert series.run("rebase") == 2


def test_line_is_applied_verified_and_built(lined: World, said: Said) -> None:
    before = main_state(lined)
    line = inner(lined, "1.3.0")
    text = (lined.root / "lines" / "1.3.0" / "series.lock").read_text()
    assert f'commit = "{line.head()}"' in text
    assert "# top" in (line.checkout / "vllm" / "a.py").read_text()
    assert on(lined, "1.3.0", "verify", "--no-import") == 0
    said()
    assert on(lined, "1.3.0", "build") == 0
    assert "dist/vllm-1.3.0+gdnwindow.1-" in said()
    assert [path.name for path in (lined.root / "dist").glob("*.whl")] == [
        "vllm-1.3.0+gdnwindow.1-cp38-abi3-manylinux_2_28_x86_64.whl"
    ]
    assert not (line.root / "vendor" / "cache").exists()
    assert main_state(lined) == before
    assert lined.run("status") == 0
    assert "lines      1.3.0\n" in said()
    assert on(lined, "1.3.0", "status") == 0
    assert "vendor/lines/1.3.0/vendor/vllm: holds the locked series" in said()


def test_refresh_gives_a_line_its_own_patch_and_takes_it_back(lined: World) -> None:
    before = main_state(lined)
    line = inner(lined, "1.3.0")
    first = line.head()
    line.edit("vllm/new.py", "import vllm.a\n", "import vllm.b\n")
    line.git("commit", "-qa", "--amend", "--no-edit")
    assert on(lined, "1.3.0", "refresh") == 0
    assert f"patches/{OLD}" in held(lined, "1.3.0")
    assert b"vllm.b" in (lined.root / "lines" / "1.3.0" / "patches" / OLD).read_bytes()
    assert main_state(lined) == before
    line.git("reset", "-q", "--hard", first)
    assert on(lined, "1.3.0", "refresh") == 0
    assert f"patches/{OLD}" not in held(lined, "1.3.0")
    assert f"patches/{THREE}" in held(lined, "1.3.0")


def test_change_of_a_shared_patch_reaches_the_line(lined: World, said: Said) -> None:
    lined.edit("vllm/new.py", "import vllm.a\n", "import vllm.b\n")
    lined.git("commit", "-qa", "--amend", "--no-edit")
    assert lined.run("refresh") == 0
    said()
    assert on(lined, "1.3.0", "apply") == 1  # the line's lock has not agreed yet
    assert f"apply (LINE=1.3.0): {OLD} (patch 3): its sha256 is" in said()
    assert on(lined, "1.3.0", "apply", "--relock") == 0
    line = inner(lined, "1.3.0")
    assert "import vllm.b" in (line.checkout / "vllm" / "new.py").read_text()
    assert f"patches/{OLD}" not in held(lined, "1.3.0")
    assert on(lined, "1.3.0", "verify", "--no-import") == 0


def test_patch_that_only_the_line_lacks(series: World, releases: Path) -> None:
    (series.root / "vendor" / "rebase.toml").write_text('[promote]\ncommands = ["true"]\n')
    assert rebase(series, releases, "1.5.0") == 3
    assert series.run("rebase", "--continue", "--retire", THREE) == 0
    assert series.run("rebase", "--promote", "line", "--from", str(releases)) == 0
    # Over upstream's own line_3 the second patch is to the byte what it is over ours.
    assert held(series, "1.5.0") == ["series", "series.lock", "upstream.toml"]
    assert on(series, "1.5.0", "fetch", "--from", str(releases)) == 0
    assert on(series, "1.5.0", "apply") == 0
    assert on(series, "1.5.0", "verify", "--no-import") == 0
    assert series.patch(THREE).is_file()


def test_line_has_rebases_of_its_own(lined: World, releases: Path, said: Said) -> None:
    argv = ("rebase", "--upstream", "1.4.0", "--from", str(releases), "--promote")
    before = main_state(lined)
    # Tested with the tools and tests of the project, which a line has not.
    (lined.root / "marker.txt").write_text("")
    (lined.root / "vendor" / "rebase.toml").write_text(
        "[promote]\ncommands = ['test -f marker.txt', 'grep -q 1.4.0 vendor/upstream.toml']\n"
    )
    assert on(lined, "1.3.0", *argv) == 0
    assert 'version = "1.4.0"' in (lined.root / "lines" / "1.3.0" / "upstream.toml").read_text()
    # On 1.4.0 the patches are those of 1.2.0 again, so the line keeps none.
    assert held(lined, "1.3.0") == ["series.lock", "upstream.toml"]
    assert main_state(lined) == before


def test_line_begins_another_one(lined: World, releases: Path, said: Said) -> None:
    """What was resolved and corrected for the one is not done again for the other."""
    line = inner(lined, "1.3.0")
    line.edit("vllm/b.py", "1", "2")
    line.commit("Come", "Topic: fresh")
    assert on(lined, "1.3.0", "refresh") == 0
    before = main_state(lined), held(lined, "1.3.0")
    said()
    argv = ("rebase", "--upstream", "1.5.0", "--from", str(releases), "--promote", "line")
    assert on(lined, "1.3.0", *argv) == 3
    assert "make rebase CONTINUE=1 LINE=1.3.0 RETIRE=" in said()
    go_on = ("rebase", "--continue", "--retire", THREE, "--promote", "line")
    assert on(lined, "1.3.0", *go_on, "--from", str(releases)) == 0
    assert lines.names(lined.project) == ["1.3.0", "1.5.0"]
    assert held(lined, "1.5.0") == [
        "patches/fresh/come.patch", "series", "series.lock", "upstream.toml",
    ]  # fmt: skip
    assert (main_state(lined), held(lined, "1.3.0")) == before
    assert on(lined, "1.5.0", "fetch", "--from", str(releases)) == 0
    assert on(lined, "1.5.0", "apply") == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--line", "9.9", "apply"), "there is no line 9.9; there are: 1.3.0."),
        (("--line", "../vendor", "apply"), "there is no line ../vendor"),
        (("--line", "1.3.0", "clean"), "clean works on the whole project; leave LINE out."),
        (("--line", "1.3.0", "lint"), "lint works on the whole project"),
    ],
)
def test_what_is_no_line(lined: World, said: Said, argv: tuple[str, ...], words: str) -> None:
    before = sorted((lined.root / "vendor").iterdir())
    said()
    assert lined.run(*argv) == 2
    assert words in said()
    assert sorted((lined.root / "vendor").iterdir()) == before


def test_rebase_to_a_release_that_has_a_line_names_it(
    lined: World, releases: Path, said: Said
) -> None:
    said()
    assert rebase(lined, releases, "1.3.0") == 0
    assert "lines/1.3.0 holds the series on it already" in said()
    assert lined.run("rebase", "--abort") == 0
    assert rebase(lined, releases, "1.4.0") == 0
    assert "already" not in said()


def test_tests_run_on_the_build_of_a_line(lined: World, capfd: pytest.CaptureFixture[str]) -> None:
    def build(*argv: str) -> str:
        capfd.readouterr()
        assert lined.run(*argv, "env", "--print") == 0
        return capfd.readouterr().out.splitlines()[1]

    text = (lined.root / "lines" / "1.3.0" / "series.lock").read_text()
    tree = re.findall(r'^tree = "(.{12})', text, re.MULTILINE)[0]
    assert f"cpu-{tree}" in build("--line", "1.3.0")
    assert f"cpu-{tree}" not in build()


@pytest.mark.parametrize(
    ("settings", "home", "option"),
    [((), ".", ""), (("LINE=9.9",), "vendor/lines/9.9", ' --line "9.9"')],
)
def test_make_tests_the_patches_of_a_line(
    settings: tuple[str, ...], home: str, option: str
) -> None:
    done = subprocess.run(
        ["make", "-n", "-o", "env", "-o", ".venv/.stamp-dev", "test-series", *settings],
        cwd=CI.parent, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert f'ci/series_tests.py "{home}" $(' in done
    assert f"-m tools{option} env --print" in done


def test_tests_are_those_that_the_patches_of_a_line_name(
    lined: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(CI))
    series_tests = importlib.import_module("series_tests")
    home = inner(lined, "1.3.0").root
    patch = home / "patches" / OLD
    patch.write_text(patch.read_text().replace("tests/test_a.py", "tests/test_b.py"))
    assert series_tests.tests(lined.root) == ["tests/test_a.py"]
    assert series_tests.tests(home) == ["tests/test_a.py", "tests/test_b.py"]


def test_one_command_on_a_line_at_a_time(lined: World, said: Said) -> None:
    with files.only_one(lined.root / "vendor" / ".line-1.3.0.lock") as alone:
        assert alone
        assert on(lined, "1.3.0", "status") == 3
        assert "another command works on line 1.3.0" in said()
        assert lined.run("apply") == 0


def test_damaged_line_is_a_sentence(lined: World, said: Said) -> None:
    (lined.root / "lines" / "1.3.0" / "upstream.toml").unlink()
    assert on(lined, "1.3.0", "apply") == 1
    assert "lines/1.3.0/upstream.toml is missing; restore it with git checkout." in said()


def test_copy_that_changed_as_well_is_not_overwritten(lined: World, said: Said) -> None:
    mine = inner(lined, "1.3.0").patch(THREE)
    mine.write_bytes(mine.read_bytes() + b"\n")
    theirs = lined.root / "lines" / "1.3.0" / "patches" / FIVE
    theirs.unlink()  # as a pull may do: main's is taken
    before = mine.read_bytes()
    assert on(lined, "1.3.0", "apply") == 3
    assert "lines/1.3.0 and its copy in vendor/lines/1.3.0 both changed" in said()
    assert mine.read_bytes() == before


@pytest.mark.parametrize("verb", [("clean", "--all"), None])
def test_unsaved_work_on_a_line_is_kept(
    lined: World, releases: Path, said: Said, verb: tuple[str, ...] | None
) -> None:
    line = inner(lined, "1.3.0")
    line.edit("vllm/b.py", "1", "2")
    line.commit("Mine")
    head = line.head()
    said()
    assert (lined.run(*verb) if verb else keep(lined, releases, "1.3.0")) == 3
    assert "vendor/lines/1.3.0/vendor/vllm has 1 commit(s) that are not in patches/" in said()
    assert line.head() == head
    line.git("reset", "-q", "--hard", checkout.APPLIED)
    if verb:
        assert lined.run(*verb) == 0
        assert not (lined.root / "vendor" / "lines").exists()
        assert (lined.root / "lines" / "1.3.0" / "series.lock").is_file()


def test_killed_refresh_of_a_line(lined: World, tmp_path: Path) -> None:
    line = inner(lined, "1.3.0")
    line.edit("vllm/b.py", "1", "2")
    line.commit("Come", "Topic: fresh")
    reference = worlds.copy(lined, tmp_path / "reference")
    assert on(reference, "1.3.0", "refresh") == 0
    want = {name: (reference.root / "lines/1.3.0" / name).read_bytes()
            for name in held(reference, "1.3.0")}  # fmt: skip
    assert "patches/fresh/come.patch" in want
    old = main_state(lined)
    for step in itertools.count(0, 5):
        made = worlds.copy(lined, tmp_path / f"w{step}")
        if not killed_at(step, lambda made=made: on(made, "1.3.0", "refresh")):  # type: ignore[misc]
            break
        assert inner(made, "1.3.0").tree() == line.tree()  # the work is never lost
        assert on(made, "1.3.0", "refresh") == 0
        found = {name: (made.root / "lines/1.3.0" / name).read_bytes()
                 for name in held(made, "1.3.0")}  # fmt: skip
        assert found == want
        assert main_state(made) == old
        shutil.rmtree(made.root)
    assert step > 20
