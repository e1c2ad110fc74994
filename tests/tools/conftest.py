from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import fakeindex
import pytest
import world as worlds
from world import World


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the cache, index or git settings of the machine."""
    for name in ("GDNWINDOW_CACHE", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    # Nothing listens there: a test that forgets its index fails at once.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upstream")
    worlds.write_upstream(folder)
    return folder


@pytest.fixture(scope="session")
def bare_template(tmp_path_factory: pytest.TempPathFactory, upstream: Path) -> World:
    """A project with an empty series, nothing fetched."""
    root = tmp_path_factory.mktemp("bare") / "project"
    root.mkdir()
    worlds.write_pin(root, upstream)
    (root / "series").write_text("# The series.\n\n")
    (root / "ci").mkdir()
    (root / "ci" / "env.lock").write_text("# empty\n")
    return World(root, upstream)


@pytest.fixture(scope="session")
def empty_template(tmp_path_factory: pytest.TempPathFactory, bare_template: World) -> World:
    """The same, fetched, locked and applied."""
    made = worlds.copy(bare_template, tmp_path_factory.mktemp("empty") / "project")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GDNWINDOW_CACHE", raising=False)
        assert made.run("fetch", "--from", str(made.upstream), "--cpu") == 0
        assert made.run("apply", "--relock") == 0
    return made


@pytest.fixture(scope="session")
def series_template(tmp_path_factory: pytest.TempPathFactory, empty_template: World) -> World:
    """Three patches: an edit, an edit of the same file, a new file and a removed one."""
    made = worlds.copy(empty_template, tmp_path_factory.mktemp("series") / "project")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GDNWINDOW_CACHE", raising=False)
        made.edit("vllm/a.py", "line_3 = 3\n", "line_3 = 33\n")
        made.commit("Change three", "Topic: core")
        made.edit("vllm/a.py", "line_5 = 5\n", "line_5 = 55\n")
        made.commit("Change five")
        (made.checkout / "vllm" / "new.py").write_text(
            "# SPDX-License-Identifier: Apache-2.0\nimport vllm.a\n"
        )
        (made.checkout / "vllm" / "old.py").unlink()
        made.commit("Replace the old", "Topic: extra")
        assert made.run("refresh") == 0
    return made


@pytest.fixture
def bare(bare_template: World, tmp_path: Path) -> World:
    return worlds.copy(bare_template, tmp_path / "project")


@pytest.fixture
def empty(empty_template: World, tmp_path: Path) -> World:
    return worlds.copy(empty_template, tmp_path / "project")


@pytest.fixture
def series(series_template: World, tmp_path: Path) -> World:
    return worlds.copy(series_template, tmp_path / "project")


@pytest.fixture
def index(upstream: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fakeindex.Index]:
    """The index pip is set up for serves the fake release."""
    with fakeindex.serve(upstream) as state:
        monkeypatch.setenv("PIP_INDEX_URL", state.url)
        yield state


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return what was printed since the last call, both streams."""

    def read() -> str:
        out, err = capfd.readouterr()
        return out + err

    return read
