"""A project whose patches carry tests, and what it takes to run and to extract them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from world import World

ROOT = Path(__file__).parents[2]
SPDX = "# SPDX-License-Identifier: Apache-2.0\n"
ANSWER, CHANGE = "core/add-the-answer.patch", "core/change-b.patch"
MESSAGE = """\
{subject}

Because it is wrong without it.

Upstream-Status: Pending
Tests: {tests}
Depends: {depends}
Signed-off-by: A Dev <dev@example.org>
"""


def put(world: World, path: str, text: str) -> None:
    file = world.checkout / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def commit(
    world: World, subject: str, *lines: str, tests: str = "tests/test_a.py", depends: str = "none"
) -> None:
    text = MESSAGE.format(subject=subject, tests=tests, depends=depends)
    world.commit(subject, *lines, message=text)


def make(world: World) -> World:
    """Two patches: a new module and an edit, each with a test that needs it."""
    (world.root / "ci" / "interpreted.py").write_bytes(
        (ROOT / "ci" / "interpreted.py").read_bytes()
    )
    harness = world.root / "tests" / "harness"
    harness.mkdir(parents=True)
    (harness / "__init__.py").write_text("")
    (harness / "pytest_interpreted.py").write_text("# kernels of this project are plain Python\n")
    put(world, "vllm/answer.py", f"{SPDX}value = 42\n")
    put(
        world,
        "tests/test_answer.py",
        f"{SPDX}from vllm.answer import value\n\n\ndef test_it():\n    assert value == 42\n",
    )
    commit(world, "[Core] Add the answer", "Topic: core", tests="tests/test_answer.py")
    put(world, "vllm/b.py", "value = 2\n")
    put(
        world,
        "tests/test_b.py",
        f"{SPDX}from vllm import b\n\n\ndef test_it():\n    assert b.value == 2\n",
    )
    commit(world, "[Core] Change b", tests="tests/test_b.py")
    assert world.run("refresh") == 0
    names = [path.name for path in (world.root / "patches" / "core").iterdir()]
    assert sorted(names) == ["add-the-answer.patch", "change-b.patch"], names
    return world


def somebody(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str = "Ann Submitter") -> None:
    """Let git know who works here, or nobody."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    text = f"[user]\n\tname = {name}\n\temail = ann@example.org\n" if name else ""
    (home / ".gitconfig").write_text(text)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "none"))


def policies(world: World, **changes: str) -> None:
    """Give the project the real policies' shape, with its own topics."""
    folder = world.root / "policy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "vllm.toml").write_text(VLLM + changes.get("vllm", ""))
    (folder / "fla.toml").write_text(FLA + changes.get("fla", ""))


VLLM = """\
[upstream]
url = "https://example.org/vllm"
sign_off = true
[title]
pattern = '(\\[[A-Z][a-z]+\\])+ \\S.*'
example = "[Core] Do it"
[size]
lines = 500
without = ["tests/*"]
note = "open an RFC first"
[ai]
disclose = true
statement = "AI assistance was used."
trailer = "Assisted-by"
[duplicates]
note = "Search for it."
[[section]]
title = "Overview"
content = ["summary", "claims"]
[[section]]
title = "Validation"
content = ["tests", "results", "numbers", "lint"]
[[section]]
title = "Details"
content = ["commits", "size", "duplicates", "ai"]
write = "who reviewed it"
[lint]
config = ".pre-commit-config.yaml"
[lint.skip]
slow = "it takes an hour"
[topics.core]
title = "[Core] The answer and b"
"""
FLA = """\
[upstream]
url = "https://example.org/fla"
sign_off = false
[title]
pattern = '\\[[A-Z][A-Za-z]*\\] \\S.*'
example = "[GDN] Do it"
[size]
lines = 4
note = "tick the box"
[ai]
disclose = false
[trailers]
forbidden = ["Co-authored-by", "Assisted-by"]
[duplicates]
note = "Search for it."
[[path]]
from = "vllm/ans"
to = "fla/ops/ans"
[[path]]
from = "tests/test_ans"
to = "tests/ops/test_ans"
[[section]]
title = "Summary"
content = ["summary", "tests", "remaining", "ai", "size"]
[topics.core]
title = "[GDN] The answer"
summary = "What it is."
"""
