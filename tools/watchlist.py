"""``vendor/watch.toml``: upstream's work that would replace or break a patch."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from typing import Any

from tools.errors import ToolError
from tools.git import Git
from tools.project import Project

FILE = "watch.toml"
STATES = ("open", "merged", "closed")
FIELDS = ("number", "title", "url", "state", "seen", "note", "replaces", "breaks", "signs")


@dataclass(frozen=True)
class Sign:
    """A text that stands in a file of a release once the work is in it."""

    path: str
    text: str


@dataclass(frozen=True)
class Pull:
    """One pull request, with what was last known of it and when."""

    number: int
    title: str
    url: str
    state: str
    seen: date
    note: str
    replaces: tuple[str, ...]
    breaks: tuple[str, ...]
    signs: tuple[Sign, ...]


def load(project: Project) -> list[Pull]:
    """Read the list and check its shape."""
    path = project.vendor / FILE
    where = project.short(path)
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("pull", [])
    except FileNotFoundError:
        raise ToolError(f"{where} is missing; restore it with git checkout.") from None
    except tomllib.TOMLDecodeError as error:
        raise ToolError(f"{where} is not valid TOML ({error}); correct it.") from None
    return [_pull(row, where) for row in rows]


def _pull(row: dict[str, Any], where: str) -> Pull:
    name = f"{where}: pull {row.get('number', '?')}"
    try:
        unknown = sorted(row.keys() - set(FIELDS))
        if unknown:
            raise ToolError(f"{name} has a field {unknown[0]!r} that nothing reads; correct it.")
        pull = Pull(
            number=int(row["number"]),
            title=str(row["title"]),
            url=str(row["url"]),
            state=str(row["state"]),
            seen=row["seen"],
            note=str(row.get("note", "")),
            replaces=tuple(map(str, row.get("replaces", []))),
            breaks=tuple(map(str, row.get("breaks", []))),
            signs=tuple(Sign(**sign) for sign in row["signs"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ToolError(f"{name} lacks a field or has a wrong one ({error}); correct it.") from None
    if pull.state not in STATES or not isinstance(pull.seen, date):
        raise ToolError(
            f"{name}: state is one of {', '.join(STATES)}, and seen the date when it was."
        )
    return pull


def unknown(pull: Pull, names: list[str]) -> list[str]:
    """Return the words that name neither a patch nor a topic, which stands for all of its."""
    topics = {name.partition("/")[0] for name in names}
    return [word for word in (*pull.replaces, *pull.breaks) if word not in {*names, *topics}]


def landed(git: Git, tree: str, pull: Pull) -> bool:
    """Say whether every sign of the work stands in a tree."""
    return bool(pull.signs) and all(_stands(git, tree, sign) for sign in pull.signs)


def _stands(git: Git, tree: str, sign: Sign) -> bool:
    blob = git.blob(tree, sign.path)
    return blob is not None and sign.text.encode() in git.raw("cat-file", "blob", blob)
