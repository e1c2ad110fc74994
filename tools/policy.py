"""``policy/NAME.toml``: what one upstream asks of a pull request."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from tools.errors import ToolError, UsageError
from tools.project import Project

FOLDER = "policy"
# What a section can hold; tools/cover.py writes each.
CONTENT = (
    "ai", "claims", "commits", "duplicates", "lint", "numbers", "remaining", "results", "size",
    "summary", "tests",
)  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A part of the cover: generated pieces, then what the submitter has to write."""

    title: str
    content: tuple[str, ...] = ()
    write: str = ""


@dataclass(frozen=True)
class Hook:
    """A linter of the tree's configuration, as a package of the Python index."""

    id: str
    package: str
    entry: str
    types_or: tuple[str, ...]


@dataclass(frozen=True)
class Topic:
    """What a topic's patches, or one of them by its name, do not say themselves."""

    title: str = ""
    summary: str = ""
    results: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """One upstream's rules."""

    name: str
    url: str
    sign_off: bool
    title: re.Pattern[str]
    example: str
    lines: int
    lines_without: tuple[str, ...]
    lines_note: str
    disclose: bool
    statement: str
    ai_trailer: str
    forbidden: tuple[str, ...]
    duplicates: str
    sections: tuple[Section, ...]
    paths: tuple[tuple[str, str], ...]
    lint_config: str
    hooks: tuple[Hook, ...]
    skipped_hooks: dict[str, str] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)

    def heading(self, topic: str) -> str:
        """Return how the file has a topic's table; the name of one patch has a slash."""
        key = f'"{topic}"' if "/" in topic else topic
        return f"[topics.{key}]"


def names(project: Project) -> list[str]:
    """Return the upstreams there is a policy for."""
    return sorted(path.stem for path in (project.root / FOLDER).glob("*.toml"))


def load(project: Project, name: str) -> Policy:
    """Read a policy and check its shape."""
    path = project.root / FOLDER / f"{name}.toml"
    if name not in names(project):
        known = ", ".join(names(project)) or "none"
        raise UsageError(f"there is no {project.short(path)}; there are policies for: {known}.")
    where = project.short(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _policy(name, _Table(table, where))
    except tomllib.TOMLDecodeError as error:
        raise ToolError(f"{where} is not valid TOML ({error}); correct it.") from None
    except re.error as error:
        raise ToolError(f"{where}: title.pattern is no pattern ({error}); correct it.") from None


class _Table:
    """A TOML table whose every key is read, so that a misspelt one is found."""

    def __init__(self, table: dict[str, Any], where: str) -> None:
        self.left = dict(table)
        self.where = where

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.left.pop(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ToolError(f"{self.where}: {key} is missing or no {kind.__name__}; correct it.")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(map(str, self.take(key, list, [])))

    def table(self, key: str, *, optional: bool = False) -> _Table:
        return _Table(self.take(key, dict, {} if optional else None), f"{self.where}: {key}")

    def rows(self, key: str) -> list[_Table]:
        found = self.take(key, list, [])
        if not all(isinstance(row, dict) for row in found):
            raise ToolError(f"{self.where}: {key} is no list of tables; correct it.")
        return [_Table(row, f"{self.where}: {key}") for row in found]

    def done(self) -> None:
        if self.left:
            raise ToolError(f"{self.where}: nothing reads {min(self.left)!r}; correct it.")


def _policy(name: str, top: _Table) -> Policy:
    about, title, size = top.table("upstream"), top.table("title"), top.table("size")
    ai, trailers = top.table("ai"), top.table("trailers", optional=True)
    duplicates, lint = top.table("duplicates"), top.table("lint", optional=True)
    skip, topics = lint.table("skip", optional=True), top.table("topics", optional=True)
    disclose = ai.take("disclose", bool)
    policy = Policy(
        name=name,
        url=about.take("url", str),
        sign_off=about.take("sign_off", bool),
        title=re.compile(title.take("pattern", str)),
        example=title.take("example", str),
        lines=size.take("lines", int),
        lines_without=size.texts("without"),
        lines_note=size.take("note", str),
        disclose=disclose,
        statement=ai.take("statement", str, None if disclose else ""),
        ai_trailer=ai.take("trailer", str, ""),
        forbidden=trailers.texts("forbidden"),
        duplicates=duplicates.take("note", str),
        sections=tuple(_section(row) for row in top.rows("section")),
        paths=tuple(_path(row) for row in top.rows("path")),
        lint_config=lint.take("config", str, ""),
        hooks=tuple(_hook(row) for row in lint.rows("hook")),
        skipped_hooks={hook: skip.take(hook, str) for hook in list(skip.left)},
        topics={topic: _topic(topics.table(topic)) for topic in list(topics.left)},
    )
    for table in (about, title, size, ai, trailers, duplicates, lint, top):
        table.done()
    return policy


def _section(row: _Table) -> Section:
    section = Section(row.take("title", str), row.texts("content"), row.take("write", str, ""))
    row.done()
    unknown = [word for word in section.content if word not in CONTENT]
    if unknown:
        raise ToolError(
            f"{row.where}: {unknown[0]!r} is no content; a section holds any of "
            f"{', '.join(CONTENT)}."
        )
    return section


def _path(row: _Table) -> tuple[str, str]:
    pair = (row.take("from", str), row.take("to", str))
    row.done()
    return pair


def _hook(row: _Table) -> Hook:
    hook = Hook(
        row.take("id", str), row.take("package", str), row.take("entry", str), row.texts("types_or")
    )
    row.done()
    return hook


def _topic(row: _Table) -> Topic:
    topic = Topic(
        row.take("title", str, ""),
        row.take("summary", str, ""),
        row.texts("results"),
        row.texts("numbers"),
    )
    row.done()
    return topic
