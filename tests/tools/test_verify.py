from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from world import GOOD, World

from tools import quilt

Said = Callable[[], str]
THREE, FIVE, OLD = (
    "core/change-three.patch",
    "core/change-five.patch",
    "extra/replace-the-old.patch",
)
needs_quilt = pytest.mark.skipif(
    shutil.which("quilt") is None, reason="Debian's quilt is not installed"
)


def verify(world: World, *flags: str) -> int:
    if not shutil.which("quilt"):
        flags = ("--no-quilt", *flags)
    return world.run("verify", "--no-import", *flags)


def rewrite(world: World, name: str, old: str, new: str) -> None:
    path = world.patch(name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_sound_series(series: World, said: Said) -> None:
    assert verify(series) == 0
    assert "3 patches, 0 findings" in said()


def test_empty_series(empty: World, said: Said) -> None:
    assert verify(empty) == 0
    assert "0 patches, 0 findings" in said()


def test_works_without_a_checkout_and_leaves_none(series: World) -> None:
    shutil.rmtree(series.checkout)
    assert verify(series) == 0
    assert not series.checkout.exists()


def test_does_not_look_at_work_in_the_checkout(series: World) -> None:
    series.edit("vllm/b.py", "1", "2")
    series.commit("Mine")
    series.edit("vllm/b.py", "2", "3")
    assert verify(series) == 0


@needs_quilt
def test_quilt_reaches_the_same_tree(series: World, said: Said) -> None:
    assert series.run("verify", "--no-import") == 0
    assert f"quilt --fuzz=0 and git reach the same tree, {series.tree()}" in said()


@needs_quilt
def test_quilt_that_reaches_another_tree(
    series: World, said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bin" / "quilt"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho wrong > vllm/b.py\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    assert series.run("verify", "--no-import") == 1
    assert "quilt reaches the tree" in said()
    fake.write_text("#!/bin/sh\necho 'Hunk #1 FAILED' >&2\nexit 1\n")
    assert series.run("verify", "--no-import") == 1
    assert "quilt push --fuzz=0 fails: Hunk #1 FAILED" in said()


@needs_quilt
def test_quilt_accepts_no_fuzz(series: World) -> None:
    rewrite(series, FIVE, " line_2 = 2", " line_2 = 9")
    folder = series.root / "pristine"
    folder.mkdir()
    quilt.export(series.project.git, "series-base", folder)
    program = str(shutil.which("quilt"))
    assert "FAILED" in str(quilt.push(series.project, program, folder))


def test_missing_quilt_is_a_finding(
    series: World, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.quilt.shutil.which", lambda _: None)
    assert series.run("verify", "--no-import") == 1
    assert "quilt is not installed" in said()
    assert series.run("verify", "--no-import", "--no-quilt") == 0


def test_all_findings_in_one_run(series: World, said: Said) -> None:
    rewrite(series, THREE, "Upstream-Status: Pending", "Upstream-Status: Done")
    rewrite(series, FIVE, "Tests: tests/test_a.py", "Tests: tests/test_z.py")
    rewrite(series, OLD, "# SPDX-License-Identifier: Apache-2.0", "# nothing")
    (series.root / "patches" / "core" / "stray.rej").write_text("x")
    assert verify(series) == 1
    message = said()
    for words in (
        "patches/core/stray.rej is in the folder but not in series",
        f"{THREE}: Upstream-Status: 'Done' is malformed",
        f"{FIVE}: Tests: tests/test_z.py does not exist",
        f"{OLD}: vllm/new.py: a new Python file without",
        f"{THREE} (patch 1): its sha256 is",
    ):
        assert words in message
    # The blob id in the last header no longer fits its content: the round trip sees it.
    assert f"{OLD}: line" in message


def test_folder_and_series_both_ways(series: World, said: Said) -> None:
    shutil.copy(series.patch(THREE), series.patch("core/copy.patch"))
    assert verify(series) == 1
    assert "patches/core/copy.patch is in the folder but not in series" in said()
    series.patch("core/copy.patch").rename(series.patch(OLD))
    series.patch(OLD).unlink()
    assert verify(series) == 1
    message = said()
    assert f"patches/{OLD} is in series but not in the folder" in message


def test_duplicates(series: World, said: Said) -> None:
    file = series.root / "series"
    text = file.read_text()
    file.write_text(text + f"{OLD}\n")
    assert verify(series) == 1
    assert f"series names {OLD} 2 times" in said()
    shutil.copy(series.patch(THREE), series.patch("core/copy.patch"))
    file.write_text(text + "core/copy.patch\n")
    assert verify(series) == 3 - 2
    assert f"patches/core/copy.patch has the same content as patches/{THREE}" in said()


def test_offset_is_found_by_the_round_trip(series: World, said: Said) -> None:
    # git applies it, a few lines off; the file no longer says where it goes.
    rewrite(series, FIVE, "@@ -3,7 +3,7 @@", "@@ -9,7 +9,7 @@")
    assert series.run("apply", "--relock") == 0
    assert verify(series, "--no-quilt") == 1
    message = said()
    assert f"{FIVE}: line" in message
    assert "make refresh" in message


def test_patch_not_in_canonical_form(series: World, said: Said) -> None:
    rewrite(series, OLD, "---\ndiff", "---\n\ndiff")
    assert series.run("apply", "--relock") == 0
    assert verify(series) == 1
    assert f"{OLD}: line" in said()


def test_refresh_cures_what_the_round_trip_finds(series: World) -> None:
    good = series.snapshot()
    rewrite(series, OLD, "---\ndiff", "---\n\ndiff")
    assert series.run("apply", "--relock") == 0
    series.git("commit", "-q", "--amend", "--no-edit")
    assert series.run("refresh") == 0
    assert series.snapshot() == good


def test_unusable_patch_is_one_finding(series: World, said: Said) -> None:
    rewrite(series, FIVE, " line_4 = 4", " line_4 = 9")
    assert verify(series) == 1
    message = said()
    assert f"{FIVE} does not apply" in message
    assert OLD not in message


def test_syntax_error_is_found_in_its_prefix(series: World, said: Said) -> None:
    series.edit("vllm/b.py", "value = 1", "value =")
    series.commit("Break")
    series.edit("vllm/b.py", "value =", "value = 2")
    series.commit("Mend")
    assert series.run("refresh") == 0
    assert verify(series) == 1
    message = said()
    assert "extra/break.patch: vllm/b.py does not compile" in message
    assert "mend.patch: vllm/b.py" not in message


def test_missing_environment_is_a_finding(series: World, said: Said) -> None:
    flags = [] if shutil.which("quilt") else ["--no-quilt"]
    assert series.run("verify", *flags) == 1
    message = said()
    assert "the import check did not run" in message
    assert "IMPORT=0" in message


def test_environment_that_is_none(series: World, said: Said, tmp_path: Path) -> None:
    assert series.run("verify", "--env", str(tmp_path)) == 1
    assert "is no virtual environment" in said()


@pytest.fixture
def imports() -> list[str]:
    return ["verify", "--no-quilt", "--env", sys.prefix]


def test_modules_import_after_every_prefix(series: World, said: Said, imports: list[str]) -> None:
    assert series.run(*imports) == 0
    message = said()
    assert f"importing 1 module(s) after {THREE}" in message
    assert f"importing 1 module(s) after {OLD}" in message
    assert series.run(*imports) == 0
    assert "3 prefix(es) passed before" in said()


def test_import_that_works_only_later_is_found(
    series: World, said: Said, imports: list[str]
) -> None:
    series.edit("vllm/b.py", "value = 1", "from vllm.late import value")
    series.commit("Use it")
    (series.checkout / "vllm" / "late.py").write_text(
        "# SPDX-License-Identifier: Apache-2.0\nvalue = 1\n"
    )
    series.commit("Define it")
    assert series.run("refresh") == 0
    assert series.run(*imports) == 1
    message = said()
    assert "extra/use-it.patch: import vllm.b fails: ModuleNotFoundError" in message
    assert "define-it.patch: import" not in message
    assert series.debris() == []


def test_module_that_never_imported_here_is_no_finding(
    empty: World, said: Said, imports: list[str]
) -> None:
    # It needs a library of GPUs, say; the series does not make it worse.
    empty.edit("vllm/gpu.py", "library\n", "library\n\nvalue = 1\n")
    empty.commit("Add to it", "Topic: gpu")
    assert empty.run("refresh") == 0
    assert empty.run(*imports) == 0
    assert "note: vllm.gpu cannot be imported here before the series either" in said()
    # Nothing was proven, so nothing is remembered.
    assert empty.run(*imports) == 0
    assert "passed before" not in said()
    empty.edit("vllm/gpu.py", "no_such_gpu_library", "no_such_gpu_library_at_all")
    empty.commit("Make it worse")
    assert empty.run("refresh") == 0
    assert empty.run(*imports) == 1
    assert "gpu/make-it-worse.patch: import vllm.gpu fails" in said()


def test_package_that_does_not_import_at_all(
    empty: World, said: Said, imports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty.edit("vllm/b.py", "1", "2")
    empty.commit("Change it", "Topic: base")
    assert empty.run("refresh") == 0
    monkeypatch.setattr("tools.prefixes.Importer.failures", lambda *_: {"vllm": "no torch"})
    assert empty.run(*imports) == 1
    assert "the pristine vllm cannot be imported" in said()


def test_interpreter_that_dies_is_a_finding(empty: World, said: Said, imports: list[str]) -> None:
    empty.edit("vllm/b.py", "value = 1", "import os; os._exit(5)")
    empty.commit("Die", message=GOOD.format(subject="Die") + "Topic: base\n")
    assert empty.run("refresh") == 0
    assert empty.run(*imports) == 1
    assert "import vllm.b fails: the interpreter died" in said()
