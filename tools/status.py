"""Show where everything stands; change nothing."""

from __future__ import annotations

import argparse
import json

from tools import (
    apply,
    build,
    checkout,
    cpu,
    drift,
    environment,
    files,
    lines,
    lock,
    overlay,
    rebase_state,
    series,
    staging,
    upstream,
    wheels,
)
from tools.errors import OK, ToolError
from tools.project import Project
from tools.say import data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(project: Project, args: argparse.Namespace) -> int:
    del args
    for name, show in ROWS:
        try:
            text = show(project)
        except ToolError as error:
            text = str(error)
        data(f"{name:<10} {text}")
    return OK


def pin(project: Project) -> str:
    found = project.pin
    return f"{found.project} {found.version}, builds {found.full_version}"


def patches(project: Project) -> str:
    names = series.load(project).names
    chain = lock.load(project.lock)
    on_disk = staging.listing(project)
    same = [(step.name, step.sha256) for step in chain.steps]
    state = (
        f"series.lock agrees, id {chain.series_id[:12]}"
        if same == [(name, on_disk.get(name)) for name in names]
        else "series.lock does not agree: `make lock` or `make verify`"
    )
    return f"{len(names)} in series, {len(on_disk)} in the folder; {state}"


def where(project: Project) -> str:
    path = project.short(project.checkout)
    if not checkout.exists(project):
        return f"{path} is not there: `make apply`"
    git = project.git
    head, chain = git.resolve("HEAD"), lock.load(project.lock)
    parts = []
    busy = checkout.busy(git)
    if busy:
        parts.append(f"a {busy} is unfinished")
    if head == chain.commit:
        parts.append("holds the locked series")
    elif head == git.resolve(upstream.BASE_REF):
        parts.append("is pristine: `make apply`")
    else:
        parts.append(drift.text(git, chain))
    edited, untracked = checkout.dirty(git)
    if edited or untracked:
        parts.append(f"{len(edited)} edited and {len(untracked)} untracked file(s)")
    return f"{path}: {', '.join(parts)}"


def rebase(project: Project) -> str:
    state = rebase_state.load(project)
    if state is None:
        return "none under way"
    if state.finished:
        return f"to {state.target.version}: finished, not promoted: `make rebase PROMOTE=1`"
    if state.stop and state.stop.ready:
        return f"to {state.target.version}: {state.stop.name} waits: `make rebase` says for what"
    return f"to {state.target.version}: broken off: `make rebase CONTINUE=1`"


def other(project: Project) -> str:
    return ", ".join(lines.names(project)) or "none"


def downloads(project: Project) -> str:
    parts = []
    for archive in (project.pin.sdist, project.pin.wheel, project.pin.cpu_wheel):
        path = project.downloads / archive.name
        good = path.is_file() and files.sha256(path) == archive.sha256
        state = "ok" if good else "damaged: `make fetch`" if path.is_file() else "not fetched"
        parts.append(f"{archive.name} {state}")
    return "; ".join(parts)


def environments(project: Project) -> str:
    env = environment.default(project)
    state = "complete" if env.complete else "half-built" if env.folder.exists() else "not made"
    folder = cpu.folder(project)
    unpacked = "unpacked" if folder.is_dir() else "not unpacked"
    return f"{project.short(env.folder)} {state}; {project.short(folder)} {unpacked}"


def wheel(project: Project) -> str:
    path = build.wheel_path(project)
    if not path.is_file():
        return "not built: `make build`"
    info = f"{project.pin.project}-{project.pin.full_version}.dist-info"
    with wheels.open_wheel(path) as archive:
        made_from = json.loads(archive.read(f"{info}/{overlay.PROVENANCE}"))["series_id"]
    current = made_from == lock.load(project.lock).series_id
    state = "of this series" if current else "of another state of the series: `make build`"
    return f"{project.short(path)} {state}"


def names(project: Project) -> str:
    found = apply.read_patches(project)
    return ", ".join(name for name, _ in found) or "none"


ROWS = (
    ("pin", pin),
    ("patches", patches),
    ("series", names),
    ("checkout", where),
    ("rebase", rebase),
    ("lines", other),
    ("downloads", downloads),
    ("tests", environments),
    ("wheel", wheel),
)
