"""Carry one patch to another tree by a three-way merge, on the object store alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools import stack
from tools.errors import ToolError
from tools.git import Git
from tools.patchfile import Ident

CLEAN = "clean"
CONTEXT = "context only"
CONTENT = "content changed"
RENAMED = "source renamed"
CONFLICT = "conflict"
DELETED = "source deleted"
MERGED = "merged upstream"
RETIRED = "retired"
CORRUPT = "corrupt"

WHO = Ident(stack.COMMITTER[0], stack.COMMITTER[1], 1_000_000_000, "+0000")
HUNK = re.compile(rb"^@@ [^@]* @@.*$", re.MULTILINE)
INDEX = re.compile(rb"^index [0-9a-f]+\.\.[0-9a-f]+", re.MULTILINE)

# What of a diff is change: in a hunk, and above the first.
BODY = (b"+", b"-", b"\\")
MODES = (b"old mode ", b"new mode ", b"new file ", b"deleted file ")


@dataclass(frozen=True)
class Outcome:
    """What a merge gave: a tree, or the paths that conflict."""

    tree: str
    conflicts: tuple[str, ...] = ()


def merge(git: Git, old: str, onto: str) -> Outcome:
    """Lay a commit over another one; upstream's side is that one, the base its parent."""
    # merge-tree looks for the base itself: a commit with our tree and the patch's parent
    # leaves it no choice.
    ours = stack.make_commit(git, git.tree(onto), f"{old}^", WHO, "", WHO.epoch)
    done = git.call("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, old)
    if done.returncode > 1:
        raise ToolError(f"git cannot merge ({done.stderr.decode(errors='replace').strip()}).")
    tree, *paths = done.stdout.decode(errors="surrogateescape").rstrip("\0").split("\0")
    return Outcome(tree, tuple(dict.fromkeys(paths)) if done.returncode else ())


def commit(git: Git, old: str, tree: str, onto: str, message: str = "") -> str:
    """Make the commit of a carried patch: author and message are the old one's."""
    before = stack.read_commit(git, old)
    text = message or before.message
    return stack.make_commit(git, tree, onto, before.author, text, before.author.epoch)


def classify(git: Git, old: str, new: str) -> str:
    """Say how a carried patch differs from what it was."""
    before, after = (git.raw("diff-tree", *stack.DIFF_FLAGS, f"{one}^", one) for one in (old, new))
    if _plain(before) == _plain(after):
        return CLEAN
    old_paths, new_paths = paths(git, old), paths(git, new)
    if old_paths != new_paths and _changes(before) == _changes(after):
        return RENAMED
    if old_paths == new_paths and _changes(before, paths=True) == _changes(after, paths=True):
        return CONTEXT
    return CONTENT


def paths(git: Git, commit: str) -> list[str]:
    """Return the files that a commit changes."""
    return git.changed(f"{commit}^", commit)


def _plain(diff: bytes) -> bytes:
    """Drop what moves without the patch: line numbers, section headings, blob ids."""
    return INDEX.sub(b"index", HUNK.sub(b"@@", diff))


def _changes(diff: bytes, *, paths: bool = False) -> list[bytes]:
    """Return the added and removed lines, with the files they belong to if asked."""
    kept: list[bytes] = []
    inside = False
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --git "):
            inside = False
            if paths:
                kept.append(line)
        elif line.startswith(b"@@ "):
            inside = True
        elif line.startswith(BODY if inside else MODES):
            kept.append(line)
    return kept
