from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from world import GOOD, World

Said = Callable[[], str]
THREE, FIVE, OLD = (
    "core/change-three.patch",
    "core/change-five.patch",
    "extra/replace-the-old.patch",
)


def names(world: World) -> list[str]:
    lines = (world.root / "series").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_files_are_named_after_topic_and_subject(series: World) -> None:
    assert names(series) == [THREE, FIVE, OLD]
    text = series.patch(THREE).read_text()
    assert text.startswith(
        "From: A Dev <dev@example.org>\n"
        "Date: Thu, 01 Oct 2026 12:00:00 +0200\n"
        "Subject: [Core] Change three\n\nBecause"
    )
    assert "Topic:" not in text
    assert "Series-Patch" not in text


def test_blob_ids_stand_in_full(series: World) -> None:
    """Short ones grow with the repository, and then every patch changes."""
    text = series.patch(THREE).read_text()
    ids = re.findall(r"^index ([0-9a-f]+)\.\.([0-9a-f]+)", text, re.MULTILINE)
    assert ids
    assert {len(blob) for pair in ids for blob in pair} == {40}


def test_second_refresh_changes_nothing(series: World, said: Said) -> None:
    before, head = series.snapshot(), series.head()
    stamps = {name: series.patch(name).stat().st_mtime_ns for name in names(series)}
    assert series.run("refresh") == 0
    assert series.snapshot() == before
    assert series.head() == head
    assert stamps == {name: series.patch(name).stat().st_mtime_ns for name in names(series)}
    assert "changed" not in said()


def test_apply_after_refresh_has_nothing_to_do(series: World, said: Said) -> None:
    assert series.run("apply") == 0
    assert "already applied, 3 patches" in said()


def test_import_and_export_are_inverse(series: World) -> None:
    before = series.snapshot()
    series.git("reset", "-q", "--hard", "series-base")
    assert series.run("apply") == 0
    # New commit ids, so that refresh really exports.
    series.git("rebase", "-q", "--force-rebase", "series-base")
    assert series.run("refresh") == 0
    assert series.snapshot() == before


def test_reworded_commit_keeps_its_file(series: World, said: Said) -> None:
    text = series.git("log", "-1", "--format=%B").replace("Replace the old", "Retire the old")
    series.git("commit", "-q", "--amend", "-m", text)
    assert series.run("refresh") == 0
    assert names(series) == [THREE, FIVE, OLD]
    assert "Retire the old" in series.patch(OLD).read_text()
    assert f"changed: patches/{OLD}" in said()


def test_fixup_is_folded_into_its_patch(series: World) -> None:
    subject = "[Core] Change three"
    series.edit("vllm/a.py", "line_3 = 33\n", "line_3 = 333\n")
    series.git("commit", "-qa", "-m", f"fixup! {subject}")
    assert series.run("refresh") == 0
    assert names(series) == [THREE, FIVE, OLD]
    assert "+line_3 = 333" in series.patch(THREE).read_text()
    assert series.git("rev-list", "--count", "series-base..") == "3"


def test_fixup_that_conflicts_is_undone(series: World, said: Said) -> None:
    series.edit("vllm/a.py", "line_5 = 55\n", "line_5 = 555\n")
    series.edit("vllm/a.py", "line_3 = 33\n", "line_3 = 333\n")
    series.git("commit", "-qa", "-m", "fixup! [Core] Change three")
    before, head = series.snapshot(), series.head()
    assert series.run("refresh") == 3
    assert "do not fold cleanly" in said()
    assert series.head() == head
    assert not (series.checkout / ".git" / "rebase-merge").exists()
    assert series.snapshot() == before


def test_fixup_waits_for_uncommitted_edits(series: World, said: Said) -> None:
    series.edit("vllm/b.py", "1", "2")
    series.git("commit", "-qa", "-m", "fixup! [Core] Change three")
    series.edit("vllm/b.py", "2", "3")
    assert series.run("refresh") == 3
    assert "commit or stash the edits" in said()


def test_dropped_commit_removes_its_file(series: World, said: Said) -> None:
    series.git("reset", "-q", "--hard", "HEAD~1")
    assert series.run("refresh") == 0
    assert names(series) == [THREE, FIVE]
    assert not series.patch(OLD).parent.exists()
    assert f"dropped: patches/{OLD}" in said()


def test_order_follows_the_commits(series: World) -> None:
    third = series.head()
    series.git("reset", "-q", "--hard", "series-base")
    series.git("cherry-pick", third, f"{third}~2", f"{third}~1")
    assert series.run("refresh") == 0
    assert names(series) == [OLD, THREE, FIVE]


def test_comments_stay_with_their_patches(series: World) -> None:
    file = series.root / "series"
    file.write_text(
        f"# The series.\n# Two lines.\n\n# core: numbers\n{THREE}  # first\n\n{FIVE}\n"
        f"\n# extra: files\n{OLD}\n# the end\n"
    )
    third = series.head()
    series.git("reset", "-q", "--hard", "series-base")
    series.git("cherry-pick", third, f"{third}~1")  # drops the first, reverses the rest
    assert series.run("refresh") == 0
    assert file.read_text() == (
        f"# The series.\n# Two lines.\n\n\n# extra: files\n{OLD}\n# core: numbers\n\n{FIVE}\n"
        f"# the end\n"
    )


def test_topic_for_new_commits(empty: World, said: Said) -> None:
    empty.edit("vllm/b.py", "1", "2")
    empty.commit("Change the value")
    assert empty.run("refresh") == 2
    assert "needs a topic: run `make refresh TOPIC=name`" in said()
    assert empty.run("refresh", "--topic", "No Topic") == 2
    assert empty.run("refresh", "--topic", "values") == 0
    assert names(empty) == ["values/change-the-value.patch"]
    empty.edit("vllm/b.py", "2", "3")
    empty.commit("Change the value")
    assert empty.run("refresh") == 0  # the topic of the patch before it
    assert names(empty)[1] == "values/change-the-value-2.patch"


def test_name_in_a_trailer_wins(empty: World) -> None:
    empty.edit("vllm/b.py", "1", "2")
    empty.commit("Change the value", "Series-Patch: other/short.patch")
    assert empty.run("refresh") == 0
    assert names(empty) == ["other/short.patch"]
    text = empty.git("log", "-1", "--format=%B").replace("other/short", "moved/there")
    empty.git("commit", "-q", "--amend", "-m", text)
    assert empty.run("refresh") == 0
    assert names(empty) == ["moved/there.patch"]
    assert not empty.patch("other/short.patch").exists()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (GOOD.format(subject="x") + "Topic: A b\n", "is no topic"),
        (GOOD.format(subject="x") + "Series-Patch: ../x.patch\n", "not of the form"),
        (GOOD.format(subject="x") + f"Series-Patch: {THREE}\n", "two commits are named"),
        (
            GOOD.format(subject="x") + "Series-Patch: a/a.patch\nSeries-Patch: a/b.patch\n",
            "names several patches (a/a.patch, a/b.patch)",
        ),
        ("subject\nmore\n\nbody\n", "one line with a blank line below"),
        ("subject\n\nbody\n---\nmore\n", "holds a line '---'"),
        ("subject\n\ndiff --git a b\n", "holds a line '---' or 'diff --git'"),
    ],
)
def test_messages_that_cannot_be_exported(
    series: World, said: Said, message: str, words: str
) -> None:
    series.edit("vllm/b.py", "1", "2")
    series.commit("", message=message)
    before, head = series.snapshot(), series.head()
    assert series.run("refresh") in (1, 2)
    assert words in said()
    assert series.snapshot() == before
    assert series.head() == head


def test_empty_and_merge_commits_are_refused(series: World, said: Said) -> None:
    head = series.head()
    series.git("commit", "-q", "--allow-empty", "-m", "nothing")
    assert series.run("refresh") == 1
    assert "(nothing) changes nothing; drop it" in said()
    series.git("reset", "-q", "--hard", head)
    series.git("checkout", "-q", "-b", "side", "HEAD~1")
    series.edit("vllm/b.py", "1", "2")
    series.commit("Side")
    series.git("checkout", "-q", "series")
    series.git("merge", "-q", "side", "-m", "Merge")
    assert series.run("refresh") == 1
    assert "is a merge" in said()


def test_head_must_stand_on_the_base(series: World, said: Said) -> None:
    series.git("checkout", "-q", "--orphan", "else")
    series.git("commit", "-q", "-m", "root")
    assert series.run("refresh") == 1
    assert "does not stand on the pristine commit" in said()


def test_uncommitted_edits_stay_and_are_named(series: World, said: Said) -> None:
    series.edit("vllm/b.py", "1", "2")
    (series.checkout / "new.txt").write_text("x\n")
    before = series.snapshot()
    assert series.run("refresh") == 0
    message = said()
    assert "not committed, hence not exported: vendor/vllm/vllm/b.py" in message
    assert "not committed, hence not exported: vendor/vllm/new.txt" in message
    assert series.snapshot() == before
    assert (series.checkout / "vllm" / "b.py").read_text() == "value = 2\n"


def test_edited_patch_file_is_not_overwritten(series: World, said: Said) -> None:
    path = series.patch(THREE)
    text = path.read_text().replace("Because", "Since")
    path.write_text(text)
    series.edit("vllm/b.py", "1", "2")
    series.commit("Mine")
    assert series.run("refresh") == 3
    assert f"patches/{THREE} changed since vendor/vllm was made" in said()
    assert path.read_text() == text


def test_unfinished_rebase_waits(series: World, said: Said) -> None:
    (series.checkout / ".git" / "rebase-merge").mkdir()
    assert series.run("refresh") == 3
    assert "a rebase is unfinished" in said()


def test_without_a_checkout(bare: World, said: Said) -> None:
    assert bare.run("refresh") == 1
    assert "run `make apply`" in said()


@pytest.mark.parametrize("where", ["global", "local"])
def test_user_settings_do_not_reach_the_export(
    series: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    settings = {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "1",
        "diff.interHunkContext": "9",
        "diff.algorithm": "histogram",
        "diff.renames": "copies",
        "diff.suppressBlankEmpty": "true",
        "diff.indentHeuristic": "false",
        "diff.external": "false",
        "diff.orderFile": "order",
        "color.ui": "always",
        "core.abbrev": "7",
        "core.quotePath": "true",
        "core.autocrlf": "true",
        "core.attributesFile": str(tmp_path / "attributes"),
        "format.numbered": "true",
        "format.signOff": "true",
        "format.noprefix": "true",
        "apply.whitespace": "fix",
        "apply.ignoreWhitespace": "change",
        "commit.gpgSign": "true",
        "user.signingKey": "none",
        "i18n.commitEncoding": "latin1",
    }
    (tmp_path / "attributes").write_text("*.py diff=python -text\n")
    config = tmp_path / "gitconfig"
    for key, value in settings.items():
        file = ["--file", str(config)] if where == "global" else ["--local"]
        series.git("config", *file, key, value)
    if where == "global":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".gitconfig").write_text(config.read_text())
    before = series.snapshot()
    # Ids that are not canonical, so that refresh exports anew.
    head = series.head()
    tree, parents = series.tree(), [f"{head}~3"]
    for number in (2, 1, 0):
        commit = f"{head}~{number}" if number else head
        tree = series.tree(commit)
        message = series.git("log", "-1", "--format=%B", commit)
        made = series.git(
            "-c", "i18n.commitEncoding=UTF-8", "-c", "commit.gpgSign=false",
            "commit-tree", tree, "-p", parents[-1], "-m", message,
        )  # fmt: skip
        parents.append(made)
    series.git("update-ref", "HEAD", parents[-1])
    for path in (series.root / "patches").rglob("*.patch"):
        path.unlink()
    (series.checkout / ".git" / "series-applied.json").write_text("{}")
    assert series.run("refresh") == 0
    assert series.snapshot() == before


def test_attributes_that_hide_a_change_are_found(series: World, said: Said) -> None:
    info = series.checkout / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("*.py -diff\n")
    series.edit("vllm/b.py", "1", "2")
    series.commit("Mine")
    before = series.snapshot()
    code = series.run("refresh")
    # Either the attribute has no effect, or refresh says so: never a broken patch.
    if code:
        assert series.snapshot() == before
    else:
        assert series.run("verify", "--no-import") == 1
        assert "binary change" in said()


def test_names_in_utf8_survive(empty: World) -> None:
    empty.edit("vllm/b.py", "1", "2")
    empty.git("add", "-A")
    message = GOOD.format(subject="Größe ändern") + "Topic: text\n"
    empty.git("commit", "-q", "-m", message, "--author", "Jörg Müller <jm@example.org>")
    assert empty.run("refresh") == 0
    text = empty.patch("text/gr-e-ndern.patch").read_text()
    assert "From: Jörg Müller <jm@example.org>\n" in text
    assert "Subject: [Core] Größe ändern\n" in text
    before = empty.snapshot()
    empty.git("reset", "-q", "--hard", "series-base")
    assert empty.run("apply") == 0
    assert empty.run("refresh") == 0
    assert empty.snapshot() == before
