"""Swap patches/, series and series.lock for new ones in a way that survives a kill.

The new files are written aside in full. Renaming that folder to its final name is the
one step that decides; whatever is then left undone, the next command does.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools import files, patchfile
from tools.project import Project

PIN = "upstream.toml"


def _ready(project: Project) -> Path:
    return project.vendor / ".refresh-ready"


def listing(project: Project) -> dict[str, str]:
    """Return every patch file with its hash."""
    if not project.patches.is_dir():
        return {}
    return {
        path.relative_to(project.patches).as_posix(): patchfile.digest(path.read_bytes())
        for path in sorted(project.patches.rglob("*.patch"))
    }


def write(folder: Path, patches: list[tuple[str, bytes]], series: str, lock: str) -> None:
    """Write a state of the series into a folder of its own."""
    (folder / "patches").mkdir(parents=True)
    for name, content in patches:
        files.write(folder / "patches" / name, content)
    files.write(folder / "series", series.encode())
    files.write(folder / "series.lock", lock.encode())


def stage(
    project: Project,
    patches: list[tuple[str, bytes]],
    series: str,
    lock: str,
    pin: bytes | None = None,
) -> None:
    """Write the new state aside; with a pin, that moves in the same step."""
    draft = project.vendor / ".refresh-draft"
    shutil.rmtree(draft, ignore_errors=True)
    write(draft, patches, series, lock)
    if pin is not None:
        files.write(draft / PIN, pin)
    draft.rename(_ready(project))


def finish(project: Project) -> bool:
    """Take over what was staged; say whether there was anything."""
    ready, done = _ready(project), project.vendor / ".refresh-done"
    shutil.rmtree(done, ignore_errors=True)
    if not ready.is_dir():
        return False
    source = ready / "patches"
    kept = {path.relative_to(source).as_posix() for path in source.rglob("*.patch")}
    for name in sorted(kept):
        files.write(project.patches / name, (source / name).read_bytes())
    for name in listing(project).keys() - kept:
        path = project.patches / name
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    files.write(project.series, (ready / "series").read_bytes())
    files.write(project.lock, (ready / "series.lock").read_bytes())
    if (ready / PIN).is_file():
        files.write(project.pin_file, (ready / PIN).read_bytes())
    ready.rename(done)
    shutil.rmtree(done)
    return True
