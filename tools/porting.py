"""What a branch in another repository's layout still imports from the one it comes from."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tools.git import Git


@dataclass(frozen=True)
class Import:
    """One import that the target cannot satisfy."""

    path: str
    line: int
    module: str
    names: tuple[str, ...]

    def text(self) -> str:
        names = f" ({', '.join(self.names)})" if self.names else ""
        return f"{self.path}:{self.line}: {self.module}{names}"


def remaining(git: Git, tip: str, roots: tuple[str, ...]) -> list[Import]:
    """Return the imports of packages that the target lacks, in every Python file of a branch."""
    found: list[Import] = []
    for path in git.zlist("ls-tree", "-r", "-z", "--name-only", "--full-tree", tip):
        if path.endswith(".py"):
            source = git.raw("cat-file", "blob", f"{tip}:{path}")
            found += _imports(path, ast.parse(source, path), roots)
    return found


def _imports(path: str, tree: ast.Module, roots: tuple[str, ...]) -> list[Import]:
    found: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [
                Import(path, node.lineno, alias.name, ())
                for alias in node.names
                if alias.name.partition(".")[0] in roots
            ]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module.partition(".")[0] in roots:
                names = tuple(alias.name for alias in node.names)
                found.append(Import(path, node.lineno, module, names))
    return sorted(found, key=lambda one: one.line)
