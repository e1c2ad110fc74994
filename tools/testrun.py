"""Run tests of a tree over a CPU build, interpreted; remember what came out as it had to."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from tools import environment, files
from tools.environment import Environment
from tools.errors import ToolError
from tools.git import Git
from tools.project import Project
from tools.verdict import ABORTED, FAILED, Run, judge

FOLDER = "tests"
MEMORY = "prove"  # in the cache
LIMIT = 3600  # seconds of one run, unless told otherwise
FORMAT = 1  # raise it when a record means something else


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Let a command line say how long one run may take."""
    parser.add_argument(
        "--limit",
        type=int,
        metavar="SECONDS",
        default=LIMIT,
        help="give a run up after this time (default: %(default)s)",
    )


@dataclass(frozen=True)
class Subject:
    """Which tests run over which product; both as trees of one repository."""

    product: str
    tests: str
    paths: tuple[str, ...]
    wanted: str  # PASSED: all of them; FAILED: the first failure ends the run
    without: tuple[str, ...] = ()  # tests whose failure does not count


def own(git: Git, tree: str, touched: tuple[str, ...]) -> tuple[str, ...]:
    """Return the test files among the paths a patch touches and leaves there."""
    return tuple(path for path in touched if is_test(path) and git.blob(tree, path))


def is_test(path: str) -> bool:
    """Say whether pytest would take a file for one of tests."""
    name = PurePosixPath(path).name
    return path.startswith(f"{FOLDER}/") and bool(re.fullmatch(r"test_.*\.py|.*_test\.py", name))


class Runner:
    """Runs tests in one environment, in its own process group, with a log for each run."""

    def __init__(self, project: Project, git: Git, env: Environment, limit: int) -> None:
        self.project = project
        self.git = git
        self.env = env
        self.limit = limit
        self.script = project.root / "ci" / "interpreted.py"
        self.harness = _harness(project.root, self.script)

    def recall(self, subject: Subject) -> Run | None:
        """Return what is remembered of a run; anything but the wanted outcome never is."""
        path = self._record(subject)
        try:
            row = json.loads(path.read_bytes())
            if (row["key"], row["run"]["outcome"]) != (path.name, subject.wanted):
                return None
            return replace(Run(**row["run"]), remembered=True)
        except (OSError, ValueError, KeyError, TypeError):
            return None  # not there, or half a file of somebody's full disk

    def run(self, subject: Subject, build: Path, log: Path) -> Run:
        """Run tests over a build that holds the product already."""
        with tempfile.TemporaryDirectory(prefix=".prove-", dir=self.project.cache) as scratch:
            tree = Path(scratch) / "tree"
            lay_out(self.git, subject.tests, tree)
            done = self._pytest(subject, build, tree, Path(scratch) / "report.xml", log)
        return self.keep(subject, done.leave_out(subject.without))

    def keep(self, subject: Subject, done: Run) -> Run:
        """Remember a run if it came out as it had to."""
        if done.outcome == subject.wanted:
            path = self._record(subject)
            row = {"key": path.name, "run": asdict(done)}
            files.write(path, (json.dumps(row, indent=1) + "\n").encode())
        return done

    def _pytest(self, subject: Subject, build: Path, tree: Path, report: Path, log: Path) -> Run:
        argv = [sys.executable, str(self.script), str(self.env.folder), str(build), str(tree)]
        argv += [str(tree / path) for path in subject.paths]
        # A stray __init__.py above the tree would make that folder a package to import.
        argv += [
            f"--confcutdir={tree}",
            f"--junitxml={report}",
            # The first failure may be one that does not count.
            *(["-x"] if subject.wanted == FAILED and not subject.without else []),
        ]
        start = time.monotonic()
        code = leashed(argv, log, self.limit)
        seconds = round(time.monotonic() - start, 1)
        if code is None:
            return Run(ABORTED, seconds, reason=f"it took longer than {self.limit} s")
        return replace(judge(code, report, subject.paths), seconds=seconds)

    def _record(self, subject: Subject) -> Path:
        pin = self.project.pin
        parts = [FORMAT, subject.wanted, subject.product, self.git.tree(f"{subject.tests}:tests")]
        parts += [*subject.paths, self.env.identity, pin.wheel.sha256, pin.cpu_wheel.sha256]
        parts += [list(subject.without)] if subject.without else []
        text = json.dumps([*parts, self.harness])
        return self.project.cache / MEMORY / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def leashed(
    argv: list[str],
    log: Path,
    limit: int,
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> int | None:
    """Run a command that ends with this process; return its exit code, None past the limit."""
    leash = [sys.executable, "-P", str(Path(__file__).with_name("leash.py"))]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        # A group of its own: an interrupt, the limit or a kill must end pytest as well.
        # Unless told otherwise, without what steers pytest.
        child = subprocess.Popen(  # noqa: S603 - this project's own scripts
            [*leash, *argv],
            stdin=subprocess.PIPE,  # the leash
            stdout=out,
            stderr=out,
            env=environment.variables("PYTEST_") if variables is None else variables,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


def lay_out(git: Git, tree: str, folder: Path) -> None:
    """Write the tests of a tree into a new folder."""
    folder.mkdir()
    with tempfile.TemporaryDirectory(prefix="series-index-") as scratch:
        view = git.with_index(Path(scratch) / "index", folder)
        view.raw("read-tree", f"--prefix={FOLDER}/", f"{tree}:{FOLDER}")
        view.raw("checkout-index", "--all")


def need(project: Project, env: Environment) -> None:
    """Stop when tests cannot run at all."""
    if not env.python.is_file():
        raise ToolError(
            f"{project.short(env.folder)} is not there, and tests run in it; run `make env` (8 GB)."
        )


def _harness(root: Path, script: Path) -> str:
    paths = [script, *(root / "tests" / "harness").glob("*.py")]
    return files.digest({path.relative_to(root).as_posix(): path.read_bytes() for path in paths})
