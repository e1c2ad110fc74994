"""Releases before and after the fake one, made to meet its series in one way each."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import world as worlds
from world import World

THREE, FIVE, OLD = (
    "core/change-three.patch",
    "core/change-five.patch",
    "extra/replace-the-old.patch",
)
A = worlds.SOURCES["vllm/a.py"]


def a(**lines: str) -> str:
    """Return vllm/a.py with some lines replaced: ``a(line_3="line_3 = 0\\n")``."""
    text = A
    for name, new in lines.items():
        old = f"{name} = {name.removeprefix('line_')}\n"
        assert old in text
        text = text.replace(old, new)
    return text


def scene(world: World) -> Path:
    """Return the folder in which conflicts are resolved."""
    return world.root / "vendor" / "rebase" / "tree"


def result(world: World) -> Path:
    return world.root / "vendor" / "rebase" / "result"


def report(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (world.root / "vendor" / "rebase" / "report.json").read_text()
    )
    return found


def statuses(world: World) -> dict[str, str]:
    """Return what became of each patch, as the state holds it."""
    table = json.loads((world.root / "vendor" / "rebase" / "state.json").read_text())
    return {row["name"]: row["status"] for row in table["done"]}


def rebase(world: World, folder: Path, version: str, *more: str) -> int:
    return world.run("rebase", "--upstream", version, "--from", str(folder), *more)


def resolve(world: World, path: str, text: str) -> None:
    (scene(world) / path).write_text(text)
    world.git("add", path, folder=scene(world))


def in_scene(world: World, path: str) -> str:
    return (scene(world) / path).read_text()


def upstream_repository(folder: Path, sources: list[dict[str, str]]) -> list[str]:
    """Make upstream.git: the tag of the pinned release, then a commit for each further tree."""
    target = folder / "upstream.git"
    target.mkdir()
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    who = ["-c", "user.name=Up", "-c", "user.email=up@example.org"]

    def git(*argv: str) -> str:
        done = subprocess.run(
            ["git", *who, *argv], cwd=target, check=True, capture_output=True, text=True, env=env
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main", ".")
    ids: list[str] = []
    for number, tree in enumerate(sources):
        git("rm", "-q", "-r", "-f", "--ignore-unmatch", ".")
        for name, text in tree.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git("add", "-A", "-f")
        git("commit", "-q", "-m", f"commit {number}")
        ids.append(git("rev-parse", "HEAD"))
        if number == 0:
            git("tag", "-a", "-m", "release", f"v{worlds.VERSION}")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    return ids
