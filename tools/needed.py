"""Is a patch still needed? What a newer pristine tree says of the lines it adds."""

from __future__ import annotations

import io
from dataclasses import dataclass

from unidiff.patch import PatchSet

from tools import collisions, patchfile
from tools.git import Git

# Tests are written anew by whoever takes a change up: only the code tells.
TESTS = "tests/"


@dataclass(frozen=True)
class Trace:
    """How much of what a patch adds a newer tree has, beyond what the pin had already."""

    added: int
    there: int

    @property
    def merged(self) -> bool:
        return self.added > 0 and self.there == self.added

    def text(self, version: str) -> str:
        if not self.added:
            return "cannot be told: it adds no line that the pinned release lacks"
        if self.merged:
            return f"looks merged in {version}: all of its {self.added} lines are there"
        if self.there:
            return f"needed: {self.there} of its {self.added} lines are in {version}"
        return f"needed: none of its {self.added} lines is in {version}"


def trace(git: Git, content: bytes, name: str, old: str, new: str) -> Trace:
    """Look for the lines of a patch in a newer tree, each in its own file."""
    diff = patchfile.read(content, name).diff.decode(errors="replace")
    added = there = 0
    for file in PatchSet(io.StringIO(diff, newline="")):
        if file.path.startswith(TESTS):
            continue
        lines = {line.value.strip() for hunk in file for line in hunk if line.is_added}
        before, after = _lines(git, old, file.path), _lines(git, new, file.path)
        # What the pinned release says already, anywhere in the file, is no trace of the patch.
        fresh = {line for line in lines if collisions.telling(line)} - before
        added += len(fresh)
        there += len(fresh & after)
    return Trace(added, there)


def _lines(git: Git, tree: str, path: str) -> set[str]:
    blob = git.blob(tree, path)
    if not blob:
        return set()
    text = git.raw("cat-file", "blob", blob).decode(errors="replace")
    return {line.strip() for line in text.split("\n")}
