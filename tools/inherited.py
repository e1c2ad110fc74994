"""Run a patch's tests, of which some stand in a file of upstream's own and fail there as well.

A test that fails on the pristine tree, for want of a network or of a GPU, says nothing of a patch
that edits another one in its file. So of such a file only those tests count that pass there, that
the patch adds, or whose outcome it changes; what is left out is named.
"""

from __future__ import annotations

from pathlib import Path

from tools.lock import Lock
from tools.prefixes import Importer
from tools.say import say
from tools.testrun import Runner, Subject
from tools.verdict import PASSED, Run


def run(runner: Runner, build: Importer, base: Lock, subject: Subject, log: Path) -> Run:
    """Run tests, and those of upstream's own that failed once more on the pristine tree."""
    build.move(base, subject.product)
    done = runner.run(subject, build.folder, log)
    suspects = _upstreams(runner, base, done) if subject.wanted == PASSED else ()
    if not suspects:
        return done
    say(f"tests: {len(suspects)} file(s) of upstream's own, on the pristine tree ...")
    there = Subject(base.base_tree, base.base_tree, suspects, PASSED)
    build.move(base, base.base_tree)
    before = runner.recall(there)
    if before is None:
        before = runner.run(there, build.folder, log.with_stem(f"{log.stem}-pristine"))
    return runner.keep(subject, done.leave_out(before.failures))


def _upstreams(runner: Runner, base: Lock, done: Run) -> tuple[str, ...]:
    """Return the files of failed tests that are in the pristine tree."""
    paths = dict.fromkeys(name.partition("::")[0] for name in done.failures)
    return tuple(path for path in paths if runner.git.blob(base.base_tree, path))


def lines(done: Run) -> list[str]:
    """Return a line for each test that was left out."""
    return [
        f"left out: {name}, which fails on the pristine tree as well: {why}"
        for name, why in done.left_out.items()
    ]
