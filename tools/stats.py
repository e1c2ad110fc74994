"""Measure the series' surface against its ceiling: lines of its own, and of upstream's files."""

from __future__ import annotations

import argparse
import json
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path

from tools import apply, series, surface
from tools.errors import FINDINGS, OK, ToolError
from tools.git import Git, environment
from tools.project import Project
from tools.say import data, say
from tools.surface import NAMES, Surface

FILE = "surface.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the numbers as JSON")
    shape.add_argument(
        "--log", action="store_true", help="the sums at every commit that changed the series"
    )


def run(project: Project, args: argparse.Namespace) -> int:
    if args.log:
        for row in over_time(project):
            data(row)
        return OK
    found = surface.of(apply.read_patches(project))
    whole = surface.total(found.values())
    limits = ceiling(project)
    if args.json:
        rows = {name: asdict(one) for name, one in found.items()}
        data(json.dumps({"patches": rows, "total": asdict(whole), "ceiling": limits}, indent=1))
    else:
        for row in table(found, whole, limits):
            data(row)
    findings = over(whole, limits)
    for finding in findings:
        say(f"stats: {finding}")
    return FINDINGS if findings else OK


def ceiling(project: Project) -> dict[str, int]:
    """Read what was agreed on."""
    path = project.vendor / FILE
    where = project.short(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))["ceiling"]
    except FileNotFoundError:
        raise ToolError(f"{where} is missing; restore it with git checkout.") from None
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise ToolError(f"{where} holds no table [ceiling] ({error}); restore it.") from None
    wrong = [key for key, value in table.items() if key not in NAMES or type(value) is not int]
    if wrong or not table:
        raise ToolError(
            f"{where}: {wrong[0] if wrong else 'an empty [ceiling]'} limits nothing; name whole "
            f"numbers for any of {', '.join(NAMES)}."
        )
    return dict(table)


def over(whole: Surface, limits: dict[str, int]) -> list[str]:
    """Say where the series is past what was agreed on."""
    numbers = asdict(whole)
    return [
        f"{name} is {numbers[name]}, {limit} at most: make a call site smaller, or agree on a new "
        f"ceiling in vendor/{FILE}"
        for name, limit in limits.items()
        if numbers[name] > limit
    ]


def table(found: dict[str, Surface], whole: Surface, limits: dict[str, int]) -> list[str]:
    """Return the rows of the text."""
    width = max([len(name) for name in found] + [len("ceiling")])
    rows = [("patch", list(NAMES))]
    rows += [(name, [str(value) for value in asdict(one).values()]) for name, one in found.items()]
    rows.append(("all", [str(value) for value in asdict(whole).values()]))
    rows.append(("ceiling", [str(limits.get(name, "-")) for name in NAMES]))
    columns = [max(len(cells[at]) for _, cells in rows) for at in range(len(NAMES))]
    return [
        f"{name:<{width}}  "
        + "  ".join(f"{cell:>{room}}" for cell, room in zip(cells, columns, strict=True))
        for name, cells in rows
    ]


def over_time(project: Project) -> list[str]:
    """Return the sums at each commit of this project that changed the series, oldest first."""
    git = _own(project)
    log = git.out("log", "--reverse", "--format=%H %cs", "--", project.lock.name, "patches")
    rows: list[str] = [f"{'date':<10}  {'commit':<10}  patches  {'  '.join(NAMES)}"]
    for line in log.splitlines():
        commit, _, day = line.partition(" ")
        try:
            whole, count = _at(git, commit)
        except ToolError as error:
            rows.append(f"{day}  {commit[:10]}  {error}")
            continue
        cells = zip(NAMES, asdict(whole).values(), strict=True)
        numbers = "  ".join(f"{value:>{len(name)}}" for name, value in cells)
        rows.append(f"{day}  {commit[:10]}  {count:>7}  {numbers}")
    return rows


def _at(git: Git, commit: str) -> tuple[Surface, int]:
    text = _blob(git, commit, "series").decode("utf-8")
    names = series.parse(text).names
    files = [(name, _blob(git, commit, f"patches/{name}")) for name in names]
    return surface.total(surface.of(files).values()), len(names)


def _blob(git: Git, commit: str, path: str) -> bytes:
    blob = git.blob(commit, path)
    if not blob:
        raise ToolError(f"{path} is not there")
    return git.raw("cat-file", "blob", blob)


def _own(project: Project) -> Git:
    """Return this project's own repository."""
    argv = ["git", "rev-parse", "--show-toplevel", "--absolute-git-dir"]
    done = subprocess.run(  # noqa: S603 - the program is git, by design
        argv,
        cwd=project.root,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or Path(lines[0]) != project.root.resolve():
        raise ToolError(
            f"{project.root} is no git repository, so there is no history to measure; clone the "
            f"project, or leave LOG=1 out."
        )
    return Git(Path(lines[1]))
