"""Patches to commits and back, on the object store alone.

Nothing here touches a work tree: a kill at any point leaves loose objects and no more.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools import patchfile
from tools.errors import ToolError
from tools.git import Git
from tools.lock import Lock, Step
from tools.patchfile import Ident, Patch

# The committer is fixed, so that the same patches give the same commit ids anywhere.
COMMITTER = ("Patch series", "series@localhost")
# Carries the file name through rebases. It is stripped on export.
TRAILER = "Series-Patch"
# A new commit may name its folder; the file name says it from then on.
TOPIC_LINE = re.compile(r"^Topic:[ \t]*(.*)\n?", re.MULTILINE)
TRAILER_LINE = re.compile(rf"^{TRAILER}:[ \t]*(.*)\n?", re.MULTILINE)
HEADER = re.compile(r"(?P<name>.*) <(?P<mail>.*)> (?P<epoch>\d+) (?P<zone>[+-]\d{4})\Z")

# What git says of a file that is no whole patch, as against one that does not fit.
DAMAGE = ("corrupt patch", "unexpected end", "No valid patches", "patch fragment without header")

DIFF_FLAGS = (
    "-p",
    "--binary",
    "--full-index",  # abbreviations grow with the repository; --binary leaves text's short
    "--no-renames",  # quilt cannot follow a rename
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    # diff-tree ignores the user's diff.* settings; these hold git to today's defaults.
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--no-relative",
    "-O/dev/null",
    "--ignore-submodules=none",
)


@dataclass(frozen=True)
class Commit:
    """A commit of the stack, read back."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Ident
    message: str

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]

    @property
    def short(self) -> str:
        return f"{self.id[:10]} ({self.subject})"


def make_commit(
    git: Git, tree: str, parent: str | None, author: Ident, message: str, committed: int
) -> str:
    """Write a commit whose id depends on its arguments only."""
    stamp = f"{committed} +0000"
    extra = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.mail,
        "GIT_AUTHOR_DATE": f"{author.epoch} {author.zone}",
        "GIT_COMMITTER_NAME": COMMITTER[0],
        "GIT_COMMITTER_EMAIL": COMMITTER[1],
        "GIT_COMMITTER_DATE": stamp,
    }
    parents = ["-p", parent] if parent else []
    return git.out("commit-tree", *parents, tree, stdin=message.encode(), extra=extra)


def read_commit(git: Git, name: str) -> Commit:
    """Parse one commit."""
    raw = git.raw("cat-file", "commit", name).decode("utf-8", errors="surrogateescape")
    head, _, message = raw.partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    match = HEADER.match(fields["author"][0])
    if not match:
        raise ToolError(f"commit {name}: cannot read the author {fields['author'][0]!r}.")
    author = Ident(match["name"], match["mail"], int(match["epoch"]), match["zone"])
    return Commit(name, fields["tree"][0], tuple(fields.get("parent", ())), author, message)


def with_name(message: str, name: str) -> str:
    """Add the trailer that carries the file name."""
    message = message.rstrip("\n")
    body = message.partition("\n\n")[2]
    gap = "\n" if body and patchfile.trailers(body) else "\n\n"
    return f"{message}{gap}{TRAILER}: {name}\n"


def split_name(commit: Commit) -> tuple[str, str | None]:
    """Take the file name out of a commit's message."""
    names = {value.strip() for value in TRAILER_LINE.findall(commit.message)}
    if len(names) > 1:
        raise ToolError(
            f"commit {commit.short} names several patches ({', '.join(sorted(names))}); "
            f"keep one {TRAILER} line with git commit --amend."
        )
    return TRAILER_LINE.sub("", commit.message), names.pop() if names else None


def import_patch(git: Git, parent: str, name: str, data: bytes) -> tuple[Patch, str, str]:
    """Turn one patch file into a commit; return the patch, its tree and commit."""
    patch = patchfile.read(data, name)
    old = git.tree(parent)
    with tempfile.TemporaryDirectory(prefix="series-index-") as folder:
        index = git.with_index(Path(folder) / "index")
        index.raw("read-tree", old)
        # Offsets are possible here, fuzz is not; the round trip in verify finds offsets.
        done = index.call("apply", "--cached", "--whitespace=nowarn", "-p1", "-", stdin=data)
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip().replace("error: ", "")
            why = "; ".join(why.splitlines())
            if any(word in why for word in DAMAGE):
                raise ToolError(f"{name} is damaged ({why}); restore it from git or its author.")
            raise ToolError(
                f"{name} does not apply to the patches before it ({why}); "
                f"correct the order in series, or rework the patch."
            )
        tree = index.out("write-tree")
    if tree == old:
        raise ToolError(f"{name} changes nothing; remove it from the series.")
    message = with_name(patch.message, name)
    commit = make_commit(git, tree, parent, patch.author, message, patch.author.epoch)
    return patch, tree, commit


def export_commit(git: Git, commit: Commit) -> Patch:
    """Turn one commit into a patch."""
    if len(commit.parents) != 1:
        raise ToolError(
            f"commit {commit.short} is a merge; rebase the branch so that it is linear."
        )
    message, _ = split_name(commit)
    message = patchfile.clean_message(TOPIC_LINE.sub("", message))
    subject, _, rest = message.partition("\n")
    if rest and not rest.startswith("\n"):
        raise ToolError(
            f"commit {commit.short}: the subject must be one line with a blank line below; "
            f"amend it."
        )
    body = rest.strip("\n")
    if re.search(r"^(---$|diff --git )", body, re.MULTILINE):
        raise ToolError(
            f"commit {commit.short}: the message holds a line '---' or 'diff --git', "
            f"which would end it in a patch file; amend it."
        )
    diff = git.raw("diff-tree", *DIFF_FLAGS, commit.parents[0], commit.id)
    if not diff:
        raise ToolError(f"commit {commit.short} changes nothing; drop it.")
    return Patch(commit.author, subject, body, diff)


def patch_id(git: Git, diff: bytes) -> str:
    """Return git's stable patch id: equal for the same change elsewhere."""
    return git.out("patch-id", "--stable", stdin=diff).split(" ")[0]


def lay(git: Git, parent: str, name: str, data: bytes) -> Step:
    """Import one patch of a series."""
    patch, tree, commit = import_patch(git, parent, name, data)
    return Step(name, patchfile.digest(data), patch_id(git, patch.diff), tree, commit)


def build(git: Git, base: str, files: list[tuple[str, bytes]]) -> Lock:
    """Import a whole series; return the chain it gives."""
    steps: list[Step] = []
    for name, data in files:
        steps.append(lay(git, steps[-1].commit if steps else base, name, data))
    return Lock(git.tree(base), base, tuple(steps))
