from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest
import world as worlds
from lineage import FIVE, OLD, THREE, a
from world import World

from tools import series as seriesfile
from tools import watchlist
from tools.project import Project

Said = Callable[[], str]
ROOT = Path(__file__).parents[2]
PULL = """\
[[pull]]
number = 7
title = "Do it too"
url = "https://example.org/pull/7"
state = "open"
seen = 2026-09-01
replaces = ["extra"]
breaks = ["core/change-five.patch"]
note = "By a ring."
signs = [{ path = "vllm/b.py", text = "value = 7" }]
"""


@pytest.fixture
def watched(series: World) -> World:
    listing(series, PULL)
    return series


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    return tmp_path / "releases"


def listing(world: World, text: str) -> None:
    (world.root / "vendor" / "watch.toml").write_text(text)


def look(world: World, folder: Path, *more: str) -> int:
    return world.run("watch", "--from", str(folder), *more)


def diff(world: World, path: str, new: str | None, name: str = "pr.diff") -> str:
    """Write a pull request's diff of one file; return the name of its own file."""
    old = worlds.SOURCES.get(path)
    before, after = ((text or "").splitlines(keepends=True) for text in (old, new))
    names = (f"a/{path}" if old else "/dev/null", f"b/{path}" if new else "/dev/null")
    kind = "" if old and new else "new file mode 100644\n" if new else "deleted file mode 100644\n"
    body = "".join(difflib.unified_diff(before, after, *names))
    file = world.root / name
    file.write_text(f"diff --git a/{path} b/{path}\n{kind}{body}")
    return str(file)


# ---- releases ------------------------------------------------------------------------------


def test_list_of_this_project_names_its_patches() -> None:
    project = Project(ROOT)
    names = seriesfile.load(project).names
    pulls = watchlist.load(project)
    assert {pull.number for pull in pulls} >= {48792, 49847, 49887, 56466}
    assert [watchlist.unknown(pull, names) for pull in pulls] == [[]] * len(pulls)
    assert all(pull.signs and (pull.replaces or pull.breaks) for pull in pulls)


def test_nothing_newer(watched: World, said: Said) -> None:
    said()
    assert look(watched, watched.upstream) == 0
    assert said().splitlines() == [
        "1.2.0 is pinned, and nothing newer is there",
        "#7 Do it too: open on 2026-09-01; would replace extra; would break core/change-five.patch",
        "  By a ring.",
    ]


def test_patch_that_looks_merged_is_a_finding(watched: World, releases: Path, said: Said) -> None:
    # Elsewhere in the file, and otherwise indented.
    worlds.release(releases, "1.3.0", {"vllm/a.py": a() + "if True:\n    line_3 = 33\n"})
    said()
    assert look(watched, releases) == 1
    lines = said().splitlines()
    assert lines[:3] == [
        f"{THREE}: looks merged in 1.3.0: all of its 1 lines are there",
        f"{FIVE}: needed: none of its 1 lines is in 1.3.0",
        f"{OLD}: needed: none of its 2 lines is in 1.3.0",
    ]
    assert f"watch: {THREE} looks merged in 1.3.0" in lines[-1]
    assert "try `make rebase UPSTREAM=1.3.0`" in lines[-1]


def test_part_of_a_patch_is_counted(watched: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {"vllm/new.py": "import vllm.a\n"})
    assert look(watched, releases) == 0
    assert f"{OLD}: needed: 1 of its 2 lines are in 1.3.0" in said()


def test_lines_that_the_pin_has_prove_nothing(empty: World, releases: Path, said: Said) -> None:
    listing(empty, "")
    empty.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 3\nline_4 = 4\n\n(\n)\n")
    empty.edit("tests/test_a.py", "pass", "assert 1")
    empty.commit("Repeat", "Topic: core")
    assert empty.run("refresh") == 0
    worlds.release(releases, "1.3.0", {"tests/test_a.py": "def test_a():\n    assert 1\n"})
    said()
    assert look(empty, releases) == 0
    assert said() == (
        "core/repeat.patch: cannot be told: it adds no line that the pinned release lacks\n"
    )


def test_sign_of_a_pull_request_is_a_finding(watched: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {"vllm/b.py": "value = 7\n"})
    assert look(watched, releases) == 1
    assert "watch: #7 (Do it too) seems to be in 1.3.0: look at it" in said()
    listing(watched, PULL.replace('"open"', '"merged"'))
    assert look(watched, releases) == 0
    signs = PULL[PULL.index("signs =") :]
    listing(watched, PULL.replace(signs, "signs = []\n"))  # without any, nothing is known
    assert look(watched, releases) == 0


def test_name_of_no_patch_is_a_finding(watched: World, said: Said) -> None:
    listing(watched, PULL.replace("change-five", "change-six"))
    assert look(watched, watched.upstream) == 1
    assert "#7 names core/change-six.patch, which is no patch and no topic" in said()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('state = "open"', 'state = "waits"', "state is one of open, merged, closed"),
        ("seen = 2026-09-01", 'seen = "soon"', "seen the date when it was"),
        ("number = 7\n", "", "pull ? lacks a field or has a wrong one ('number')"),
        ("note =", "notes =", "has a field 'notes' that nothing reads"),
        ("text =", "txet =", "lacks a field or has a wrong one"),
        ("[[pull]]", "[[pull]", "is not valid TOML"),
    ],
)
def test_malformed_list_is_a_sentence(
    watched: World, said: Said, old: str, new: str, words: str
) -> None:
    assert old in PULL
    listing(watched, PULL.replace(old, new))
    said()
    assert look(watched, watched.upstream) == 1
    message = said()
    assert words in message
    assert len(message.splitlines()) == 1


def test_what_watch_cannot_look_into(watched: World, tmp_path: Path, said: Said) -> None:
    assert look(watched, tmp_path / "none") == 2
    assert look(watched, watched.upstream, "--upstream", "main") == 2
    (watched.root / "vendor" / "watch.toml").unlink()
    said()
    assert look(watched, watched.upstream) == 1
    assert "vendor/watch.toml is missing" in said()


def test_watch_leaves_a_rebase_alone(watched: World, releases: Path) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_3="three\n")})
    assert watched.run("rebase", "--upstream", "1.3.0", "--from", str(releases)) == 3
    folder = watched.root / "vendor" / "rebase"
    before = {
        path: path.read_bytes() for path in [*folder.glob("*.*"), folder / "tree" / "vllm" / "a.py"]
    }
    assert len(before) == 4
    assert look(watched, releases) == 0
    assert {path: path.read_bytes() for path in before} == before


# ---- a diff --------------------------------------------------------------------------------


def test_hunks_that_collide_name_their_patches(watched: World, said: Said) -> None:
    text = a(line_5="five\n", line_20="twenty\n", line_35="35\n")
    said()
    assert watched.run("watch", "--diff", diff(watched, "vllm/a.py", text)) == 1
    assert said().splitlines() == [
        f"vllm/a.py, hunk 1 of 3, @@ -3,7 +3,7 @@: collides with {FIVE}; no conflict with {THREE}",
        f"vllm/a.py, hunk 2 of 3, @@ -18,7 +18,7 @@: no conflict with {THREE}, {FIVE}",
        f"vllm/a.py, hunk 3 of 3, @@ -33,7 +33,7 @@: no conflict with {THREE}, {FIVE}",
        f"watch: 3 hunks, 1 collide; 0 do not fit 1.2.0; patches to rework: {FIVE}",
    ]


def test_patches_that_stand_on_each_other_are_laid_in_turn(empty: World, said: Said) -> None:
    listing(empty, "")
    empty.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 3\nours = 1\n")
    empty.commit("Add", "Topic: core")
    empty.edit("vllm/a.py", "ours = 1\n", "ours = 2\n")
    empty.commit("Change")
    assert empty.run("refresh") == 0
    assert empty.run("watch", "--diff", diff(empty, "vllm/a.py", a(line_30="thirty\n"))) == 0
    assert "no conflict with core/add.patch, core/change.patch\n" in said()


def test_diff_that_does_what_a_patch_does(watched: World, said: Said) -> None:
    text = a(line_3="line_3 = 33\n")
    assert watched.run("watch", "--diff", diff(watched, "vllm/a.py", text)) == 1
    message = said()
    assert f"holds all of {THREE}; no conflict with {FIVE}" in message
    assert f"patches to rework: {THREE}" in message


def test_diff_that_holds_a_patch_of_several_files(watched: World, said: Said) -> None:
    """No piece of it does: the patch adds one file and deletes another."""
    new = (watched.checkout / "vllm" / "new.py").read_text()
    parts = [diff(watched, "vllm/old.py", None), diff(watched, "vllm/new.py", new, "more.diff")]
    parts.append(diff(watched, "vllm/b.py", "value = 2\n", "other.diff"))
    whole = watched.root / "whole.diff"
    whole.write_text("".join(Path(part).read_text() for part in parts))
    said()
    assert watched.run("watch", "--diff", str(whole)) == 1
    message = said()
    assert f"all of it together: holds all of {OLD}, which it makes needless\n" in message
    assert f"patches to rework: {OLD}\n" in message
    assert watched.run("watch", "--diff", parts[0]) == 0
    assert "together" not in said()


@pytest.mark.parametrize(
    ("path", "text", "code", "words"),
    [
        ("vllm/b.py", "value = 2\n", 0, "hunk 1 of 1, @@ -1 +1 @@: touches no patch"),
        ("vllm/new.py", "theirs\n", 1, f"vllm/new.py, the whole file: collides with {OLD}"),
        ("vllm/old.py", "gone = 1\n", 1, f"collides with {OLD}"),
        ("vllm/old.py", None, 0, f"the whole file: no conflict with {OLD}"),
        ("vllm/a.py", None, 1, f"collides with {THREE}, {FIVE}"),
        ("vllm/more.py", "more = 1\n", 0, "vllm/more.py, the whole file: touches no patch"),
    ],
)
def test_what_a_file_of_a_diff_does(
    watched: World, said: Said, path: str, text: str | None, code: int, words: str
) -> None:
    assert watched.run("watch", "--diff", diff(watched, path, text)) == code
    assert words in said()


def test_diff_for_another_base_is_said_to_be_one(watched: World, said: Said) -> None:
    file = Path(diff(watched, "vllm/a.py", a(line_5="five\n")))
    file.write_text(file.read_text().replace(" line_6 = 6\n", " six = 6\n"))
    assert watched.run("watch", "--diff", str(file)) == 0
    message = said()
    assert f"does not fit 1.2.0, in a file of {THREE}, {FIVE}" in message
    assert "1 do not fit 1.2.0; patches to rework: none" in message


def test_what_is_no_diff(watched: World, said: Said) -> None:
    file = watched.root / "pr.diff"
    assert watched.run("watch", "--diff", str(file)) == 2
    assert "cannot be read (No such file or directory)" in said()
    file.write_text("--- a/x\n+++ b/x\n")
    assert watched.run("watch", "--diff", str(file)) == 1
    assert "holds no 'diff --git' line" in said()


def test_dry_run_changes_nothing(watched: World) -> None:
    before, head = watched.snapshot(), watched.head()
    watched.run("watch", "--diff", diff(watched, "vllm/a.py", a(line_5="five\n")))
    assert watched.snapshot() == before
    assert watched.head() == head
    assert watched.run("rebase") == 2
    assert watched.debris() == []
