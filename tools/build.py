"""Build the patched wheel over the pinned one, reproducible to the byte."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools import checkout, cpu, environment, fetch, files, overlay, setup_route, wheels
from tools.errors import OK, ToolError, UsageError
from tools.git import Git
from tools.lock import Lock
from tools.project import Project
from tools.say import data, say
from tools.wheels import Fresh, Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--via",
        choices=("overlay", "setup"),
        default="overlay",
        help="setup: run upstream's own setup.py on the patched tree and compare the result",
    )
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="the same Python over CPU extensions of another release: for tests only",
    )
    parser.add_argument(
        "--env",
        type=Path,
        metavar="DIR",
        help="the environment for --via setup (default: the one `make env` makes)",
    )


def run(project: Project, args: argparse.Namespace) -> int:
    if args.cpu and args.via == "setup":
        raise UsageError("--via setup and --cpu exclude each other; leave one of them out.")
    git = checkout.need(project)
    chain = checkout.need_applied(project, git)
    if args.cpu:
        path = cpu.write(project, git, chain)
    elif args.via == "setup":
        path = setup_route.build(project, git, chain, environment.given(project, args.env))
    else:
        path = build(project, git, chain)
    say(f"{project.short(path)}: {path.stat().st_size >> 20} MiB, series {chain.series_id[:12]}")
    data(f"{files.sha256(path)}  {project.short(path)}")
    return OK


def wheel_tag(project: Project) -> str:
    return "-".join(project.pin.wheel.name.removesuffix(".whl").split("-")[-3:])


def wheel_path(project: Project) -> Path:
    pin = project.pin
    return project.dist / f"{pin.project}-{pin.full_version}-{wheel_tag(project)}.whl"


def build(project: Project, git: Git, chain: Lock) -> Path:
    """Lay the series over the pinned wheel."""
    pin = project.pin
    path = wheel_path(project)
    info = f"{pin.project}-{pin.full_version}.dist-info"
    with wheels.open_wheel(fetch.get(project, pin.wheel)) as upstream:
        content = overlay.plan(git, pin, chain, upstream, pin.full_version)
        text = content[f"{info}/WHEEL"].read().decode()
        # Upstream renamed its wheel after building it: the file inside says linux_x86_64.
        content[f"{info}/WHEEL"] = Fresh(overlay.stamp_tag(text, wheel_tag(project)).encode())
        check_files(project, git, chain, wheels.members(upstream), content)
        wheels.write(content, info, path, pin.epoch)
    return path


def check_files(project: Project, git: Git, chain: Lock, upstream: Plan, ours: Plan) -> None:
    """Stop unless the wheel holds upstream's files plus and minus the series' own."""
    package = f"{project.pin.project}/"

    def of_package(names: set[str]) -> set[str]:
        return {name for name in names if name.startswith(package)}

    def listed(tree: str) -> set[str]:
        return set(git.zlist("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree, package))

    before, after = listed(chain.base_tree), listed(chain.tree)
    expected = of_package(set(upstream)) - (before - after) | (after - before)
    wrong = expected ^ of_package(set(ours))
    if wrong:
        raise ToolError(
            f"the wheel would not hold the files it should ({', '.join(sorted(wrong)[:5])}): "
            f"this is a fault of the overlay; report it."
        )
