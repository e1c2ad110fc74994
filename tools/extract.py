"""Make a topic's patches, or one, a branch for an upstream pull request; never push.

In a clone of the pristine tree: those patches and the ones their `Depends:` name, without this
project's trailers and signed off by git's user, moved where the policy of the upstream
(policy/NAME.toml) says. Upstream's linters and the patches' own tests run over it, `git am` lays
its mails over the pristine tree again, and out/TOPIC/ (out/TOPIC-NAME/ for another upstream than
the pinned one) gets a bundle, the mails, COVER.md and evidence.json.

exit codes: 0 written, 1 written with findings (tests, linters), or refused, 2 no such topic, patch
or policy, 3 out/TOPIC/ holds edits
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools import (
    apply,
    branch,
    cover,
    environment,
    evidence,
    files,
    inherited,
    outbox,
    pick,
    policy,
    prefixes,
    testrun,
    upstream_lint,
)
from tools.branch import Branch
from tools.errors import FINDINGS, OK, ConflictError, UsageError
from tools.git import Git
from tools.lock import Lock
from tools.policy import Policy
from tools.project import Project
from tools.say import say
from tools.testrun import Runner, Subject
from tools.verdict import PASSED, Run

DEFAULT = "vllm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--topic", metavar="NAME", default="", help="a folder of patches/, or one patch"
    )
    parser.add_argument("--upstream", metavar="NAME", default=DEFAULT, help="whose policy to hold")
    parser.add_argument(
        "--assisted-by",
        metavar="TOOL",
        default="",
        help="name the AI tool in each commit, where the policy has a trailer for it",
    )
    parser.add_argument("--env", type=Path, metavar="DIR", help="the environment tests run in")
    parser.add_argument("--no-tests", action="store_true", help="run no tests, knowingly")
    parser.add_argument("--no-lint", action="store_true", help="run no linters, knowingly")


def run(project: Project, args: argparse.Namespace) -> int:
    rules = policy.load(project, args.upstream)
    if args.assisted_by and not rules.ai_trailer:
        raise UsageError(f"policy/{rules.name}.toml wants no tool named; leave ASSISTED_BY out.")
    series = apply.read_patches(project)
    picked = pick.pick(series, args.topic)
    who = branch.submitter(project)
    title = cover.title(rules, picked)  # what needs no clone is asked first
    env = environment.given(project, args.env)
    if not args.no_tests:
        testrun.need(project, env)
    project.cache.mkdir(parents=True, exist_ok=True)
    target = outbox.folder(project, rules, picked.name)
    with (
        files.only_one(target.with_name(f".{target.name}.lock")) as alone,
        tempfile.TemporaryDirectory(prefix=".extract-", dir=project.cache) as place,
    ):
        if not alone:
            raise ConflictError(f"another extract writes {project.short(target)}; wait for it.")
        outbox.stop_if_edited(project, target)
        scratch = Path(place)
        git, chain = branch.clone(project, series, picked, scratch / "clone")
        say(f"extract: {len(chain.steps)} patch(es) apply to the pristine tree")
        made = branch.clean(git, chain, rules, who, picked.name, args.assisted_by)
        draft = scratch / "out"
        draft.mkdir()
        mails = branch.write(made, draft)[1:]
        branch.check_mails(made, mails, scratch / "am")
        say(f"extract: git am lays {len(mails)} mail(s) to the same tree")
        found = evidence.of(project, series, picked, rules, made, chain)
        found |= {"title": title, "submitter": f"{who[0]} <{who[1]}>", "tool": args.assisted_by}
        found["lint"] = _lint(project, made, rules, scratch, skip=args.no_lint)
        found["tests"] = _tests(project, git, chain, rules, args, picked.name)
        found["findings"] = evidence.findings(found)
        found["open"] = evidence.left_open(found, rules)
        files.write(draft / "COVER.md", cover.Cover(rules, found).text().encode())
        outbox.finish(draft, found)
        outbox.stop_if_edited(project, target)  # the tests may have taken an hour
        outbox.place(draft, target)
    _tell(project, target, found)
    return FINDINGS if found["findings"] else OK


def _lint(
    project: Project, made: Branch, rules: Policy, scratch: Path, *, skip: bool
) -> list[dict[str, Any]]:
    if skip:
        left_out = upstream_lint.Verdict("all", upstream_lint.LEFT_OUT, "left out by LINT=0")
        return [asdict(left_out)]
    verdicts = upstream_lint.run(made, rules, project.cache, scratch)
    for verdict in verdicts:
        if verdict.outcome != upstream_lint.LEFT_OUT:
            say(f"extract: lint: {verdict.hook}: {verdict.outcome}")
    return [asdict(verdict) for verdict in verdicts]


def _tests(
    project: Project, git: Git, chain: Lock, rules: Policy, args: argparse.Namespace, name: str
) -> dict[str, Any]:
    """Run the topic's own tests over the branch, or over the tree it was moved from."""
    found = prefixes.of(git, chain)
    paths = [path for one in found for path in testrun.own(git, chain.tree, one.touched)]
    over = "the branch" if not rules.paths else "the same patches in vLLM's layout"
    table: dict[str, Any] = {"over": over, "paths": list(dict.fromkeys(paths)), "run": None}
    if args.no_tests or not paths:
        table["why_not"] = "left out by TESTS=0" if args.no_tests else "the topic has none"
        return table
    env = environment.given(project, args.env)
    table["environment"] = env.identity
    runner = Runner(project, git, env, testrun.LIMIT)
    subject = Subject(chain.tree, chain.tree, tuple(table["paths"]), PASSED)
    done = runner.recall(subject)
    if done is None:
        say(f"extract: {len(subject.paths)} test file(s) over {over} ...")
        log = project.cache / "logs" / f"extract-{name}.log"
        with prefixes.building(project, git, env) as build:
            done = inherited.run(runner, build, chain.base, subject, log)
        if done.outcome != PASSED:
            say(f"extract: what pytest said is in {project.short(log)}")
    say(f"extract: tests: {done.outcome}, {_counts(done)}")
    for line in inherited.lines(done):
        say(f"extract: tests: {line}")
    table["run"] = asdict(done)
    return table


def _counts(done: Run) -> str:
    return f"{done.passed} passed, {done.failed} failed, {done.skipped} skipped; {done.seconds} s"


def _tell(project: Project, target: Path, found: dict[str, Any]) -> None:
    for finding in found["findings"]:
        say(f"extract: {finding}")
    where = project.short(target)
    sizes = ", ".join(f"{key}: {len(found[key])}" for key in ("commits", "findings", "open"))
    say(f"extract: {where}: {sizes} (see evidence.json); nothing was pushed")
