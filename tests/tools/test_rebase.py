"""What becomes of each patch on another release, and how a rebase goes on and ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lineage
import pytest
import world as worlds
from lineage import FIVE, OLD, THREE, a, rebase, resolve, result, scene, statuses
from world import World

Said = Callable[[], str]
Files = dict[str, str | None]


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    return tmp_path / "releases"


def untouched(world: World) -> dict[str, bytes]:
    """Return all that a rebase must leave alone."""
    pin = world.root / "vendor" / "upstream.toml"
    return {**world.snapshot(), "pin": pin.read_bytes(), "head": world.head().encode()}


# ---- one status each -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"vllm/b.py": "value = 2\n"}, ["clean"] * 3, id="elsewhere"),
        pytest.param(
            {"vllm/a.py": "# one more\n" * 9 + a()}, ["clean"] * 3, id="moved within the file"
        ),
        pytest.param(
            {"vllm/a.py": a(line_8="eight = 8\n")}, ["clean", "context only", "clean"],
            id="a line of context",
        ),
        pytest.param(
            {"vllm/a.py": None, "vllm/c.py": a(line_30="x\n")},
            ["source renamed", "source renamed", "clean"], id="a renamed file",
        ),
    ],
)  # fmt: skip
def test_carried_without_a_stop(
    series: World, releases: Path, changes: Files, want: list[str]
) -> None:
    before = untouched(series)
    worlds.release(releases, "1.3.0", changes)
    assert rebase(series, releases, "1.3.0") == 0
    assert list(statuses(series).items()) == list(zip((THREE, FIVE, OLD), want, strict=True))
    assert untouched(series) == before
    text = (result(series) / "patches" / THREE).read_text()
    assert "-line_3 = 3\n+line_3 = 33\n" in text
    assert "Series-Patch" not in text
    assert (result(series) / "series").read_text() == (series.root / "series").read_text()
    assert series.debris() == []


def test_renamed_file_is_followed(series: World, releases: Path) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": None, "vllm/c.py": a()})
    assert rebase(series, releases, "1.3.0") == 0
    text = (result(series) / "patches" / FIVE).read_text()
    assert "+++ b/vllm/c.py" in text
    assert "vllm/a.py" not in text


def test_half_of_a_patch_upstream_is_content_changed(empty: World, releases: Path) -> None:
    empty.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 33\n")
    empty.edit("vllm/a.py", "line_30 = 30\n", "line_30 = 3030\n")
    empty.commit("Change both", "Topic: core")
    assert empty.run("refresh") == 0
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_3="line_3 = 33\n")})
    assert rebase(empty, releases, "1.3.0") == 0
    assert statuses(empty) == {"core/change-both.patch": "content changed"}
    text = (result(empty) / "patches" / "core" / "change-both.patch").read_text()
    assert "line_30 = 3030" in text
    assert "+line_3 = 33" not in text
    shown = (empty.root / "vendor" / "rebase" / "range-diff.txt").read_text()
    assert shown.startswith("core/change-both.patch: content changed\n")
    assert "    -+line_3 = 33" in shown


def test_corrupt_patch_stops_before_anything_is_made(
    series: World, releases: Path, said: Said
) -> None:
    worlds.release(releases, "1.3.0", {})
    data = series.patch(FIVE).read_bytes()
    series.patch(FIVE).write_bytes(data[: len(data) - 12])
    said()
    assert rebase(series, releases, "1.3.0") == 1
    message = said()
    assert message.startswith(f"rebase: corrupt: {FIVE} ")
    assert len(message.splitlines()) == 1
    assert series.run("rebase", "--continue") == 2


def test_damaged_patch_is_named_and_not_the_one_that_pays(
    series: World, releases: Path, said: Said
) -> None:
    worlds.release(releases, "1.3.0", {})
    text = series.patch(THREE).read_text()
    series.patch(THREE).write_text(text.replace("+++ b/vllm/a.py", "+++ bvllm/a.py"))
    said()
    assert rebase(series, releases, "1.3.0") == 1
    assert said().startswith(f"rebase: corrupt: {THREE} is not the file that series.lock names")


def test_work_that_is_not_in_patches_is_named(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {})
    series.edit("vllm/b.py", "1", "2")
    series.commit("Mine", "Topic: core")
    head = series.head()
    said()
    assert rebase(series, releases, "1.3.0") == 0
    message = said()
    assert "note: what is in patches/ is carried, and no more: vendor/vllm has 1 commit" in message
    assert list(statuses(series)) == [THREE, FIVE, OLD]
    assert series.head() == head


def test_series_that_is_not_the_locked_one_is_refused(
    series: World, releases: Path, said: Said
) -> None:
    worlds.release(releases, "1.3.0", {})
    text = (series.root / "series").read_text()
    (series.root / "series").write_text(text.replace(f"{OLD}\n", ""))
    assert rebase(series, releases, "1.3.0") == 1
    assert f"{OLD} is in series.lock but not in series" in said()


# ---- a patch that upstream has -------------------------------------------------------------


@pytest.fixture
def merged(series: World, releases: Path, said: Said) -> World:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_3="line_3 = 33\n")})
    assert rebase(series, releases, "1.3.0") == 3
    return series


def test_merged_patch_is_never_dropped_silently(merged: World, said: Said) -> None:
    message = said()
    assert f"{THREE} ([Core] Change three), patch 1 of 3, from 1.2.0 to 1.3.0: " in message
    assert "merged upstream" in message
    assert "1.3.0 holds all that it changes" in message
    assert f"1. make rebase CONTINUE=1 RETIRE={THREE}" in message
    assert merged.run("rebase", "--continue") == 3
    assert f"nothing of {THREE} is left" in said()


def test_retired_patch_leaves_a_line_in_series(merged: World) -> None:
    assert merged.run("rebase", "--continue", "--retire", FIVE) == 2
    assert merged.run("rebase", "--continue", "--retire", THREE) == 0
    assert statuses(merged) == {THREE: "merged upstream", FIVE: "clean", OLD: "clean"}
    text = (result(merged) / "series").read_text()
    assert f"# retired at 1.3.0, merged upstream: {THREE}\n" in text
    assert not (result(merged) / "patches" / THREE).exists()
    shown = (merged.root / "vendor" / "rebase" / "range-diff.txt").read_text()
    assert f"{THREE}: merged upstream (retired at 1.3.0)\n" in shown
    assert merged.patch(THREE).is_file()


def test_merged_patch_may_be_kept_for_what_is_left(merged: World) -> None:
    resolve(merged, "vllm/a.py", a(line_3="line_3 = 333\n"))
    assert merged.run("rebase", "--continue") == 0
    assert statuses(merged)[THREE] == "content changed"
    text = (result(merged) / "patches" / THREE).read_text()
    assert "-line_3 = 33\n+line_3 = 333\n" in text


def test_retire_needs_a_patch_that_waits(series: World, releases: Path) -> None:
    worlds.release(releases, "1.3.0", {})
    assert rebase(series, releases, "1.3.0") == 0
    assert series.run("rebase", "--continue", "--retire", THREE) == 2


# ---- options that do not fit ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--step",), "STEP=1 is for the beginning of a rebase"),
        (("--continue", "--no-reuse"), "REUSE=0 is for the beginning of a rebase"),
        (("--retire", FIVE), "RETIRE= answers a stop; give CONTINUE=1 with it."),
        (("--abort", "--promote"), "ABORT=1 drops what PROMOTE keeps"),
        (("--continue", "--from", "."), "FROM= is for UPSTREAM=version and PROMOTE"),
    ],
)
def test_option_without_effect_is_answered(
    conflict: World, said: Said, argv: tuple[str, ...], words: str
) -> None:
    before = (conflict.root / "vendor" / "rebase" / "state.json").read_bytes()
    said()
    assert conflict.run("rebase", *argv) == 2
    message = said()
    assert words in message
    assert len(message.splitlines()) == 1
    assert (conflict.root / "vendor" / "rebase" / "state.json").read_bytes() == before


def test_promoting_at_a_stop_is_answered(conflict: World, said: Said) -> None:
    said()
    assert conflict.run("rebase", "--promote") == 3
    assert f"the rebase to 1.3.0 is not finished ({FIVE} waits), so there is nothing to" in said()


def test_going_on_with_what_is_finished_is_answered(
    series: World, releases: Path, said: Said
) -> None:
    worlds.release(releases, "1.3.0", {})
    assert rebase(series, releases, "1.3.0") == 0
    said()
    assert series.run("rebase", "--continue") == 0
    assert "rebase: finished; clean says that the text merged" in said()


def test_giving_up_says_that_resolutions_stay(conflict: World, releases: Path, said: Said) -> None:
    assert conflict.run("rebase", "--abort") == 0
    assert "REUSE=0" not in said()
    assert rebase(conflict, releases, "1.3.0") == 3
    resolve(conflict, "vllm/a.py", RESOLVED)
    assert conflict.run("rebase", "--continue") == 0
    said()
    assert conflict.run("rebase", "--abort") == 0
    memory = "vendor/rebase/tree/.git/rr-cache"
    assert f"begin with REUSE=0 to stop at them, or delete {memory} to forget them all" in said()
    shutil.rmtree(conflict.root / memory)
    assert rebase(conflict, releases, "1.3.0") == 3


# ---- conflicts -----------------------------------------------------------------------------


@pytest.fixture
def conflict(series: World, releases: Path, said: Said) -> World:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_5="line_5 = five\n")})
    assert rebase(series, releases, "1.3.0") == 3
    return series


RESOLVED = a(line_3="line_3 = 33\n", line_5="line_5 = 'five' * 11\n")


def test_resolution_is_taken(conflict: World, said: Said) -> None:
    before = untouched(conflict)
    said()
    resolve(conflict, "vllm/a.py", RESOLVED)
    assert conflict.run("rebase", "--continue") == 0
    assert f"{FIVE}       content changed (resolved by hand)" in said()
    text = (result(conflict) / "patches" / FIVE).read_text()
    assert "-line_5 = five\n+line_5 = 'five' * 11\n" in text
    assert text.startswith(conflict.patch(FIVE).read_text().partition("\n---\n")[0])
    assert untouched(conflict) == before


def test_own_commit_is_taken_with_its_message(conflict: World) -> None:
    resolve(conflict, "vllm/a.py", RESOLVED)
    text = conflict.git("log", "-1", "--format=%B", "refs/rebase/start~1", folder=scene(conflict))
    changed = text.replace("Because the value", "Still, the value")
    assert changed != text
    conflict.git("commit", "-q", "-m", changed, folder=scene(conflict))
    assert conflict.run("rebase", "--continue") == 0
    text = (result(conflict) / "patches" / FIVE).read_text()
    assert "Still, the value" in text
    assert "From: A Dev <dev@example.org>" in text


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("nothing", ["vllm/a.py is still in conflict", "git -C vendor/rebase/tree add vllm/a.py"]),
        ("not added", ["vllm/b.py in vendor/rebase/tree has edits that were not added"]),
        ("untracked", ["note.txt in vendor/rebase/tree has edits that were not added"]),
        ("marker", ["vendor/rebase/tree/vllm/a.py:6 still holds a conflict marker"]),
        ("two commits", ["the patch is to be one commit", "reset --soft"]),
        ("emptied", [f"nothing of {FIVE} is left"]),
    ],
)
def test_what_is_missing_is_named(conflict: World, said: Said, what: str, words: list[str]) -> None:
    where = scene(conflict)
    if what == "marker":
        conflict.git("add", "vllm/a.py", folder=where)
    elif what == "emptied":
        conflict.git("checkout", "HEAD", "--", "vllm/a.py", folder=where)
    elif what != "nothing":
        resolve(conflict, "vllm/a.py", RESOLVED)
    if what == "not added":
        (where / "vllm" / "b.py").write_text("value = 3\n")
    elif what == "untracked":
        (where / "note.txt").write_text("mine\n")
    elif what == "two commits":
        conflict.git("commit", "-q", "-m", "one", folder=where)
        conflict.git("commit", "-q", "-m", "two", "--allow-empty", folder=where)
    files = {path: path.read_bytes() for path in where.glob("vllm/*.py")}
    said()
    assert conflict.run("rebase", "--continue") == 3
    message = said()
    for word in words:
        assert word in message
    assert len(message.splitlines()) == 1
    assert {path: path.read_bytes() for path in where.glob("vllm/*.py")} == files
    assert FIVE not in statuses(conflict)


def test_unresolved_patch_may_be_retired(conflict: World) -> None:
    assert conflict.run("rebase", "--continue", "--retire", FIVE) == 0
    assert statuses(conflict)[FIVE] == "retired"  # upstream has it not
    assert (result(conflict) / "series").read_text().endswith(f"# retired at 1.3.0: {FIVE}\n")


def test_where_it_stands_is_said_again(conflict: World, said: Said) -> None:
    first = said()
    assert conflict.run("rebase") == 3
    assert said() == first
    assert "<<<<<<<" in lineage.in_scene(conflict, "vllm/a.py")


def test_clean_spares_a_rebase_under_way(conflict: World, said: Said) -> None:
    resolve(conflict, "vllm/a.py", RESOLVED)
    assert conflict.run("clean") == 0
    assert conflict.run("clean", "--all") == 3
    assert "a rebase is under way in vendor/rebase, perhaps with resolutions of yours" in said()
    assert conflict.checkout.is_dir()
    assert lineage.in_scene(conflict, "vllm/a.py") == RESOLVED
    assert conflict.run("rebase", "--abort") == 0
    assert conflict.run("clean", "--all") == 0
    assert not (conflict.root / "vendor" / "rebase").exists()


@pytest.mark.parametrize(
    ("ready", "code", "words"),
    [
        ("true", 3, f"rebase     to 1.3.0: {FIVE} waits: `make rebase` says for what"),
        ("false", 3, "rebase     to 1.3.0: broken off: `make rebase CONTINUE=1`"),
    ],
)
def test_status_says_where_it_stands(
    conflict: World, said: Said, ready: str, code: int, words: str
) -> None:
    path = conflict.root / "vendor" / "rebase" / "state.json"
    path.write_text(path.read_text().replace('"ready": true', f'"ready": {ready}'))
    said()
    assert conflict.run("status") == 0
    assert words in said()
    assert conflict.run("rebase") == code


def test_state_that_cannot_be_read_is_a_sentence(conflict: World, said: Said) -> None:
    path = conflict.root / "vendor" / "rebase" / "state.json"
    for text in ("{", '{"schema": 0}', '{"schema": 1, "bases": []}'):
        path.write_text(text)
        said()
        assert conflict.run("rebase", "--continue") == 1
        message = said()
        assert "vendor/rebase/state.json cannot be read (" in message
        assert "give the rebase up with `make rebase ABORT=1`" in message
    assert conflict.run("rebase", "--abort") == 0


def test_second_rebase_is_refused(conflict: World, releases: Path, said: Said) -> None:
    assert rebase(conflict, releases, "1.3.0") == 3
    assert "a rebase to 1.3.0 is under way; go on with `make rebase CONTINUE=1`" in said()


def test_abort_leaves_nothing_and_remembers_resolutions(
    conflict: World, releases: Path, said: Said
) -> None:
    resolve(conflict, "vllm/a.py", RESOLVED)
    assert conflict.run("rebase", "--continue") == 0
    assert conflict.run("rebase", "--abort") == 0
    assert conflict.run("rebase") == 2
    assert not result(conflict).exists()
    said()
    assert rebase(conflict, releases, "1.3.0") == 0
    message = said()
    assert f"{FIVE}: resolved as it was before; look at the range-diff" in message
    assert "content changed (resolved as it was before)" in message
    assert "line_5 = 'five' * 11" in (result(conflict) / "patches" / FIVE).read_text()
    assert conflict.run("rebase", "--abort") == 0
    assert conflict.run("rebase", "--abort") == 0


def test_remembered_resolution_can_be_looked_at_and_forgotten(
    conflict: World, releases: Path
) -> None:
    resolve(conflict, "vllm/a.py", RESOLVED)
    assert conflict.run("rebase", "--continue") == 0
    assert conflict.run("rebase", "--abort") == 0
    assert rebase(conflict, releases, "1.3.0", "--no-reuse") == 3
    where = scene(conflict)
    assert lineage.in_scene(conflict, "vllm/a.py") == RESOLVED
    conflict.git("rerere", "forget", "vllm/a.py", folder=where)
    conflict.git("checkout", "--merge", "vllm/a.py", folder=where)
    assert "<<<<<<<" in lineage.in_scene(conflict, "vllm/a.py")
    other = RESOLVED.replace("11", "12")
    resolve(conflict, "vllm/a.py", other)
    assert conflict.run("rebase", "--continue") == 0
    assert conflict.run("rebase", "--abort") == 0
    assert rebase(conflict, releases, "1.3.0") == 0
    assert "line_5 = 'five' * 12" in (result(conflict) / "patches" / FIVE).read_text()


def test_edits_after_a_resolution_are_not_swept(series: World, releases: Path, said: Said) -> None:
    """Someone works on in the folder while the rebase was already taken further."""
    changes = {"vllm/a.py": a(line_3="three\n"), "vllm/old.py": "gone = False\n"}
    worlds.release(releases, "1.3.0", {**changes})
    assert rebase(series, releases, "1.3.0") == 3
    state = series.root / "vendor" / "rebase" / "state.json"
    resolve(series, "vllm/a.py", a(line_3="three * 11\n"))
    # As if killed right after the first patch was recorded.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tools.carry.walk", lambda *_: False)
        assert series.run("rebase", "--continue") == 3
    (scene(series) / "vllm" / "b.py").write_text("mine\n")
    saved = state.read_bytes()
    said()
    assert series.run("rebase", "--continue") == 3
    assert "has edits in vllm/b.py that belong to no patch in hand" in said()
    assert lineage.in_scene(series, "vllm/b.py") == "mine\n"
    assert b'"stop": null' in state.read_bytes()
    assert len(state.read_bytes()) > len(saved)  # what could be carried is


# ---- which release -------------------------------------------------------------------------


def test_latest_is_the_newest_final_one(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {})
    worlds.release(releases, "1.10.0", {})
    worlds.release(releases, "2.0.0rc1", {})
    assert rebase(series, releases, "latest") == 0
    assert "rebase: 1.10.0 reached" in said()


def test_unknown_release_is_a_sentence(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {})
    said()
    assert rebase(series, releases, "1.4.0") == 2
    assert said() == "rebase: there is no release 1.4.0 to be had; the newest are 1.3.0.\n"
    assert rebase(series, releases / "no", "1.4.0") == 2
    assert "is no folder" in said()


def test_without_an_index_files_at_hand_do(series: World, releases: Path, said: Said) -> None:
    said()
    assert series.run("rebase", "--upstream", "1.3.0") == 1
    message = said()
    assert "cannot be reached" in message
    assert "or use FROM=DIR with files at hand." in message
    assert len(message.splitlines()) == 1


def test_pinned_release_needs_no_rebase(series: World, said: Said) -> None:
    assert rebase(series, series.upstream, "1.2.0") == 0
    assert "the pin is 1.2.0 already" in said()


def test_nothing_under_way_is_a_sentence(series: World, said: Said) -> None:
    for argv in ((), ("--continue",), ("--promote",)):
        said()
        assert series.run("rebase", *argv) == 2
        assert "no rebase is under way; begin one with `make rebase UPSTREAM=" in said()


def test_step_goes_through_every_release(series: World, releases: Path, said: Said) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_8="eight\n")})
    worlds.release(releases, "1.4.0rc1", {"vllm/a.py": "unlike\n"})
    worlds.release(releases, "1.4.0", {"vllm/a.py": "# top\n" + a(line_8="eight\n")})
    worlds.release(releases, "1.5.0", {"vllm/a.py": "unlike\n"})
    assert rebase(series, releases, "1.4.0", "--step") == 0
    rows = [line for line in said().splitlines() if line.startswith("1.")]
    assert rows == [
        f"1.3.0  {THREE}      clean",
        f"1.3.0  {FIVE}       context only",
        f"1.3.0  {OLD}  clean",
        f"1.4.0  {THREE}      clean",
        f"1.4.0  {FIVE}       clean",
        f"1.4.0  {OLD}  clean",
        "1.3.0: 3 patches",  # on stderr
    ]
    shown = (series.root / "vendor" / "rebase" / "range-diff.txt").read_text()
    assert f"{FIVE}: context only\n" in shown  # from the first base to the last


def test_step_goes_back_as_well(series: World, releases: Path, said: Said) -> None:
    for version in ("1.0.0", "1.1.0"):
        worlds.release(releases, version, {"vllm/b.py": f"value = '{version}'\n"})
    assert rebase(series, releases, "1.0.0", "--step") == 0
    order = [line.partition(" ")[0] for line in said().splitlines() if THREE in line]
    assert order == ["1.1.0", "1.0.0"]


def test_retired_on_the_way_stays_retired(series: World, releases: Path) -> None:
    worlds.release(releases, "1.3.0", {"vllm/a.py": a(line_3="line_3 = 33\n")})
    worlds.release(releases, "1.4.0", {"vllm/a.py": a(line_3="line_3 = 33\n")})
    assert rebase(series, releases, "1.4.0", "--step") == 3
    assert series.run("rebase", "--continue", "--retire", THREE) == 0
    text = (result(series) / "series").read_text()
    assert f"# retired at 1.3.0, merged upstream: {THREE}\n" in text


def test_result_is_what_apply_and_verify_take(series: World, releases: Path) -> None:
    """The lock, the ids and the patches are those that the other tools make."""
    worlds.release(releases, "1.3.0", {"vllm/a.py": "# top\n" + a(line_8="eight\n")})
    assert rebase(series, releases, "1.3.0") == 0
    lock = (result(series) / "series.lock").read_text()
    fresh = World(series.root.parent / "fresh", releases)
    shutil.copytree(result(series), fresh.root)
    shutil.copytree(series.root / "ci", fresh.root / "ci")
    shutil.copytree(series.upstream, releases, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "VERSION", "1.3.0")
        patch.setattr(worlds, "SDIST", "vllm-1.3.0.tar.gz")
        patch.setattr(worlds, "WHEEL", worlds.WHEEL.replace("1.2.0", "1.3.0"))
        worlds.write_pin(fresh.root, releases)
    pin = fresh.root / "vendor" / "upstream.toml"
    # The pin's date is the sdist's newest file.
    pin.write_text(pin.read_text().replace("2026-09-21T14:13:20Z", "2026-09-22T14:13:20Z"))
    assert fresh.run("fetch", "--from", str(releases)) == 0
    assert fresh.run("apply") == 0
    assert fresh.run("verify", "--no-import") == 0
    assert f'commit = "{fresh.head()}"' in lock
