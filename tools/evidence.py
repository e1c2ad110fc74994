"""What a branch was made from and what was found of it, as data."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatch
from typing import Any

from tools import files, patchfile, porting, upstream_lint, verdict, watchlist
from tools.branch import Branch
from tools.errors import ToolError
from tools.lock import Lock, Step
from tools.pick import Files, Picked
from tools.policy import FOLDER, Policy, Topic
from tools.project import Project

FORMAT = 1
RESULTS = ("bench", "results")
# The packages of vLLM's tree that another repository does not have.
ROOTS = ("vllm", "tests")


def of(
    project: Project, series: Files, picked: Picked, policy: Policy, branch: Branch, chain: Lock
) -> dict[str, Any]:
    """Return what is known before anything runs."""
    pin, git = project.pin, branch.git
    steps = tuple(Step(name, patchfile.digest(data), "", "", "") for name, data in series)
    series_id = Lock("", "", steps).series_id
    topic = policy.topics.get(picked.topic, Topic())
    remaining = porting.remaining(git, branch.tip, ROOTS) if policy.paths else []
    return {
        "format": FORMAT,
        "topic": picked.topic,
        "upstream": {"name": policy.name, "url": policy.url},
        "policy_sha256": files.sha256(project.root / FOLDER / f"{policy.name}.toml"),
        "series_id": series_id,
        "base": {
            "version": pin.version,
            "sdist": pin.sdist.name,
            "sha256": pin.sdist.sha256,
            "tree": pin.base_tree,
        },
        "patches": [
            {
                "name": step.name,
                "sha256": step.sha256,
                "needed_by": picked.needed.get(step.name, ""),
                "left_out": step.name in branch.dropped,
            }
            for step in chain.steps
        ],
        "branch": branch.name,
        "start": branch.start,
        "tip": branch.tip,
        "tree": git.tree(branch.tip),
        "commits": [_commit(branch, commit) for commit in branch.commits],
        "git_am": "reaches the same tree from the mails",
        "size": _size(branch, policy),
        "remaining": [one.text() for one in remaining],
        "results": [_result(project, name, series_id) for name in topic.results],
        "numbers": _numbers(project, topic.numbers, series_id),
        "pulls": _pulls(project, picked.topic),
    }


def _commit(branch: Branch, commit: str) -> dict[str, str]:
    text = branch.git.out("log", "-1", "--format=%B", commit)
    subject, _, body = text.partition("\n\n")
    return {"id": commit, "subject": subject, "body": body}


def _size(branch: Branch, policy: Policy) -> dict[str, Any]:
    """Count lines added and removed, less those the policy does not count."""
    git = branch.git
    start = branch.start or git.out("mktree")
    rows = git.out("diff-tree", "-r", "--numstat", "--no-renames", start, branch.tip).splitlines()
    whole = counted = 0
    for row in rows:
        added, removed, path = row.split("\t")
        lines = sum(int(number) for number in (added, removed) if number != "-")
        whole += lines
        if not any(fnmatch(path, pattern) for pattern in policy.lines_without):
            counted += lines
    over = counted > policy.lines
    note = policy.lines_note if over else ""
    return {"lines": whole, "counted": counted, "limit": policy.lines, "over": over, "note": note}


def _result(project: Project, name: str, series_id: str) -> dict[str, Any]:
    """Return host, command and plain values of a file of results."""
    path = project.root.joinpath(*RESULTS, name)
    try:
        table = json.loads(path.read_bytes())
        host, command = table["host"], table["command"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ToolError(
            f"{project.short(path)} cannot be read as a result ({error}); correct `results` of "
            f"the topic in policy/."
        ) from None
    plain = {key: value for key, value in table.items() if type(value) in (int, float, bool)}
    return {
        "file": project.short(path),
        "host": host,
        "command": command,
        "values": plain,
        "same_series": host.get("series_id") == series_id,
    }


def _numbers(project: Project, names: tuple[str, ...], series_id: str) -> list[dict[str, Any]]:
    """Ask the benchmarks for figures, each with the runs it is of."""
    if not names:
        return []
    script = project.root / "bench" / "quote.py"
    argv = [sys.executable, str(script), *names]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason"]
        raise ToolError(f"the figures of policy/ cannot be read ({last[0]}); correct `numbers`.")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    for figure in found:
        runs = figure["runs"]
        figure["same_series"] = bool(runs) and all(
            run["host"].get("series_id") == series_id for run in runs
        )
    return found


def _pulls(project: Project, topic: str) -> list[dict[str, str]]:
    """Return upstream's known work on the same ground."""
    if not (project.vendor / watchlist.FILE).is_file():
        return []
    found = []
    for pull in watchlist.load(project):
        if any(_about(word, topic) for word in (*pull.replaces, *pull.breaks)):
            row = {"title": pull.title, "url": pull.url, "state": pull.state, "note": pull.note}
            found.append({**row, "seen": pull.seen.isoformat()})
    return found


def _about(word: str, topic: str) -> bool:
    """Say whether a topic or a patch is what is extracted, a part of it, or holds it."""
    name = word.removesuffix(".patch")
    return topic == name or name.startswith(f"{topic}/") or topic.startswith(f"{name}/")


def findings(found: dict[str, Any]) -> list[str]:
    """Return what is wrong with the branch."""
    run = found["tests"]["run"]
    wrong = [
        f"lint: {row['hook']} found something; evidence.json has its words"
        for row in found["lint"]
        if row["outcome"] == upstream_lint.FOUND
    ]
    if run and run["outcome"] != verdict.PASSED:
        wrong.append(
            f"tests: {run['outcome']}: {run['reason']} (where they pass with the whole series, a "
            f"'Depends:' is missing)"
        )
    return wrong


def left_open(found: dict[str, Any], policy: Policy) -> list[str]:
    """Return what only the submitter can settle."""
    left = [f"{one.title}: write {one.write}" for one in policy.sections if one.write]
    left.append(f"duplicates: {policy.duplicates}")
    if policy.ai_trailer and not found["tool"]:
        left.append(f"commits: name the AI tool, with ASSISTED_BY= as '{policy.ai_trailer}:'")
    size = found["size"]
    if size["over"]:
        left.append(f"size: {size['counted']} lines of {size['limit']}: {size['note']}")
    if found["tests"]["run"] is None:
        left.append(f"tests: they did not run: {found['tests']['why_not']}")
    left += [f"port: {line}" for line in found["remaining"]]
    left += [
        f"numbers: {row.get('name') or row['file']} is of an older series: measure it again"
        for row in (*found["results"], *found["numbers"])
        if not row["same_series"]
    ]
    return left
