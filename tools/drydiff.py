"""A dry apply of somebody's diff: which of its hunks collide with which patches."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import stack, transplant
from tools.errors import ToolError
from tools.git import Git
from tools.rebase_state import Link

FILE = re.compile(rb"^diff --git .*\n", re.MULTILINE)
HUNK = re.compile(rb"^@@ [^\n]*\n", re.MULTILINE)
PATHS = re.compile(rb"^(?:---|\+\+\+) (?:[ab]/)?(?P<path>[^\t\n]+)", re.MULTILINE)
NAMES = re.compile(rb"diff --git a/(?P<old>.+) b/(?P<new>.+)\n")


@dataclass(frozen=True)
class Piece:
    """One hunk of a diff as a diff of its own; a new, moved or binary file is one piece."""

    path: str
    paths: tuple[str, ...]
    label: str
    diff: bytes


@dataclass(frozen=True)
class Finding:
    """What a piece does: to the pinned tree, and to the series over it."""

    piece: Piece
    fits: bool
    collides: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()  # patches of which nothing would be left
    beside: tuple[str, ...] = ()


def pieces(diff: bytes) -> list[Piece]:
    """Cut a diff into hunks that apply alone."""
    starts = [match.start() for match in FILE.finditer(diff)]
    if not starts:
        raise ToolError("the diff holds no 'diff --git' line; save the one that git or a pull "
                        "request page gives.")  # fmt: skip
    found: list[Piece] = []
    for start, end in zip(starts, [*starts[1:], len(diff)], strict=True):
        found += _file(diff[start:end])
    return found


def _file(section: bytes) -> Iterator[Piece]:
    starts = [match.start() for match in HUNK.finditer(section)]
    head = section[: starts[0]] if starts else section
    names = NAMES.match(section)
    paths = [names["old"], names["new"]] if names else []
    paths += [match["path"] for match in PATHS.finditer(head) if match["path"] != b"/dev/null"]
    every = tuple(dict.fromkeys(path.decode(errors="surrogateescape") for path in paths))
    whole = any(
        head.find(word) >= 0
        for word in (b"\nnew file ", b"\ndeleted file ", b"\nrename ", b"\ncopy ", b"\nGIT binary")
    )
    if whole or not starts:
        yield Piece(every[-1], every, "the whole file", section)
        return
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(section)], strict=True), 1):
        body = section[start:end]
        title = body.partition(b"\n")[0].decode(errors="replace")
        yield Piece(every[-1], every, f"hunk {number} of {len(starts)}, {title}", head + body)


def check(git: Git, base: str, links: list[Link], diff: bytes) -> list[Finding]:
    """Lay each piece alone under the series, and see which patches no longer merge."""
    touched = {link.name: set(transplant.paths(git, link.commit)) for link in links}
    return [_one(git, base, links, touched, piece) for piece in pieces(diff)]


def held(git: Git, base: str, links: list[Link], found: list[Finding]) -> list[str]:
    """Return the patches that all fitting pieces together hold: no piece alone holds two files."""
    at = base
    for one in found:
        at = (_lay(git, at, one.piece) if one.fits else None) or at
    names: list[str] = []
    for link in links:
        outcome = transplant.merge(git, link.commit, at)
        if outcome.tree == git.tree(at):
            names.append(link.name)
        elif not outcome.conflicts:
            at = transplant.commit(git, link.commit, outcome.tree, at)
    return names


def _one(
    git: Git, base: str, links: list[Link], touched: dict[str, set[str]], piece: Piece
) -> Finding:
    at = _lay(git, base, piece)
    if at is None:
        return Finding(piece, fits=False, beside=_beside(links, touched, piece))
    near = [link for link in links if touched[link.name] & set(piece.paths)]
    collides: list[str] = []
    holds: list[str] = []
    for link in near:
        outcome = transplant.merge(git, link.commit, at)
        if outcome.conflicts:
            collides.append(link.name)
        elif outcome.tree == git.tree(at):
            holds.append(link.name)
        else:
            at = transplant.commit(git, link.commit, outcome.tree, at)
    rest = tuple(link.name for link in near if link.name not in {*collides, *holds})
    return Finding(piece, True, tuple(collides), tuple(holds), rest)  # noqa: FBT003 - fits


def _beside(links: list[Link], touched: dict[str, set[str]], piece: Piece) -> tuple[str, ...]:
    return tuple(link.name for link in links if touched[link.name] & set(piece.paths))


def _lay(git: Git, base: str, piece: Piece) -> str | None:
    """Return the base with a piece applied, if it fits there without fuzz."""
    with tempfile.TemporaryDirectory(prefix="series-index-") as folder:
        index = git.with_index(Path(folder) / "index")
        index.raw("read-tree", git.tree(base))
        done = index.call("apply", "--cached", "--whitespace=nowarn", "-p1", "-", stdin=piece.diff)
        if done.returncode:
            return None
        tree = index.out("write-tree")
    return stack.make_commit(git, tree, base, transplant.WHO, "", transplant.WHO.epoch)
