"""Run the linters of upstream's own pre-commit configuration over a branch, where they can run.

pre-commit would clone each linter's repository. Here `repo: local` hooks run as they are, and the
others by the package of the Python index that is the same program, at the configured version. What
is left out is named with its reason.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import git as gitlib
from tools.branch import Branch
from tools.errors import ToolError
from tools.policy import Policy

PASSED, FOUND, LEFT_OUT = "passed", "found something", "did not run"
STAGE = "pre-commit"
BROKEN = 3  # pre-commit's exit code when it cannot set a hook up
LENGTH = 2000
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # some hooks paint whatever they are told


@dataclass(frozen=True)
class Verdict:
    """What one hook said."""

    hook: str
    outcome: str
    note: str = ""


def run(branch: Branch, policy: Policy, cache: Path, scratch: Path) -> list[Verdict]:
    """Return what each hook says of the files that the branch changes."""
    git = branch.git
    if not policy.lint_config or not git.blob(branch.tip, policy.lint_config):
        why = f"the linters' configuration of {policy.name} is not in this tree"
        return [Verdict("all", LEFT_OUT, why)]
    git.raw("reset", "--hard", "--quiet", branch.tip)
    config = _read(git.raw("cat-file", "blob", f"{branch.tip}:{policy.lint_config}"), policy)
    paths = git.changed(branch.start, branch.tip)
    chosen, verdicts = _choose(config, policy, paths)
    kept = {key: value for key, value in config.items() if key in ("exclude", "default_stages")}
    file = scratch / "pre-commit.yaml"  # JSON is YAML
    file.write_text(json.dumps({**kept, "repos": [{"repo": "local", "hooks": chosen}]}))
    for hook in chosen:
        verdicts.append(_run(branch, hook, file, cache / "pre-commit"))
        git.raw("reset", "--hard", "--quiet", branch.tip)  # a hook may have corrected files
    return verdicts


def _read(data: bytes, policy: Policy) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - of requirements-dev.txt, and other verbs go without it

    try:
        config = yaml.safe_load(data)
        if isinstance(config["repos"], list):
            return dict(config)
    except (yaml.YAMLError, TypeError, KeyError):
        pass
    raise ToolError(f"{policy.lint_config} of the tree is no pre-commit configuration.")


def _choose(
    config: dict[str, Any], policy: Policy, paths: list[str]
) -> tuple[list[dict[str, Any]], list[Verdict]]:
    """Return the hooks that can run, in order, and a verdict for each that cannot."""
    packages = {hook.id: hook for hook in policy.hooks}
    chosen: list[dict[str, Any]] = []
    left: list[Verdict] = []
    for repo in config["repos"]:
        for hook in repo["hooks"]:
            name = hook.get("alias", hook["id"])
            known = packages.get(hook["id"])
            if STAGE not in hook.get("stages", config.get("default_stages", [STAGE])):
                left.append(Verdict(name, LEFT_OUT, "it is of another stage than pre-commit"))
            elif not any(re.search(hook.get("files", ""), path) for path in paths):
                left.append(Verdict(name, LEFT_OUT, "the branch changes none of its files"))
            elif name in policy.skipped_hooks:
                left.append(Verdict(name, LEFT_OUT, policy.skipped_hooks[name]))
            elif repo["repo"] == "local":
                chosen.append(hook)
            elif known:
                version = str(repo["rev"]).removeprefix("v")
                chosen.append({
                    "name": hook["id"], **hook, "entry": known.entry, "language": "python",
                    "types_or": list(known.types_or),
                    "additional_dependencies": [f"{known.package}=={version}"],
                })  # fmt: skip
            else:
                left.append(Verdict(name, LEFT_OUT, f"it needs {repo['repo']}"))
    return chosen, left


def _run(branch: Branch, hook: dict[str, Any], config: Path, home: Path) -> Verdict:
    name = hook.get("alias", hook["id"])
    argv = [sys.executable, "-m", "pre_commit", "run", name, "--config", str(config)]
    argv += ["--color", "never", "--from-ref", branch.start, "--to-ref", branch.tip]
    done = subprocess.run(  # noqa: S603 - a package of tools/requirements-dev.txt
        argv,
        cwd=branch.git.work_tree,
        env=_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    said = COLOUR.sub("", done.stdout + done.stderr).strip()
    if done.returncode == BROKEN or "No module named pre_commit" in said:
        return Verdict(name, LEFT_OUT, f"it cannot be set up here: {_line(said)}")
    if done.returncode:
        return Verdict(name, FOUND, said[-LENGTH:])
    if "(no files to check)" in said:
        return Verdict(name, LEFT_OUT, "the branch changes none of its files")
    return Verdict(name, PASSED)


def _environment(home: Path) -> dict[str, str]:
    """Without what lets a linter be skipped, which would look like one that passed."""
    env = {key: value for key, value in gitlib.environment().items() if key != "SKIP"}
    return env | {"PRE_COMMIT_HOME": str(home)}


def _line(said: str) -> str:
    lines = [line for line in said.splitlines() if "rror" in line]
    return (lines or said.splitlines() or ["no reason"])[-1].strip()[:200]
