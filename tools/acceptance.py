"""``tests/promotion.toml``: what must be shown of the series, and where the evidence lies."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import testids
from tools.errors import UsageError
from tools.project import Project

FILE = "tests/promotion.toml"
BOUNDS = ("is", "least", "most", "holds")
HOSTS = ("cpu", "gpu")
KEYS = {
    "requirement": {"id", "topic", "statement", *HOSTS, "json", "targets", "ratios"},
    "json": {"file", "key", *BOUNDS},
    "ratios": {"file", "rows", "field", "of", "over", "by", "where", "least", "most"},
    "file": {"needs", "command", "real"},
}


@dataclass(frozen=True)
class Source:
    """A file of bench/results, and the host and command that make it."""

    name: str
    needs: str
    command: str
    real: bool = False  # of a model of one's own


@dataclass(frozen=True)
class Requirement:
    """One line of the list."""

    id: str
    topic: str
    statement: str
    cpu: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    json: tuple[dict[str, Any], ...] = ()
    targets: tuple[str, ...] = ()
    ratios: tuple[dict[str, Any], ...] = ()

    def tests(self) -> tuple[str, ...]:
        return self.cpu + self.gpu


@dataclass(frozen=True)
class Acceptance:
    """The whole list."""

    requirements: tuple[Requirement, ...]
    sources: dict[str, Source]

    def units(self) -> list[str]:
        """Test files that a CPU runs, one run each; the engine's tests share their runs."""
        files = (name.partition("::")[0] for one in self.requirements for name in one.cpu)
        found = dict.fromkeys(ENGINE if path.startswith(f"{ENGINE}/") else path for path in files)
        return sorted(found, key=lambda path: path == ENGINE)  # the longest last


ENGINE = "tests/engine"


def load(project: Project) -> Acceptance:
    """Read the list; every name in it must be that of something."""
    path = project.root / FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{FILE} cannot be read ({error}); correct it.") from None
    found = _parse(table)
    wrong = problems(project.root, found)
    if wrong:
        raise UsageError(f"{FILE}: {wrong[0]}; correct it.")
    return found


def _parse(table: dict[str, Any]) -> Acceptance:
    try:
        sources = {
            name: Source(name, **_only("file", row, name))
            for name, row in table.get("file", {}).items()
        }
        requirements = tuple(_requirement(row) for row in table["requirement"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{FILE} lacks a field, or has one of another kind ({error}).") from None
    return Acceptance(requirements, sources)


def _requirement(row: dict[str, Any]) -> Requirement:
    fields: Any = _only("requirement", row, row["id"])
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return Requirement(**fields | lists)


def _only(kind: str, row: dict[str, Any], name: str) -> dict[str, Any]:
    unknown = sorted(row.keys() - KEYS[kind])
    if unknown:
        raise UsageError(f"{FILE}: {name}: nothing reads {unknown[0]!r}; correct it.")
    return row


def problems(root: Path, found: Acceptance) -> list[str]:
    """Return what names nothing, or says nothing."""
    wrong = []
    ids = [one.id for one in found.requirements]
    wrong += [f"{name} occurs twice" for name in dict.fromkeys(ids) if ids.count(name) > 1]
    named = dict.fromkeys(name for one in found.requirements for name in one.tests())
    wrong += [f"no test is called {name}" for name in testids.unknown(root, list(named))]
    targets = _targets(root)
    for one in found.requirements:
        evidence = (*one.tests(), *one.json, *one.targets, *one.ratios)
        if one.gpu and "tests" not in found.sources:
            wrong.append(f"{one.id} has tests of a GPU, and no [file.tests] says what runs them")
        if not evidence:
            wrong.append(f"{one.id} names no evidence")
        wrong += [
            f"{one.id}: no target is called {name!r}" for name in one.targets if name not in targets
        ]
        for kind, rows in (("json", one.json), ("ratios", one.ratios)):
            wrong += [f"{one.id}: {text}" for row in rows for text in _row(kind, row, found)]
    return wrong


def _row(kind: str, row: dict[str, Any], found: Acceptance) -> list[str]:
    needed = KEYS[kind] - {*BOUNDS, "where"}
    wrong = [f"an entry of {kind} lacks {key!r}" for key in sorted(needed - row.keys())]
    wrong += [f"nothing reads {key!r}" for key in sorted(row.keys() - KEYS[kind])]
    if len(row.keys() & set(BOUNDS)) != 1:
        wrong.append(f"an entry of {kind} must have one of {', '.join(BOUNDS)}")
    if row.get("file", "") not in found.sources:
        wrong.append(f"no [file.{row.get('file')}] says what makes it")
    return wrong


def _targets(root: Path) -> set[str]:
    path = root / "bench" / "targets.toml"
    if not path.is_file():
        return set()
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {row["name"] for row in table["target"]}
