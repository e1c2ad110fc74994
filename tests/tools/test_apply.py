from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import world as worlds
from world import World

from tools import upstream
from tools.errors import ToolError

Said = Callable[[], str]
NAMES = ["core/change-three.patch", "core/change-five.patch", "extra/replace-the-old.patch"]


def test_empty_series_gives_the_pristine_tree(empty: World, said: Said) -> None:
    assert empty.git("rev-list", "--count", "HEAD") == "1"
    assert empty.tree() == empty.project.pin.base_tree
    assert (empty.checkout / "vllm" / "_version.py").is_file()  # hidden by .gitignore
    assert empty.run("apply") == 0
    assert "already applied, 0 patches" in said()


def test_one_commit_per_patch_with_the_ids_of_the_lock(series: World) -> None:
    before = series.head()
    shutil.rmtree(series.checkout)
    assert series.run("apply") == 0
    assert series.head() == before
    assert f'commit = "{before}"' in (series.root / "series.lock").read_text()
    log = series.git("log", "--reverse", "--format=%an|%cn|%s", "series-base..")
    assert log.splitlines() == [
        "A Dev|Patch series|[Core] Change three",
        "A Dev|Patch series|[Core] Change five",
        "A Dev|Patch series|[Core] Replace the old",
    ]
    assert series.git("status", "--porcelain") == ""
    assert series.debris() == []


def test_ids_do_not_depend_on_user_settings(series: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = series.head()
    shutil.rmtree(series.checkout)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Intruder")
        monkeypatch.setenv(f"GIT_{name}_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    assert series.run("apply") == 0
    assert series.head() == before


def test_says_why_it_acts(series: World, said: Said) -> None:
    series.git("reset", "-q", "--hard", "series-base")
    assert series.run("apply") == 0
    assert "was pristine; now 3 patches" in said()
    assert series.run("apply") == 0
    assert "already applied, 3 patches" in said()


def test_follows_a_change_of_the_series(series: World) -> None:
    full = series.head()
    text = (series.root / "series").read_text()
    (series.root / "series").write_text(text.replace("extra/replace-the-old.patch\n", ""))
    assert series.run("apply", "--relock") == 0
    assert series.git("rev-parse", f"{full}~1") == series.head()
    assert (series.checkout / "vllm" / "old.py").is_file()
    (series.root / "series").write_text(text)
    assert series.run("apply", "--relock") == 0
    assert series.head() == full
    assert not (series.checkout / "vllm" / "old.py").exists()


@pytest.mark.parametrize(
    ("break_it", "code", "words"),
    [
        ("edit", 3, ["edits in vllm/b.py", "commit -a", "make refresh"]),
        ("untracked", 3, ["untracked files (notes.txt)", "make refresh", "stash -u"]),
        ("commit", 3, ["1 commit(s) that are not in patches/", "Mine", "make refresh"]),
        ("branch", 3, ["1 commit(s) that are not in patches/", "Mine"]),
        ("rebase", 3, ["a rebase is unfinished", "rebase --abort"]),
    ],
)
def test_unsaved_work_stops_a_move(
    series: World, said: Said, break_it: str, code: int, words: list[str]
) -> None:
    series.git("reset", "-q", "--hard", "HEAD~1")
    series.git("update-ref", "refs/series/applied", "HEAD")
    if break_it == "edit":
        series.edit("vllm/b.py", "1", "2")
    elif break_it == "untracked":
        (series.checkout / "notes.txt").write_text("mine\n")
    elif break_it in ("commit", "branch"):
        series.edit("vllm/b.py", "1", "2")
        series.commit("Mine")
        if break_it == "branch":
            series.git("checkout", "-q", "--detach", "HEAD~1")
    else:
        (series.checkout / ".git" / "rebase-merge").mkdir()
    head = series.head()
    status = series.git("status", "--porcelain")
    assert series.run("apply") == code
    message = said()
    for word in words:
        assert word in message
    assert series.head() == head
    assert series.git("status", "--porcelain") == status


def test_never_writes_over_an_ignored_file(series: World, said: Said) -> None:
    series.git("reset", "-q", "--hard", "series-base")
    (series.checkout / ".git" / "info").mkdir(exist_ok=True)
    (series.checkout / ".git" / "info" / "exclude").write_text("new.py\n")
    (series.checkout / "vllm" / "new.py").write_text("mine\n")
    assert series.run("apply") == 3
    assert "vllm/new.py" in said()
    assert (series.checkout / "vllm" / "new.py").read_text() == "mine\n"


def test_edits_do_not_matter_when_there_is_nothing_to_do(series: World, said: Said) -> None:
    series.edit("vllm/b.py", "1", "2")
    assert series.run("apply") == 0
    assert "1 file(s) with local edits" in said()


def test_same_patches_under_other_commit_ids_are_adopted(series: World) -> None:
    want = series.head()
    series.git("rebase", "-q", "--force-rebase", "series-base")
    assert series.head() != want
    assert series.run("apply") == 0
    assert series.head() == want


def test_lock_mismatch_names_the_patch(series: World, said: Said) -> None:
    path = series.patch(NAMES[1])
    path.write_text(path.read_text().replace("Because", "Since"))
    head = series.head()
    assert series.run("apply") == 1
    message = said()
    assert f"{NAMES[1]} (patch 2): its sha256 is" in message
    assert "make lock" in message
    assert series.head() == head
    assert series.run("apply", "--relock") == 0
    assert series.run("apply") == 0


@pytest.mark.parametrize("key", ["tree", "commit", "patch_id"])
def test_lock_is_compared_at_each_step(series: World, said: Said, key: str) -> None:
    lock = series.root / "series.lock"
    head, *rows = lock.read_text().split("[[patch]]")
    lines = rows[1].splitlines()
    wrong = [f'{key} = "{"0" * 40}"' if row.startswith(f"{key} =") else row for row in lines]
    lock.write_text("[[patch]]".join([head, rows[0], "\n".join(wrong) + "\n", rows[2]]))
    assert series.run("apply") == 1
    assert f"{NAMES[1]} (patch 2): its {key} is" in said()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: "", "series.lock lacks the field"),
        (lambda text: "=", "series.lock is not valid TOML"),
        (lambda text: text.replace('series_id = "', 'series_id = "0'), "series_id does not match"),
        (lambda text: text.partition("[[patch]]")[0], "series_id does not match"),
        (None, "series.lock is missing"),
    ],
    ids=["empty", "garbage", "series-id", "cut", "missing"],
)
def test_damaged_lock(
    series: World, said: Said, damage: Callable[[str], str] | None, words: str
) -> None:
    lock = series.root / "series.lock"
    if damage:
        lock.write_text(damage(lock.read_text()))
    else:
        lock.unlink()
    assert series.run("apply") == 1
    message = said()
    assert words in message
    assert "make lock" in message


def test_patch_missing_from_either_side_of_the_lock(series: World, said: Said) -> None:
    file = series.root / "series"
    text = file.read_text()
    file.write_text(text.replace(f"{NAMES[2]}\n", ""))
    assert series.run("apply") == 1
    assert f"{NAMES[2]} is in series.lock but not in series" in said()
    assert series.run("apply", "--relock") == 0
    file.write_text(text)
    assert series.run("apply") == 1
    assert f"{NAMES[2]} is in series but not in series.lock" in said()


def _replace(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: b"", "is empty"),
        (lambda data: data[: data.index(b"diff --git")], "holds no 'diff --git' line"),
        (lambda data: data[:-30], "ends within a line"),
        (lambda data: b"\n".join(data.split(b"\n")[:-4]) + b"\n", "is damaged"),
        (_replace(b"\n", b"\r\n"), "has Windows line endings"),
        (_replace(b"From:", b"Frm:"), "has no 'From:' mail header"),
        (_replace(b"From: A Dev <dev@example.org>", b"From: A Dev"), "is not 'Name <mail>'"),
        (_replace(b"Date: Thu, 01 Oct", b"Date: Oct? Some"), "is not a mail date"),
        (_replace(b"Because", b"\xff"), "is not UTF-8"),
    ],
    ids=["empty", "no-diff", "cut-line", "cut-hunk", "crlf", "from", "mail", "date", "utf8"],
)
def test_damaged_patch_is_one_sentence(
    series: World, said: Said, damage: Callable[[bytes], bytes], words: str
) -> None:
    path = series.patch(NAMES[1])
    path.write_bytes(damage(path.read_bytes()))
    head = series.head()
    assert series.run("apply", "--relock") == 1
    message = said()
    assert words in message
    assert NAMES[1] in message
    assert len(message.splitlines()) == 1
    assert series.head() == head


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("+1,2", "+1,1", "counts 0 old and 1 new lines, its body holds 0 and 2"),
        ("+1,2", "+1,3", "counts 0 old and 3 new lines, its body holds 0 and 2"),
    ],
    ids=["fewer", "more"],
)
def test_hunk_counts_edited_by_hand(
    series: World, said: Said, old: str, new: str, words: str
) -> None:
    """Git takes what the counts name and drops the rest without a word."""
    path = series.patch(NAMES[2])
    path.write_text(path.read_text().replace(f"@@ -0,0 {old} @@", f"@@ -0,0 {new} @@"))
    lock = (series.root / "series.lock").read_bytes()
    for argv in (["apply", "--relock"], ["apply"], ["verify", "--no-import", "--no-quilt"]):
        assert series.run(*argv) == 1
        message = said()
        for word in (NAMES[2], f"'@@ -0,0 {new} @@'", words, "vendor/vllm", "make refresh"):
            assert word in message
    assert (series.root / "series.lock").read_bytes() == lock


def test_patch_that_does_not_apply_is_refused(series: World, said: Said) -> None:
    path = series.patch(NAMES[1])
    path.write_text(path.read_text().replace(" line_4 = 4", " line_4 = 9"))
    assert series.run("apply", "--relock") == 1
    message = said()
    assert f"{NAMES[1]} does not apply" in message
    assert "vllm/a.py" in message


def test_fuzz_is_not_accepted(series: World) -> None:
    # GNU patch would take this with its default fuzz of 2: an outer context line differs.
    path = series.patch(NAMES[1])
    path.write_text(path.read_text().replace(" line_2 = 2", " line_2 = 9"))
    assert series.run("apply", "--relock") == 1


def test_whitespace_in_the_context_counts(series: World) -> None:
    series.git("config", "apply.ignoreWhitespace", "change")
    path = series.patch(NAMES[1])
    path.write_text(path.read_text().replace(" line_2 = 2", " line_2  =  2"))
    assert series.run("apply", "--relock") == 1


@pytest.mark.parametrize(
    "hunk", ["", "--- a/vllm/b.py\n+++ b/vllm/b.py\n@@ -1 +1 @@\n-value = 1\n+value = 1\n"]
)
def test_patch_that_changes_nothing(empty: World, said: Said, hunk: str) -> None:
    patch = empty.patch("core/nothing.patch")
    patch.parent.mkdir(parents=True)
    patch.write_text(
        "From: A <a@b.c>\nDate: Thu, 01 Oct 2026 12:00:00 +0000\nSubject: x\n\n---\n"
        "diff --git a/vllm/b.py b/vllm/b.py\n" + hunk
    )
    (empty.root / "series").write_text("core/nothing.patch\n")
    assert empty.run("apply", "--relock") == 1
    assert "core/nothing.patch" in said()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("core/change-three.patch\ncore/change-three.patch\n", "twice"),
        ("core/change-three.patch -p0\n", "options such as -p0"),
        ("../x.patch\n", "not of the form topic/name.patch"),
        ("x.patch\n", "not of the form topic/name.patch"),
        ("core/absent.patch\n", "does not exist"),
        ("core/change-three.patch", "does not end with a newline"),
        ("core/change-three.patch\r\n", "Windows line endings"),
        (None, "series is missing"),
    ],
)
def test_bad_series_file(series: World, said: Said, text: str | None, words: str) -> None:
    file = series.root / "series"
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text.encode())
    assert series.run("apply", "--relock") == 1
    message = said()
    assert words in message
    assert len(message.splitlines()) == 1


def test_wrong_order_is_refused(series: World, said: Said) -> None:
    (series.root / "series").write_text("\n".join([NAMES[1], NAMES[0], NAMES[2], ""]))
    assert series.run("apply", "--relock") == 1
    assert "correct the order in series" in said()


def test_misspelt_name_in_series(series: World, said: Said) -> None:
    other = series.patch("core/other.patch")
    other.write_text("x")
    file = series.root / "series"
    text = file.read_text()
    file.write_text(text.replace(NAMES[1], "core/chnage-five.patch"))
    assert series.run("apply", "--relock") == 1
    message = said()
    assert len(message.splitlines()) == 1
    assert "patches/core/chnage-five.patch is named in series but does not exist" in message
    assert f"did you mean {NAMES[1]}, which is in patches/ and not in series" in message
    assert "delete the line" not in message
    # With nothing to mean, the line goes or the file comes back.
    other.unlink()
    file.write_text(text + "core/absent.patch\n")
    assert series.run("apply", "--relock") == 1
    assert "restore it with git checkout or delete the line" in said()


@pytest.mark.parametrize("key", ["base_tree", "package_tree"])
def test_wrong_pin_leaves_nothing(bare: World, said: Said, key: str) -> None:
    pin = bare.root / "vendor" / "upstream.toml"
    tree = getattr(bare.project.pin, key)
    pin.write_text(pin.read_text().replace(tree, "0" * 40))
    bare.run("fetch", "--from", str(bare.upstream))
    assert bare.run("apply", "--relock") == 1
    assert "the pin and the archive do not belong together" in said()
    assert not bare.checkout.exists()
    assert bare.debris() == []


def test_something_else_in_the_way(bare: World, said: Said) -> None:
    bare.checkout.mkdir()
    (bare.checkout / "precious").write_text("x")
    assert bare.run("apply", "--relock") == 1
    assert "in the way" in said()
    assert (bare.checkout / "precious").is_file()


def test_new_pin_over_an_old_checkout(series: World, bare_template: World) -> None:
    """The base is imported beside the old one; the checkout moves when all is saved."""
    series.git("update-ref", "-d", "refs/tags/series-base")
    assert series.run("apply") == 0
    assert series.git("rev-parse", "series-base^{tree}") == series.project.pin.base_tree


def test_git_am_gives_the_same_trees(series: World, tmp_path: object) -> None:
    """The patches are ordinary mail: no tool of this project is needed to apply them."""
    want = series.git("log", "--reverse", "--format=%T|%an|%ae|%ad|%s", "series-base..")
    series.git("checkout", "-q", "-b", "am", "series-base")
    for name in NAMES:
        series.git("am", "-q", "--keep-non-patch", str(series.patch(name)))
    assert series.git("log", "--reverse", "--format=%T|%an|%ae|%ad|%s", "series-base..") == want


def test_mailed_patch_is_understood(series: World) -> None:
    """What git format-patch writes with the settings many people have."""
    subprocess.run(
        ["git", "-c", "core.abbrev=8", "format-patch", "-1", "--stat", "--numbered", "-o",
         str(series.root), "HEAD"],
        cwd=series.checkout, check=True, capture_output=True,
    )  # fmt: skip
    (mailed,) = series.root.glob("0001-*.patch")
    tree = series.tree()
    shutil.move(mailed, series.patch(NAMES[2]))
    assert series.run("apply", "--relock") == 0
    assert series.tree() == tree
    assert series.git("log", "-1", "--format=%s") == "[Core] Replace the old"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"../../escape.py": "x"}, "cannot be unpacked"),
        (b"no archive", "cannot be unpacked"),
        (None, "cannot be unpacked"),
    ],
    ids=["escape", "garbage", "truncated"],
)
def test_bad_archive(tmp_path: Path, content: dict[str, str] | bytes | None, words: str) -> None:
    sdist = tmp_path / "x.tar.gz"
    if isinstance(content, bytes):
        sdist.write_bytes(content)
    else:
        worlds.write_sdist(sdist, content or worlds.SOURCES)
        if content is None:
            sdist.write_bytes(sdist.read_bytes()[:200])
    (tmp_path / "deep" / "target").mkdir(parents=True)
    with pytest.raises(ToolError, match=words):
        upstream.unpack(sdist, tmp_path / "deep" / "target")
    assert not list(tmp_path.rglob("escape.py"))
