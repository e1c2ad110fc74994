"""What holds of any edit upstream makes: it is carried, or it stops; nothing is misplaced."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from world import World

from tools import patchfile, stack, transplant
from tools.errors import ToolError
from tools.git import Git, init
from tools.patchfile import Ident

WHO = Ident("A Dev", "dev@example.org", 1_790_000_000, "+0000")
MESSAGE = "[Core] Change\n\nWhy.\n"
PATH = "vllm/a.py"
SIZE = 60
CONTEXT = 3
# Some lines stand often, as brackets and blanks do in code; the rest once.
BASE = ["" if n % 7 == 5 else "    )" if n % 11 == 8 else f"line_{n} = {n}" for n in range(SIZE)]
FAST = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)

# A file is slots: line n is slot 2n + 1, and slot 2n the gap above it, in which nothing stands.
# An edit says what stands in some slots instead.
Edit = dict[int, list[str]]
SLOTS = 2 * SIZE + 1


def plain(slot: int) -> list[str]:
    return [BASE[slot // 2]] if slot % 2 else []


def edited(edit: Edit) -> list[str]:
    return [line for slot in range(SLOTS) for line in edit.get(slot, plain(slot))]


def edits(who: str, slots: list[int], most: int) -> st.SearchStrategy[Edit]:
    """Draw edits: lines replaced or deleted, lines put into gaps."""

    def at(slot: int, *, gone: bool) -> list[str]:
        return [] if gone and slot % 2 else [f"{who}_{slot} = 1"]

    chosen = st.dictionaries(st.sampled_from(slots), st.booleans(), min_size=1, max_size=most)
    return chosen.map(lambda kept: {slot: at(slot, gone=gone) for slot, gone in kept.items()})


def near(edit: Edit, lines: int) -> set[int]:
    """Return the slots within some lines of an edit."""
    return {slot for at in edit for slot in range(at - 2 * lines - 1, at + 2 * lines + 2)}


ANY = list(range(SLOTS))
MIDDLE = ANY[10:-10]


@dataclass
class Bench:
    """A repository in which trees of one file are made and merged."""

    git: Git

    def tree(self, lines: list[str], **others: str) -> str:
        texts = {PATH: "".join(f"{line}\n" for line in lines), "vllm/b.py": "b = 1\n", **others}
        with tempfile.TemporaryDirectory() as folder:
            view = self.git.with_index(Path(folder) / "index")
            for path, text in texts.items():
                blob = self.git.out("hash-object", "-w", "--stdin", stdin=text.encode())
                view.raw("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
            return view.out("write-tree")

    def commit(self, tree: str, parent: str | None = None) -> str:
        return stack.make_commit(self.git, tree, parent, WHO, MESSAGE, WHO.epoch)

    def patch(self, base: str, lines: list[str]) -> tuple[str, bytes]:
        """Return a commit over the base, and its file."""
        commit = self.commit(self.tree(lines), base)
        made = stack.export_commit(self.git, stack.read_commit(self.git, commit))
        return commit, patchfile.write(made)

    def lines(self, tree: str) -> list[str]:
        text = self.git.raw("cat-file", "blob", f"{tree}:{PATH}").decode()
        return text.split("\n")[:-1]

    def diff(self, old: str, new: str) -> bytes:
        return self.git.raw("diff-tree", *stack.DIFF_FLAGS, old, new)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(init(tmp_path_factory.mktemp("bench"), "x"))


@FAST
@given(ours=edits("ours", MIDDLE, 3), data=st.data())
def test_edits_away_from_hunks_change_nothing_of_the_patch(
    bench: Bench, ours: Edit, data: st.DataObject
) -> None:
    far = sorted(set(ANY) - near(ours, CONTEXT + 1))
    theirs = data.draw(edits("theirs", far, 6), "theirs")
    base = bench.commit(bench.tree(BASE))
    old, _ = bench.patch(base, edited(ours))
    onto = bench.commit(bench.tree(edited(theirs), **{"vllm/b.py": "b = 2\n"}))
    outcome = transplant.merge(bench.git, old, onto)
    assert outcome.conflicts == ()
    new = transplant.commit(bench.git, old, outcome.tree, onto)
    assert bench.lines(outcome.tree) == edited({**theirs, **ours})
    # Two hunks of the patch may have come closer, and share context: never more than that.
    assert transplant.classify(bench.git, old, new) in (transplant.CLEAN, transplant.CONTEXT)

    def changed(commit: str) -> list[bytes]:
        diff = bench.diff(f"{commit}^", commit)
        return [line for line in diff.split(b"\n") if line[:1] in (b"+", b"-")]

    assert changed(new) == changed(old)


@FAST
@given(ours=edits("ours", MIDDLE, 3), data=st.data())
def test_edits_of_what_a_patch_changes_stop(bench: Bench, ours: Edit, data: st.DataObject) -> None:
    theirs = data.draw(edits("theirs", sorted(ours), 3), "theirs")
    base = bench.commit(bench.tree(BASE))
    old, _ = bench.patch(base, edited(ours))
    onto = bench.commit(bench.tree(edited(theirs)))
    outcome = transplant.merge(bench.git, old, onto)
    # Only the same deletion is the same change: what is written carries its author's name.
    alike = all(ours[slot] == new for slot, new in theirs.items())
    if not alike:
        assert outcome.conflicts == (PATH,)
    elif not outcome.conflicts:  # beside a change of ours even the same deletion conflicts
        assert bench.lines(outcome.tree) == edited(ours)


@settings(FAST, max_examples=150)
@given(ours=edits("ours", MIDDLE, 4), theirs=edits("theirs", ANY, 8))
def test_any_edit_is_carried_to_its_place_or_stops(bench: Bench, ours: Edit, theirs: Edit) -> None:
    base = bench.commit(bench.tree(BASE))
    old, _ = bench.patch(base, edited(ours))
    onto = bench.commit(bench.tree(edited(theirs)))
    outcome = transplant.merge(bench.git, old, onto)
    if outcome.conflicts:
        assert near(ours, 1) & theirs.keys(), "a conflict where both sides are apart"
        return
    both = {slot for slot, new in theirs.items() if new != ours.get(slot, new)}
    assert not both, "two changes of one place, and no conflict"
    assert bench.lines(outcome.tree) == edited({**theirs, **ours})


@FAST
@given(ours=edits("ours", MIDDLE, 3), theirs=edits("theirs", ANY, 4))
def test_strict_apply_goes_to_the_place_or_refuses(bench: Bench, ours: Edit, theirs: Edit) -> None:
    """At the pin nothing is merged: a line of a hunk that differs, and it stops."""
    base = bench.commit(bench.tree(BASE))
    _, content = bench.patch(base, edited(ours))
    onto = bench.commit(bench.tree(edited(theirs)))
    try:
        _, tree, _ = stack.import_patch(bench.git, onto, "core/one.patch", content)
    except ToolError as error:
        found = str(error)
    else:
        found = ""
    inside = {slot for at in ours for slot in range(at - 2 * CONTEXT, at + 2 * CONTEXT + 1)}
    if found:
        assert "does not apply to the patches before it" in found
        assert near(ours, 2 * CONTEXT) & theirs.keys(), "refused though nothing is near"
    else:
        assert bench.lines(tree) == edited({**theirs, **ours})
        assert not any(slot % 2 and slot in inside for slot in theirs), "a hunk's line differs"


@FAST
@given(ours=edits("ours", MIDDLE, 3), theirs=edits("theirs", ANY, 6))
def test_back_again_is_where_it_was(bench: Bench, ours: Edit, theirs: Edit) -> None:
    """Carried to another tree and back to the first, a patch is the same to the byte."""
    base = bench.commit(bench.tree(BASE))
    old, content = bench.patch(base, edited(ours))
    onto = bench.commit(bench.tree(edited(theirs)))
    there = transplant.merge(bench.git, old, onto)
    same = {slot for slot in ours if theirs.get(slot) == ours[slot]}
    assume(not there.conflicts and not same)
    new = transplant.commit(bench.git, old, there.tree, onto)
    again = transplant.merge(bench.git, new, base)
    assert again.conflicts == ()
    assert again.tree == bench.git.tree(old)
    back = transplant.commit(bench.git, new, again.tree, base)
    made = stack.export_commit(bench.git, stack.read_commit(bench.git, back))
    assert patchfile.write(made) == content


# ---- damaged files -------------------------------------------------------------------------


@contextlib.contextmanager
def kept(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    try:
        yield data
    finally:
        path.write_bytes(data)


def damage(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    kind = draw(st.sampled_from(["cut", "crlf", "lose", "twice", "swap", "byte"]))
    at = draw(st.integers(0, len(lines) - 2))
    if kind == "cut":
        return data[: draw(st.integers(0, len(data) - 1))]
    if kind == "crlf":
        return data.replace(b"\n", b"\r\n")
    if kind == "byte":
        place = draw(st.integers(0, len(data) - 1))
        return data[:place] + b"\xff" + data[place + 1 :]
    if kind == "lose":
        del lines[at]
    elif kind == "twice":
        lines.insert(at, lines[at])
    else:
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return b"\n".join(lines)


@FAST
@given(data=st.data(), number=st.integers(0, 2))
def test_damaged_patch_is_one_sentence(
    series: World, capfd: pytest.CaptureFixture[str], data: st.DataObject, number: int
) -> None:
    names = ["core/change-three.patch", "core/change-five.patch", "extra/replace-the-old.patch"]
    path = series.patch(names[number])
    with kept(path) as content:
        spoilt = data.draw(st.composite(damage)(content), "damage")
        if spoilt == content:
            return
        path.write_bytes(spoilt)
        capfd.readouterr()
        argv = ("rebase", "--upstream", "main")
        assert series.run(*argv) == 1
        _, message = capfd.readouterr()
        assert len(message.splitlines()) == 1, message
        assert names[number] in message
        assert message.startswith("rebase: ")
        assert message.rstrip().endswith(".")
        assert not (series.root / "vendor" / "rebase" / "state.json").exists()
    assert series.run("apply") == 0  # nothing else was touched


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("twice", "names core/change-three.patch twice"),
        ("renamed", "patches/core/change-three.patch is named in series but does not exist"),
        ("gone", "patches/core/change-three.patch is named in series but does not exist"),
        ("order", "corrupt: core/change-five.patch does not apply to the patches before it"),
    ],
)
def test_series_that_is_not_whole_is_one_sentence(
    series: World, capfd: pytest.CaptureFixture[str], spoil: str, words: str
) -> None:
    path = series.patch("core/change-three.patch")
    text = (series.root / "series").read_text()
    line = "core/change-three.patch\n"
    if spoil == "twice":
        (series.root / "series").write_text(text + line)
    elif spoil == "order":
        (series.root / "series").write_text(text.replace(line, "") + line)
    elif spoil == "renamed":
        path.rename(path.with_name("change-3.patch"))
    else:
        path.unlink()
    capfd.readouterr()
    assert series.run("rebase", "--upstream", "main") == 1
    _, message = capfd.readouterr()
    assert words in message
    assert len(message.splitlines()) == 1
