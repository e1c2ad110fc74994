"""Lines: the series on other releases, each kept as what differs from the main one.

``lines/VERSION/`` holds that release's pin and lock, the patches whose bytes differ from the file
of the same name in ``patches/``, and ``series`` if it differs. A command with ``--line VERSION``
lays the whole out in ``vendor/lines/VERSION``, works there as in a project of its own, and writes
back what differs. docs/lines.md says why folders and not branches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tools import checkout, files, series, staging
from tools.errors import ConflictError, ToolError, UsageError
from tools.project import Project

# These read or write the series; the others know nothing of lines.
VERBS = (
    "status", "fetch", "apply", "refresh", "verify", "rebase", "stats", "watch", "build", "env",
)  # fmt: skip
PIN = "vendor/upstream.toml"
# What the copy was laid out from: while it holds, the copy is the newer one.
MADE_FROM = ".made-from"
SETTINGS = ("rebase.toml", "surface.toml", "watch.toml")
Content = dict[str, bytes]


def names(project: Project) -> list[str]:
    """Return the versions that have a line."""
    root = project.root / "lines"
    found = [path.name for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    return sorted((name for name in found if _is_version(name)), key=Version)


def _is_version(name: str) -> bool:
    try:
        return str(Version(name)) == name
    except InvalidVersion:
        return False


def folder(project: Project, version: str) -> Path:
    return project.root / "lines" / version


def home(project: Project, version: str) -> Path:
    return project.vendor / "lines" / version


def run(
    project: Project,
    version: str,
    args: argparse.Namespace,
    verb: Callable[[Project, argparse.Namespace], int],
) -> int:
    """Run a verb on a line."""
    if args.verb not in VERBS:
        raise UsageError(f"{args.verb} works on the whole project; leave LINE out.")
    if version not in names(project) and not _ready(project, version).is_dir():
        known = ", ".join(names(project)) or "none"
        raise UsageError(f"there is no line {version}; there are: {known}.")
    with files.only_one(project.vendor / f".line-{version}.lock") as alone:
        if not alone:
            raise ConflictError(f"another command works on line {version}; wait for it.")
        finish(project, version)
        line = lay_out(project, version)
        try:
            return verb(line, args)
        finally:
            store(project, version)


def whole(project: Project, version: str) -> Content:
    """Return a line with what it shares: each file by its place in a project."""
    own = folder(project, version)
    text = _read(own / "series") or _read(project.series) or b""
    found = {"series": text}
    for name, source in (("series.lock", own / "series.lock"), (PIN, own / "upstream.toml")):
        data = _read(source)
        if data is None:
            raise ToolError(f"{project.short(source)} is missing; restore it with git checkout.")
        found[name] = data
    for name in series.parse(text.decode("utf-8"), project.short(own / "series")).names:
        data = _read(own / "patches" / name)
        data = _read(project.patches / name) if data is None else data
        if data is not None:  # else apply names it
            found[f"patches/{name}"] = data
    return found


def lay_out(project: Project, version: str) -> Project:
    """Bring the copy of a line up to date; return it as a project."""
    target = home(project, version)
    line = Project(target, project.root)
    content = whole(project, version)
    stamp = files.digest(content)
    made = _read(target / MADE_FROM)
    if made is not None and made.decode() != stamp:
        there = copied(target)
        if files.digest(there) != made.decode() and there != content:
            raise ConflictError(
                f"lines/{version} and its copy in {project.short(target)} both changed; keep the "
                f"copy's patches aside, delete {project.short(target / MADE_FROM)}, and run this "
                f"again."
            )
    if made is None or made.decode() != stamp:
        patches = target / "patches"
        for path in sorted(patches.rglob("*.patch")) if patches.is_dir() else []:
            if f"patches/{path.relative_to(patches).as_posix()}" not in content:
                path.unlink()
        for name, data in content.items():
            files.write(target / name, data)
        files.write(target / MADE_FROM, stamp.encode())
    for name in SETTINGS:
        if (project.vendor / name).is_file():
            files.write(target / "vendor" / name, (project.vendor / name).read_bytes())
    if not (target / "ci").exists():
        (target / "ci").symlink_to(project.root / "ci")
    return line


def copied(target: Path) -> Content:
    """Return what the copy of a line holds."""
    paths = [target / "series", target / "series.lock", target / PIN]
    patches = target / "patches"
    paths += sorted(patches.rglob("*.patch")) if patches.is_dir() else []
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in paths}


def store(project: Project, version: str) -> None:
    """Write back what a verb changed in the copy."""
    target = home(project, version)
    staging.finish(Project(target, project.root))
    content = copied(target)
    if files.digest(content) != (_read(target / MADE_FROM) or b"").decode():
        write(project, version, content)
        files.write(target / MADE_FROM, files.digest(content).encode())


def write(project: Project, version: str, content: Content) -> None:
    """Replace a line by another state of it, less what it shares; a kill leaves either."""
    draft = project.vendor / f".line-{version}.draft"
    files.remove_tree(draft)
    for name, data in content.items():
        shared = _read(project.root / name) if name != "series.lock" else None
        if name == PIN or data != shared:
            files.write(draft / Path(name).relative_to("vendor" if name == PIN else "."), data)
    draft.rename(_ready(project, version))
    finish(project, version)


def _ready(project: Project, version: str) -> Path:
    return project.vendor / f".line-{version}.ready"


def finish(project: Project, version: str) -> None:
    """Put a line in its place that was written in full."""
    ready = _ready(project, version)
    if ready.is_dir():
        files.remove_tree(folder(project, version))
        folder(project, version).parent.mkdir(exist_ok=True)
        ready.rename(folder(project, version))


def stop_if_unsaved(project: Project, version: str) -> None:
    """Stop when the checkout of a line holds work that its patches do not."""
    line = Project(home(project, version), project.root)
    if (line.root / PIN).is_file() and checkout.exists(line):
        checkout.recover(line.git)
        checkout.stop_if_unsaved(line, line.git, "")


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
