"""What the series is laid over: ``vendor/upstream.toml``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tools.errors import ToolError

SHA1 = re.compile(r"[0-9a-f]{40}\Z")
SHA256 = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Archive:
    """One file of the package index, held by its hash."""

    project: str
    name: str
    sha256: str
    commit: str


@dataclass(frozen=True)
class Pin:
    """The pinned release."""

    project: str
    version: str
    epoch: int
    git_url: str
    git_tag: str
    base_tree: str
    package_tree: str
    revision: int
    local: str
    sdist: Archive
    wheel: Archive
    cpu_wheel: Archive
    requires: dict[str, str]

    @property
    def full_version(self) -> str:
        """The version of the wheel this series builds."""
        return f"{self.version}+{self.local}.{self.revision}"


class _Reader:
    def __init__(self, path: Path, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table

    def get(self, dotted: str, kind: type, shape: re.Pattern[str] | None = None) -> Any:
        value: Any = self.table
        for key in dotted.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, kind) or (shape and not shape.match(str(value))):
            raise ToolError(
                f"{self.path}: {dotted} is missing or malformed; "
                f"restore the file with git checkout."
            )
        return value

    def archive(self, key: str, project: str) -> Archive:
        return Archive(
            project=project,
            name=self.get(f"{key}.name", str),
            sha256=self.get(f"{key}.sha256", str, SHA256),
            commit=self.get(f"{key}.commit", str),
        )


def load(path: Path) -> Pin:
    """Read the pin and check its shape."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ToolError(f"{path} is missing; restore it with git checkout.") from None
    except tomllib.TOMLDecodeError as error:
        raise ToolError(f"{path} is not valid TOML ({error}); restore it.") from None
    read = _Reader(path, table)
    date: datetime = read.get("upstream.date", datetime)
    project = read.get("upstream.project", str)
    return Pin(
        project=project,
        version=read.get("upstream.version", str),
        epoch=int(date.timestamp()),
        git_url=read.get("upstream.git", str),
        git_tag=read.get("upstream.tag", str),
        base_tree=read.get("base.tree", str, SHA1),
        package_tree=read.get("base.package_tree", str, SHA1),
        revision=read.get("series.revision", int),
        local=read.get("series.local", str),
        sdist=read.archive("sdist", project),
        wheel=read.archive("wheel", project),
        cpu_wheel=read.archive("testonly.cpu_wheel", read.get("testonly.cpu_wheel.project", str)),
        requires={key: str(value) for key, value in read.get("requires", dict).items()},
    )
