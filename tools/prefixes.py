"""Prefix proof: after every patch the touched files compile and the modules import."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools import cpu, files
from tools.environment import Environment
from tools.errors import ToolError
from tools.git import Git
from tools.lock import Lock
from tools.project import Project
from tools.say import say

# One process imports all modules of a patch and says which ones failed, and how.
IMPORTER = """
import importlib, json, sys
failed = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"
with open(sys.argv[1], "w") as file:
    json.dump(failed, file)
"""


@dataclass(frozen=True)
class Prefix:
    """The series up to one patch, and the files that patch touches."""

    name: str
    tree: str
    touched: tuple[str, ...]


def of(git: Git, chain: Lock) -> list[Prefix]:
    """Return the prefixes of a series, the shortest first."""
    found: list[Prefix] = []
    before = chain.base_tree
    for step in chain.steps:
        found.append(Prefix(step.name, step.tree, tuple(git.changed(before, step.tree))))
        before = step.tree
    return found


def compile_all(git: Git, prefixes: list[Prefix]) -> list[str]:
    """Compile the Python files each patch touches."""
    findings: list[str] = []
    for prefix in prefixes:
        for path in prefix.touched:
            blob = git.blob(prefix.tree, path)
            if not path.endswith(".py") or not blob:
                continue
            try:
                compile(git.raw("cat-file", "blob", blob), path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                findings.append(f"{prefix.name}: {path} does not compile: {error}")
    return findings


def modules(package: str, git: Git, prefix: Prefix) -> list[str]:
    """Return the names of the package's modules that a patch touches and leaves there."""
    found: list[str] = []
    for path in prefix.touched:
        parts = PurePosixPath(path).with_suffix("").parts
        if parts[0] == package and path.endswith(".py") and git.blob(prefix.tree, path):
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


class Importer:
    """A CPU build that is moved from prefix to prefix."""

    def __init__(self, project: Project, git: Git, env: Environment, folder: Path) -> None:
        self.project = project
        self.git = git
        self.env = env
        self.folder = folder
        self.tree = ""

    def move(self, base: Lock, tree: str) -> None:
        """Bring the folder to a tree."""
        if not self.tree:
            with cpu.alone(self.project):
                cpu.unpack(self.project, self.git, base, self.folder)
            self.tree = base.base_tree
        for path in self.git.changed(self.tree, tree):
            target = self.folder / path
            blob = self.git.blob(tree, path)
            if not path.startswith(f"{self.project.pin.project}/"):
                continue
            # Python tells two versions apart by size and second: not enough between prefixes.
            for stale in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
                stale.unlink()
            if blob is None:
                target.unlink(missing_ok=True)
                self._sweep(target.parent)
            else:
                files.write(target, self.git.raw("cat-file", "blob", blob))
        self.tree = tree

    def _sweep(self, folder: Path) -> None:
        """Remove folders that are empty now: Python imports an empty one as a package."""
        for empty in (folder / "__pycache__", folder, *folder.parents):
            if empty == self.folder:
                return
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()

    def failures(self, names: list[str]) -> dict[str, str]:
        """Import modules in one process; return those that fail, with the reason."""
        with tempfile.TemporaryDirectory(prefix="series-import-") as scratch:
            answer = Path(scratch) / "answer.json"
            argv = ["-c", IMPORTER, str(answer), *names]
            done = self.env.run(*argv, path=[self.folder], cwd=Path(scratch))
            if not answer.is_file():
                last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
                return dict.fromkeys(names, f"the interpreter died: {last[0]}")
            return dict(json.loads(answer.read_bytes()))


@contextmanager
def building(project: Project, git: Git, env: Environment) -> Iterator[Importer]:
    """Give a CPU build that is made when it is first moved, and is gone afterwards."""
    project.cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".prefix-", dir=project.cache))
    try:
        yield Importer(project, git, env, scratch)
    finally:
        files.remove_tree(scratch)


def import_all(
    project: Project, git: Git, chain: Lock, prefixes: list[Prefix], env: Environment
) -> list[str]:
    """Import after every patch the modules it touches, in the CPU build."""
    package = project.pin.project
    wanted = {prefix.name: modules(package, git, prefix) for prefix in prefixes}
    memory = project.cache / "imports"
    fresh = [
        prefix
        for prefix in prefixes
        if wanted[prefix.name] and not _known(memory, project, prefix, wanted[prefix.name], env)
    ]
    known = sum(bool(names) for names in wanted.values()) - len(fresh)
    if known:
        say(f"imports: {known} prefix(es) passed before with the same files")
    if not fresh:
        return []
    findings: list[str] = []
    base = chain.base
    with building(project, git, env) as importer:
        everything = sorted({name for prefix in fresh for name in wanted[prefix.name]})
        importer.move(base, chain.base_tree)
        at_base = importer.failures([package, *everything])
        if package in at_base:
            raise ToolError(
                f"the pristine {package} cannot be imported in {env.folder} "
                f"({at_base[package]}); make the environment anew with `make env`."
            )
        for prefix in fresh:
            say(f"importing {len(wanted[prefix.name])} module(s) after {prefix.name}")
            importer.move(base, prefix.tree)
            failed = importer.failures(wanted[prefix.name])
            for name, why in failed.items():
                if at_base.get(name) == why:
                    # Not this series' doing, and worth knowing: nothing was proven here.
                    say(f"note: {name} cannot be imported here before the series either ({why})")
                else:
                    findings.append(f"{prefix.name}: import {name} fails: {why}")
            if not failed:
                files.write(memory / _key(project, prefix, wanted[prefix.name], env), b"")
    return findings


def imported(project: Project, git: Git, prefix: Prefix, env: Environment) -> bool:
    """Say whether all modules that a patch touches were seen to import after it."""
    names = modules(project.pin.project, git, prefix)
    return not names or _known(project.cache / "imports", project, prefix, names, env)


def _key(project: Project, prefix: Prefix, names: list[str], env: Environment) -> str:
    parts = [prefix.tree, project.pin.wheel.sha256, project.pin.cpu_wheel.sha256]
    text = "\n".join([*parts, str(env.folder), IMPORTER, *names])
    return hashlib.sha256(text.encode()).hexdigest()


def _known(
    memory: Path, project: Project, prefix: Prefix, names: list[str], env: Environment
) -> bool:
    return (memory / _key(project, prefix, names, env)).is_file()
