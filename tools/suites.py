"""Run files of tests over the CPU build, each once; keep what became of each test by its id."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools import cpu, environment, files, junit, testrun, verdict
from tools.acceptance import ENGINE
from tools.environment import Environment
from tools.errors import ToolError
from tools.project import Project
from tools.say import say

MEMORY = "promotion"  # in the cache
FORMAT = 1  # raise it when a record means something else
# What tests are made of besides the series: those of the patches, and more in the engine's.
HARNESS = ("ci/interpreted.py", "tests/harness/*.py")
PARTS = ("bench/*.py", *(f"tests/{name}/*.py" for name in ("engine", "gpu", "soak", "tinymodel")))
FACTS = "import json, host; print(json.dumps(host.facts()))"


class Suites:
    """Runs the units of the list in the test environment, and remembers those that passed."""

    def __init__(self, project: Project, env: Environment, build: Path, limit: int) -> None:
        self.project, self.env, self.build, self.limit = project, env, build, limit
        self.facts = host_facts(project, env, build)
        self.key = [FORMAT, self.facts["series_id"], env.identity]

    def run(self, unit: str) -> dict[str, Any]:
        """Return the run of a unit, as a ledger has it; a remembered one if all passed."""
        record = self._record(unit)  # named before it runs: its files may change meanwhile
        try:
            known: dict[str, Any] = json.loads(record.read_bytes())
        except (OSError, ValueError):
            known = {}  # not there, or half a file of somebody's full disk
        if known.get("unit") == unit:
            say(f"promotion: {unit}: {summary(known)}, as remembered")
            return known
        log = self.project.cache / "logs" / f"promotion-{unit.replace('/', '-')}.log"
        say(f"promotion: {unit}: running; what pytest says is in {self.project.short(log)}")
        found = self.execute(unit, log)
        say(f"promotion: {unit}: {summary(found)}")
        if found["outcome"] == verdict.PASSED:
            files.write(record, (json.dumps(found) + "\n").encode())
        return found

    def execute(self, unit: str, log: Path) -> dict[str, Any]:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=".promotion-", dir=self.project.cache) as scratch:
            report = Path(scratch) / "report.xml"
            code = testrun.leashed(
                [*self._command(unit), f"--junitxml={report}", *junit.OPTIONS],
                log,
                self.limit,
                environment.variables("PYTEST_") | self._variables(),
                self.project.root,
            )
            done = verdict.Run(verdict.ABORTED, 0, reason=f"it took longer than {self.limit} s")
            if code is not None:
                done = verdict.judge(code, report)
            folders = (self.project.checkout, self.project.root)
            found = junit.counts(report, self._rootdir(unit), folders)
        if done.outcome == verdict.ABORTED:
            found = {}  # half a report, or one that the exit code gainsays
        return {
            "on": "cpu", "unit": unit, "host": self.facts, "outcome": done.outcome,
            "reason": done.reason, "seconds": round(time.monotonic() - start, 1), "tests": found,
        }  # fmt: skip

    def _rootdir(self, unit: str) -> Path:
        return self.project.root if unit == ENGINE else self.project.checkout

    def _command(self, unit: str) -> list[str]:
        if unit == ENGINE:
            return [str(self.env.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", ENGINE]
        script = self.project.root / "ci" / "interpreted.py"
        tree = self.project.checkout
        return [
            sys.executable, str(script), str(self.env.folder), str(self.build), str(tree),
            str(tree / unit),
        ]  # fmt: skip

    def _variables(self) -> dict[str, str]:
        return {
            "GDNWINDOW_CPU_BUILD": str(self.build),
            "GDNWINDOW_CACHE": str(self.project.cache),
        }

    def _record(self, unit: str) -> Path:
        more = PARTS if unit == ENGINE else ()
        made_of = _made_of(self.project.root, (*HARNESS, *more))
        text = json.dumps([*self.key, unit, made_of])
        return self.project.cache / MEMORY / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def host_facts(project: Project, env: Environment, build: Path) -> dict[str, Any]:
    """Ask the product what it is: the series of what ran, not that of the lock."""
    done = env.run("-c", FACTS, path=[build, project.root / "bench"], cwd=project.root)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise ToolError(f"the CPU build does not say what it is ({last}); run `make env` again.")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {**found, "cpu": _cpu(), "cores": len(os.sched_getaffinity(0))}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else ""


def summary(run: dict[str, Any]) -> str:
    good, bad, skipped = junit.totals(run["tests"])
    reason = f" ({run['reason']})" if run["reason"] else ""
    text = f"{run['outcome']}{reason}; {good} passed, {bad} failed, {skipped} skipped"
    return f"{text}; {run['seconds']:.0f} s"


def _made_of(root: Path, patterns: tuple[str, ...]) -> str:
    paths = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    return files.digest({path.relative_to(root).as_posix(): path.read_bytes() for path in paths})


def prepare(project: Project, limit: int) -> Suites:
    """Return what runs the units; the environment must be there."""
    env = environment.default(project)
    testrun.need(project, env)
    return Suites(project, env, cpu.unpacked(project), limit)
