"""What the report of a conflict says: the place, who changed it, and what comes next."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import lineage
import pytest
import world as worlds
from lineage import FIVE, OLD, THREE, a, rebase, report, scene
from world import World

from tools import collisions
from tools.releases import is_version

Said = Callable[[], str]


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    return tmp_path / "releases"


def test_text_and_json_say_the_same(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": "# top\n" + a(line_5="line_5 = five\n")})
    assert rebase(series, releases, "1.3.0") == 3
    message = said()
    text = (series.root / "vendor" / "rebase" / "report.txt").read_text()
    assert text in message
    where = "vendor/rebase/tree"
    for words in (
        f"{FIVE} ([Core] Change five), patch 2 of 3, from 1.2.0 to 1.3.0: conflict\n",
        "\nvllm/a.py: changed by both\n",
        f"  before it: context only: {THREE}\n\nvllm/a.py: changed by both\n",
        f"  to be resolved: {where}/vllm/a.py, line 7\n",
        "    what the patch does there:\n       line_2 = 2\n       line_3 = 33\n",
        "      -line_5 = 5\n      +line_5 = 55\n",
        "  hunk 1 of 1: @@ -3,7 +3,7 @@",
        "    6: last in 1.2.0, changed by 1.3.0: line_5 = 5\n",
        "    0 of our 1 added lines stand in the file of 1.3.0 already\n",
        "      -line_5 = 5\n      +line_5 = five\n",
        f"  other patches on this file: {THREE} (before)\n",
        f"  1. git -C {where} add vllm/a.py (once edited; git rm for a file that is to go)\n",
        "\nIn a conflict HEAD is 1.3.0 with the patches before, the middle part the series on 1",
        f"  2. make rebase CONTINUE=1\n  3. make rebase CONTINUE=1 RETIRE={FIVE} (instead, to",
        "  4. make rebase ABORT=1 (to give the whole rebase up)\n",
    ):
        assert words in text
    facts = report(series)
    assert (facts["patch"], facts["kind"], facts["to"]) == (FIVE, "conflict", "1.3.0")
    (file,) = facts["files"]
    assert (file["path"], file["state"], file["marks"]) == ("vllm/a.py", "changed by both", [7])
    (hunk,) = file["hunks"]
    assert hunk["lines"] == [
        {
            "number": 6,
            "text": "line_5 = 5",
            "owner": "",
            "pristine": 6,
            "last_seen": "1.2.0",
            "changed_by": "1.3.0",
        }
    ]


def test_every_place_in_a_file_is_named_once(empty: World, releases: Path, said: Said) -> None:
    empty.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 33\n")
    empty.edit("vllm/a.py", "line_20 = 20\n", "line_20 = 2020\n")
    empty.commit("Change both", "Topic: core")
    assert empty.run("refresh") == 0
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_3="three\n", line_20="twenty\n")})
    assert rebase(empty, releases, "1.3.0") == 3
    assert "to be resolved: vendor/rebase/tree/vllm/a.py, lines 4, 27\n" in said()


def test_what_became_of_the_patches_before_is_told(
    series: World, releases: Path, said: Said
) -> None:
    changes: dict[str, str | None] = {
        "vllm/a.py": a(line_3="three\n", line_8="eight\n"), "vllm/new.py": "theirs = 1\n",
    }  # fmt: skip
    worlds.release(releases, "1.3.0", changes)
    assert rebase(series, releases, "1.3.0") == 3
    assert "before it" not in said()
    lineage.resolve(series, "vllm/a.py", a(line_3="line_3 = 333\n", line_8="eight\n"))
    assert series.run("rebase", "--continue") == 3
    want = f"  before it: content changed, resolved by hand: {THREE}; context only: {FIVE}\n"
    assert want in said()
    rows = [(row["name"], row["status"]) for row in report(series)["before"]]
    assert rows == [(THREE, "content changed"), (FIVE, "context only")]


def test_conflict_without_markers_says_how_to_get_them(
    series: World, releases: Path, said: Said
) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_5="five\n")})
    assert rebase(series, releases, "1.3.0") == 3
    assert "rerere" not in said()
    lineage.resolve(series, "vllm/a.py", a(line_3="line_3 = 33\n", line_5="5 and five\n"))
    assert series.run("rebase", "--continue") == 0
    assert series.run("rebase", "--abort") == 0
    assert rebase(series, releases, "1.3.0", "--no-reuse") == 3
    message = said()
    assert "to be resolved" not in message
    assert "resolved as it was before, so vendor/rebase/tree/vllm/a.py holds no marks" in message
    (command,) = [line for line in message.splitlines() if line.startswith("  git -C")]
    assert "<<<<<<<" not in lineage.in_scene(series, "vllm/a.py")
    subprocess.run(command, shell=True, cwd=series.root, check=True, capture_output=True)
    assert "<<<<<<< ours" in lineage.in_scene(series, "vllm/a.py")


def test_markers_show_the_base(series: World, releases: Path) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_5="line_5 = five\n")})
    assert rebase(series, releases, "1.3.0") == 3
    lines = lineage.in_scene(series, "vllm/a.py").splitlines()
    assert [line.partition(" ")[0] for line in lines[5:12]] == [
        "<<<<<<<", "line_5", "|||||||", "line_5", "=======", "line_5", ">>>>>>>",
    ]  # fmt: skip


def test_only_hunks_that_collide_are_shown(empty: World, releases: Path) -> None:
    empty.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 33\n")
    empty.edit("vllm/a.py", "line_20 = 20\n", "line_20 = 2020\n")
    empty.edit("vllm/a.py", "line_36 = 36\n", "line_36 = 3636\n")
    empty.commit("Change all", "Topic: core")
    assert empty.run("refresh") == 0
    changed = a(line_20="twenty\n", line_35="thirty-five\n")
    worlds.release(releases, "1.3.0", {"vllm/a.py": changed})
    assert rebase(empty, releases, "1.3.0") == 3
    (file,) = report(empty)["files"]
    assert [(hunk["number"], hunk["of"]) for hunk in file["hunks"]] == [(2, 3), (3, 3)]
    assert "twenty" in file["hunks"][0]["upstream"]
    assert "thirty-five" not in file["hunks"][0]["upstream"]
    # The line beside ours is upstream's change; ours is still as it was.
    last = {line["text"]: line["changed_by"] for line in file["hunks"][1]["lines"]}
    assert last["line_36 = 36"] == ""


def test_each_line_names_the_release_that_changed_it(series: World, releases: Path) -> None:
    """Through 1.3.0, which is at hand from a rebase before, to 1.4.0 in one stride."""
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_3="three\n")})
    both = "# top\n" + a(line_3="three\n", line_4="four\n", line_5="five\n")
    worlds.release(releases, "1.4.0", {"vllm/a.py": both})
    assert rebase(series, releases, "1.3.0") == 3
    assert series.run("rebase", "--abort") == 0
    assert rebase(series, releases, "1.4.0") == 3
    (hunk,) = report(series)["files"][0]["hunks"]
    assert [(line["text"], line["last_seen"], line["changed_by"]) for line in hunk["lines"]] == [
        ("line_3 = 3", "1.2.0", "1.3.0")
    ]
    assert series.run("rebase", "--continue", "--retire", THREE) == 3
    (hunk,) = report(series)["files"][0]["hunks"]
    assert [(line["text"], line["last_seen"], line["changed_by"]) for line in hunk["lines"]] == [
        ("line_5 = 5", "1.3.0", "1.4.0")
    ]


def test_lines_of_our_own_name_their_patch(empty: World, releases: Path) -> None:
    # So many that their numbers are past the end of the pristine file.
    ours = "".join(f"ours_{n} = {n}\n" for n in range(50))
    empty.edit("vllm/a.py", "line_38 = 38\n", f"line_38 = 38\n{ours}")
    empty.commit("Add", "Topic: core")
    empty.edit("vllm/a.py", "ours_49 = 49\nline_39 = 39\n", "ours_49 = 4949\nline_39 = 3939\n")
    empty.commit("Change")
    assert empty.run("refresh") == 0
    worlds.release(releases, "1.3.0", {"vllm/a.py": "# top\n" + a(line_39="last\n")})
    assert rebase(empty, releases, "1.3.0") == 3
    facts = report(empty)
    assert facts["patch"] == "core/add.patch"  # it stands right above the changed line
    (hunk,) = facts["files"][0]["hunks"]
    assert [line["text"] for line in hunk["lines"]] == ["line_38 = 38", "line_39 = 39"]
    merged = "# top\n" + a(line_38=f"line_38 = 38\n{ours}", line_39="last\n")
    lineage.resolve(empty, "vllm/a.py", merged)
    assert empty.run("rebase", "--continue") == 3
    facts = report(empty)
    assert facts["patch"] == "core/change.patch"
    lines = facts["files"][0]["hunks"][0]["lines"]
    assert [(line["text"], line["owner"], line["pristine"]) for line in lines] == [
        ("ours_49 = 49", "core/add.patch", 0),
        ("line_39 = 39", "", 40),  # its number in the pristine file, not in the patched one
    ]
    assert lines[1]["number"] == 90
    assert lines[1]["changed_by"] == "1.3.0"


def test_on_the_way_back_the_release_before_is_named(series: World, releases: Path) -> None:
    worlds.release(releases, "1.1.0", {})
    for version in ("1.0.0", "0.9.0"):
        worlds.release(releases, version, {"vllm/a.py": a(line_3="three\n")})
    assert rebase(series, releases, "1.1.0") == 0
    for version in ("1.0.0", "0.9.0"):
        assert series.run("rebase", "--abort") == 0
        assert rebase(series, releases, version) == 3
    (hunk,) = report(series)["files"][0]["hunks"]
    assert [(line["last_seen"], line["changed_by"]) for line in hunk["lines"]] == [
        ("1.1.0", "1.0.0")
    ]


def test_lines_that_upstream_has_already_are_counted(empty: World, releases: Path) -> None:
    empty.edit("vllm/a.py", "line_9 = 9\n", "nine = 9\n\nfor n in (\n    1,\n):\n    print(n)\n")
    empty.commit("Print", "Topic: core")
    assert empty.run("refresh") == 0
    upstream = a(line_9="\n# theirs\nnine = 9\n\nfor n in (\n    2,\n):\n    print(n)\n")
    worlds.release(releases, "1.3.0", {"vllm/a.py": upstream})
    assert rebase(empty, releases, "1.3.0") == 3
    (hunk,) = report(empty)["files"][0]["hunks"]
    assert hunk["ours"] == {"added": 4, "present": 3, "at": [12, 14, 17]}


def test_deleted_source_names_the_release_and_the_likely_place(
    series: World, releases: Path, said: Said
) -> None:
    half = "".join(f"line_{n} = {n}\n" for n in range(18)) + "other = 1\n" * 20
    worlds.release(releases, "1.3.0", {"vllm/b.py": "value = 3\n"})
    worlds.release(releases, "1.4.0", {"vllm/a.py": None, "vllm/moved.py": half})
    assert rebase(series, releases, "1.4.0", "--step") == 3
    message = said()
    assert "from 1.3.0 to 1.4.0: source deleted" in message
    assert "vllm/a.py: deleted; upstream has it no longer in 1.4.0" in message
    assert "it may now be vllm/moved.py (" in message
    (file,) = report(series)["files"]
    assert file["gone_in"] == "1.4.0"
    where = scene(series)
    lineage.resolve(series, "vllm/moved.py", half.replace("line_3 = 3\n", "line_3 = 33\n"))
    series.git("rm", "-q", "--cached", "vllm/a.py", folder=where)
    (where / "vllm" / "a.py").unlink()
    assert series.run("rebase", "--continue") == 3  # the next one on the file
    assert lineage.statuses(series)[THREE] == "source renamed"


def test_file_that_both_add(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {"vllm/new.py": "theirs = 1\n"})
    assert rebase(series, releases, "1.3.0") == 3
    assert "vllm/new.py: added by both" in said()
    assert report(series)["patch"] == OLD


def test_file_of_ours_that_upstream_changed(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {"vllm/old.py": "gone = 'no'\n"})
    assert rebase(series, releases, "1.3.0") == 3
    assert "vllm/old.py: deleted by the patch" in said()
    series.git("rm", "-q", "vllm/old.py", folder=scene(series))
    assert series.run("rebase", "--continue") == 0
    assert lineage.statuses(series)[OLD] == "content changed"


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        (range(3, 5), range(5, 6), True),  # touching lines: git calls that a conflict
        (range(3, 5), range(6, 7), False),
        (range(3, 5), range(4, 9), True),
        (range(6, 8), range(3, 5), False),
        (range(6, 6), range(6, 6), True),  # lines put in at one place by both
        (range(6, 6), range(5, 6), True),
        (range(6, 6), range(6, 7), True),
        (range(6, 6), range(7, 7), False),  # a line stands between
        (range(6, 6), range(4, 5), False),
        (range(6, 6), range(7, 8), False),
    ],
)
def test_spans_meet(one: range, other: range, want: bool) -> None:  # noqa: FBT001
    assert collisions.meet(one, other) is want
    assert collisions.meet(other, one) is want


def test_lines_put_in_have_no_length() -> None:
    diff = "@@ -5,0 +6,2 @@ x\n+a\n+b\n@@ -9 +12 @@\n-c\n+d\n@@ -12,2 +15,0 @@\n-e\n-f\n"
    assert collisions.touched(diff) == [range(6, 6), range(9, 10), range(12, 14)]


# ---- commits instead of releases -----------------------------------------------------------


def test_commit_of_upstreams_repository(series: World, tmp_path: Path, said: Said) -> None:
    git = {name: text for name, text in worlds.SOURCES.items() if name != "PKG-INFO"}
    first = {**git, "vllm/a.py": a(line_3="three\n")}
    second = {**first, "vllm/a.py": a(line_3="three\n", line_5="five\n"), "new.txt": "new\n"}
    ids = lineage.upstream_repository(tmp_path, [git, first, second])
    pin = series.root / "vendor" / "upstream.toml"
    text = pin.read_text().replace(f"file://{series.upstream}/", f"file://{tmp_path}/")
    pin.write_text(text)
    assert series.run("rebase", "--upstream", ids[2]) == 3
    message = said()
    assert f"from 1.2.0 to {ids[2][:10]}: conflict" in message
    assert f"4: last in 1.2.0, changed by {ids[1][:10]}: line_3 = 3" in message
    assert series.run("rebase", "--continue", "--retire", THREE) == 3
    assert f"last in {ids[1][:10]}, changed by {ids[2][:10]}: line_5 = 5" in said()
    assert series.run("rebase", "--continue", "--retire", FIVE) == 0
    assert series.run("rebase", "--promote") == 1
    assert "is no release: it has no sdist and no wheel to pin" in said()
    assert pin.read_text() == text


def test_unreachable_repository_is_a_sentence(series: World, said: Said) -> None:
    said()
    assert series.run("rebase", "--upstream", "main") == 1
    message = said()
    assert "main is no version, and it cannot be fetched from file://" in message
    assert "check the network" in message
    assert len(message.splitlines()) == 1
    assert series.run("rebase", "--upstream", "main", "--step") == 2
    assert "STEP=1 goes from release to release" in said()


def test_version_and_commit_are_told_apart() -> None:
    assert all(map(is_version, ("latest", "0.34.0", "1.0rc1", "0.33.0.post1")))
    assert not any(map(is_version, ("main", "1234567", "4ba787ec9", "feature/x.y")))
