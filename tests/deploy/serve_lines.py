"""The `vllm serve` lines of deploy/ and the documents, as lists of words."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCUMENTS = ("README.md", "docs/deployment.md")
# What a shell or systemd fills in.
GIVEN = {
    "${MODEL}": "model",
    "$1": "model",
    "$2": "2",
    "${1}": "model",
    "${2}": "2",
    "MODEL": "model",
}
SERVE = "vllm serve "


def joined(text: str) -> list[str]:
    """Lines as a shell or systemd reads them."""
    return re.sub(r"\\\n\s*", "", text).splitlines()


def words(line: str) -> list[str]:
    """What follows `vllm serve`, up to where the shell's next word would be a comment."""
    found = shlex.split(line.partition(SERVE)[2], comments=True)
    return [GIVEN.get(word, word) for word in found]


def of_text(path: Path) -> list[list[str]]:
    """Lines of a unit, a script or a document."""
    lines = [line for line in joined(path.read_text()) if SERVE in line]
    starts = ("ExecStart=", "exec vllm", "vllm serve")
    return [words(line) for line in lines if line.strip().startswith(starts)]


def of_dockerfile(path: Path) -> list[list[str]]:
    command = next(line for line in joined(path.read_text()) if line.startswith("CMD "))
    return [json.loads(command.removeprefix("CMD "))]


def manifests() -> list[tuple[str, dict[str, Any]]]:
    """Every object of deploy/kubernetes, with its file."""
    return [
        (path.name, one)
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for one in yaml.safe_load_all(path.read_text())
    ]


def of_manifests() -> list[list[str]]:
    return [
        container["args"]
        for _, one in manifests()
        if one["kind"] == "Deployment"
        for container in one["spec"]["template"]["spec"]["containers"]
    ]


def all_lines() -> dict[str, list[list[str]]]:
    """Each file that holds some, with its lines."""
    paths = [*sorted(DEPLOY.glob("*/*.service")), *sorted(DEPLOY.glob("*/*.sh"))]
    paths += [ROOT / name for name in DOCUMENTS]
    found = {path.relative_to(ROOT).as_posix(): of_text(path) for path in paths}
    found["deploy/docker/Dockerfile"] = of_dockerfile(DEPLOY / "docker" / "Dockerfile")
    found["deploy/kubernetes"] = of_manifests()
    return {name: lines for name, lines in found.items() if lines}
