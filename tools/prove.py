"""Prove each patch: its tests pass with it and fail without it.

For every prefix of the series: it applies, what the patch touches compiles and imports, the test
files that the patch adds or changes pass, and laid over the prefix before they fail. Of a file
that is upstream's own, tests that fail on the pristine tree as well are left out and named. A patch
without tests of its own is proven only if it says why: `Tests: none [reason]`. What came out as it
had to is remembered in the cache by both trees, the environment and the harness; anything else runs
again. The grid is printed, and written to out/prove.json.

exit codes: 0 all is proven, 1 something is not or the tests cannot run, 2 no such patch,
130 interrupted (what was finished is remembered)
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tools import (
    environment,
    files,
    grid,
    headers,
    inherited,
    outbox,
    patchfile,
    pick,
    prefixes,
    testrun,
    verify,
)
from tools.environment import Environment
from tools.errors import FINDINGS, OK, ToolError
from tools.grid import APPLIES, COMPILES, FAILS, IMPORTS, PASSES, Row
from tools.lock import Lock
from tools.prefixes import Importer, Prefix
from tools.project import Project
from tools.say import data, say
from tools.testrun import Runner, Subject
from tools.verdict import FAILED, PASSED, Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--patch", metavar="NAME", default="", help="one patch instead of all")
    parser.add_argument(
        "--env",
        type=Path,
        metavar="DIR",
        help="the environment tests run in (default: the one `make env` makes)",
    )
    testrun.add_limit(parser)


def run(project: Project, args: argparse.Namespace) -> int:
    env = environment.given(project, args.env)
    testrun.need(project, env)
    project.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="series-prove-") as scratch:
        git = verify.repository(project, Path(scratch))
        state = verify.State(project, git, verify.upstream_base(project, git))
        verify.listed(state)
        if state.broken:
            raise ToolError(f"{state.findings[-1]}; run `make verify`.")
        verify.applied(state)
        rows = _rows(state, args.patch)
        _prove(state, rows, Runner(project, git, env, args.limit))
        series_id = state.chain.series_id
    for line in grid.table(rows):
        data(line)
    findings = [finding for row in rows for finding in row.findings()]
    for finding in findings:
        data(finding)
    proven = sum(row.proven for row in rows)
    where = project.root / outbox.OUT / "prove.json"
    table = {"series_id": series_id, "rows": [grid.as_json(row) for row in rows]}
    files.write(where, (json.dumps(table, indent=1) + "\n").encode())
    say(f"prove: {proven} of {len(rows)} patches proven; {project.short(where)}")
    return OK if proven == len(rows) else FINDINGS


def _rows(state: verify.State, wanted: str) -> list[Row]:
    """Return a row for each patch asked for, with what applying says of it."""
    names = [name for name, _ in state.files]
    if wanted:
        names = [pick.find(names, wanted)]
    reached = [step.name for step in state.steps]
    # Patches behind the one that does not apply were not tried.
    stopped = len(reached) < len(state.files)
    culprit = state.files[len(reached)][0] if stopped else ""
    found = []
    for name, content in state.files:
        if name not in names:
            continue
        row = Row(name)
        if name in reached:
            row.untested = headers.without_tests(patchfile.read(content, name))
            row.set(APPLIES, good=True)
        elif name == culprit:
            row.set(APPLIES, good=False, note=state.findings[-1])
        found.append(row)
    return found


def _prove(state: verify.State, rows: list[Row], runner: Runner) -> None:
    """Fill in what each patch does after all of those before it."""
    git, chain = state.git, state.chain
    of = {prefix.name: prefix for prefix in prefixes.of(git, chain)}
    compiled = []
    for row in rows:
        if row.name in of:
            found = prefixes.compile_all(git, [of[row.name]])
            row.set(COMPILES, good=not found, note="; ".join(found))
            row.tests = testrun.own(git, of[row.name].tree, of[row.name].touched)
            compiled += [] if found else [row]
    _imports(state, compiled, of, runner.env)
    trees = [chain.base_tree, *(prefix.tree for prefix in of.values())]
    before = dict(zip(of, trees, strict=False))
    with prefixes.building(state.project, git, runner.env) as build:
        for row in compiled:
            if row.tests:
                tree = of[row.name].tree
                subject = Subject(tree, tree, row.tests, PASSED)
                done = _tests(runner, build, row, subject, chain.base)
                # What says nothing with the patch says nothing without it.
                subject = Subject(before[row.name], tree, row.tests, FAILED, tuple(done.left_out))
                _tests(runner, build, row, subject, chain.base)


def _imports(state: verify.State, rows: list[Row], of: dict[str, Prefix], env: Environment) -> None:
    wanted = [of[row.name] for row in rows]
    findings = prefixes.import_all(state.project, state.git, state.chain, wanted, env)
    for row in rows:
        mine = [line for line in findings if line.startswith(f"{row.name}: ")]
        good = not mine and prefixes.imported(state.project, state.git, of[row.name], env)
        note = "; ".join(mine) or "a module cannot be imported here before the series either"
        row.set(IMPORTS, good=good, note=note)


def _tests(runner: Runner, build: Importer, row: Row, subject: Subject, base: Lock) -> Run:
    column = FAILS if subject.wanted == FAILED else PASSES
    what = f"{row.name}: {'on the prefix before it' if column == FAILS else 'with the patch'}"
    log = _log(runner.project, row.name, column)
    done = runner.recall(subject)
    if done is None:
        say(f"prove: {what}: {len(row.tests)} test file(s) ...")
        done = inherited.run(runner, build, base, subject, log)
    row.ran(column, done)
    verdict = f"{done.passed} passed, {done.failed} failed, {done.skipped} skipped"
    known = ", as remembered" if done.remembered else ""
    reason = f" ({done.reason})" if done.reason else ""
    say(f"prove: {what}: {done.outcome}{reason}; {verdict}; {done.seconds:.1f} s{known}")
    if done.outcome != subject.wanted:
        say(f"prove: what pytest said is in {runner.project.short(log)}")
    return done


def _log(project: Project, name: str, column: str) -> Path:
    stem = name.removesuffix(".patch").replace("/", "-")
    return project.cache / "logs" / f"prove-{stem}-{column.replace(' ', '-')}.log"
