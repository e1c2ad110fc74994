"""Run the GPU scripts that make files of bench/results, as the list says how."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools import files, testrun, witness
from tools.acceptance import Acceptance, Source
from tools.errors import ToolError, UsageError
from tools.project import Project
from tools.say import say

CHECKPOINT = "tests/tinymodel/checkpoint.py"


@dataclass(frozen=True)
class Site:
    """What a GPU host has."""

    python: str
    gpus: int
    model: str = ""  # a folder or a hub id; empty: the tiny checkpoint
    tasks: str = ""
    limit: int = testrun.LIMIT


def gpus() -> int:
    """Return how many GPUs the driver lists."""
    if not shutil.which("nvidia-smi"):
        return 0
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def why_not(source: Source, site: Site) -> str:
    """Return why a file cannot be made here, or nothing."""
    if not source.command:
        return f"it needs {source.needs}"
    if source.needs.startswith("2 GPUs") and site.gpus < 2:  # noqa: PLR2004
        return f"it needs {source.needs}, and here is {site.gpus}"
    if source.real:
        name = Path(site.model).name.lower()
        if not name or not source.name.endswith(f"-{name}"):
            return "it needs MODEL= to name that checkpoint"
        if not site.tasks:
            return "it needs TASKS=file.jsonl"
    return ""


def run(project: Project, acceptance: Acceptance, site: Site, series_id: str) -> None:
    """Make each file that is not there of this series yet."""
    found = witness.collect(project, acceptance, series_id, [])
    for number, source in enumerate(acceptance.sources.values(), 1):
        what = f"promotion: {number} of {len(acceptance.sources)}: {source.name}"
        reason = why_not(source, site)
        if witness.split(source.name, found)[0]:
            say(f"{what}: there already, of this series")
        elif reason:
            say(f"{what}: not run: {reason}")
        else:
            _make(project, acceptance, source, site, what)


def _make(project: Project, acceptance: Acceptance, source: Source, site: Site, what: str) -> None:
    model = site.model
    if not model and "{model}" in source.command:
        model = _tiny(project, site)
    log = project.cache / "logs" / f"promotion-{source.name}.log"
    say(f"{what}: running; its words are in {project.short(log)}")
    with tempfile.TemporaryDirectory(prefix="promotion-") as out:
        words = {"python": site.python, "model": model, "tasks": site.tasks, "out": out}
        argv = [word.format(**words) for word in shlex.split(source.command)]
        code = testrun.leashed(argv, log, site.limit, os.environ, project.root)
        made = sorted(Path(out).glob(f"*{source.name}.json"))
        # What was cut off is no result: "there already" would be said of it for ever.
        made = made if code is not None else []
        for path in made:
            take(project, acceptance, path)
    end = f"longer than {site.limit} s" if code is None else f"exit code {code}"
    say(f"{what}: {end}, {'taken' if made else 'nothing is taken'}")


def take(project: Project, acceptance: Acceptance, path: Path) -> Path:
    """Copy a file of results to bench/results, under its GPU's name."""
    table = witness.read(path)
    gpu = next((host["gpu"] for host in witness.hosts(table) if host.get("gpu")), "")
    name = witness.source_of(f"-{path.stem}", acceptance)
    if not gpu or not name:
        raise UsageError(
            f"{path} is not of a GPU, or tests/promotion.toml has no [file] of its name; name it "
            f"as one of them."
        )
    words = [word for word in gpu.lower().split() if word not in {"nvidia", "gpu", "geforce"}]
    target = project.root / witness.RESULTS / f"{'-'.join(words) or 'gpu'}-{name}.json"
    files.write(target, path.read_bytes())
    return target


def _tiny(project: Project, site: Site) -> str:
    """Return the tiny checkpoint, trained if it is not there."""
    argv = [site.python, str(project.root / CHECKPOINT)]
    variables = os.environ | {"GDNWINDOW_CACHE": str(project.cache)}
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=variables, check=False)  # noqa: S603
    if done.returncode:
        raise ToolError("the tiny checkpoint cannot be made (see above); name a MODEL.")
    return done.stdout.strip().splitlines()[-1]
