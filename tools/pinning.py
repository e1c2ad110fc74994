"""The pin of a release that was rebased to: ``upstream.toml`` with its values replaced."""

from __future__ import annotations

import email.parser
import re
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from tools import fetch, files, index, wheels
from tools.errors import ToolError
from tools.pin import Archive
from tools.pristine import Base
from tools.project import Project
from tools.say import say

KEY = re.compile(r"(?P<key>[A-Za-z0-9_-]+)(?P<gap>\s*=\s*)(?P<value>\"[^\"]*\"|[^#\s]+)")
COMMIT = re.compile(r"^__commit_id__ = commit_id = '(?P<id>[^']*)'", re.MULTILINE)


def text(project: Project, base: Base, folder: Path | None) -> bytes:
    """Return the pin file for another release, comments and all."""
    pin = project.pin
    wheel = _wheel(pin.wheel, base.version, folder, exact=True)
    cpu = _wheel(pin.cpu_wheel, base.version, folder, exact=False)
    with wheels.open_wheel(fetch.get(project, wheel, folder)) as archive:
        info = f"{pin.project}-{base.version}.dist-info"
        about = email.parser.HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode())
        built = COMMIT.search(archive.read(f"{pin.project}/_version.py").decode())
    values = {
        "upstream.version": base.version,
        "upstream.tag": pin.git_tag.replace(pin.version, base.version),
        "sdist.name": base.sdist,
        "sdist.sha256": base.sha256,
        "sdist.commit": _sdist_commit(project, base, folder),
        "wheel.name": wheel.name,
        "wheel.sha256": wheel.sha256,
        "wheel.commit": built["id"] if built else "",
        "base.tree": base.tree,
        "base.package_tree": base.package_tree,
        "testonly.cpu_wheel.name": cpu.name,
        "testonly.cpu_wheel.sha256": cpu.sha256,
        "requires.python": about.get("Requires-Python", ""),
    }
    torch = _torch(about.get_all("Requires-Dist") or [])
    if torch:
        values["requires.torch"] = torch
        if torch != pin.requires.get("torch"):
            say("promote: triton under [requires] is still the old torch's; look it up")
    stamp = datetime.fromtimestamp(base.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    quoted: dict[str, object] = {"upstream.date": stamp, "series.revision": 1}
    quoted |= {key: f'"{value}"' for key, value in values.items()}
    return edit(project.pin_file.read_text(encoding="utf-8"), quoted).encode()


def edit(old: str, values: dict[str, object]) -> str:
    """Replace values in a TOML file, line by line, so that its comments stay."""
    section = ""
    lines: list[str] = []
    for line in old.splitlines():
        if line.startswith("["):
            section = line.partition("[")[2].partition("]")[0]
        match = KEY.match(line)
        key = f"{section}.{match['key']}" if match else ""
        if match and key in values:
            line = f"{match['key']}{match['gap']}{values[key]}{line[match.end() :]}"  # noqa: PLW2901
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _wheel(like: Archive, version: str, folder: Path | None, *, exact: bool) -> Archive:
    """Return the wheel of a release with the tags of one that is pinned."""
    tags = like.name.removesuffix(".whl").split("-")[-3:]
    name = like.name.split("-")[0]
    rows = (
        [(row.name, row.sha256) for row in index.listing(like.project) if not row.yanked]
        if folder is None
        else [(path.name, files.sha256(path)) for path in sorted(folder.glob(f"{name}-*.whl"))]
    )
    found: dict[Version, Archive] = {}
    for file, sha256 in rows:
        if file.endswith(".whl") and file.removesuffix(".whl").split("-")[-3:] == tags:
            found[parse_wheel_filename(file)[1]] = Archive(like.project, file, sha256, "")
    wanted = Version(version)
    # The CPU wheel lends its extensions: those of a release a little older do, newer rarely.
    near = [key for key in sorted(found) if key <= wanted and not key.is_prerelease]
    if wanted in found:
        return found[wanted]
    if exact or not near:
        raise ToolError(
            f"there is no {name} {version} with the tags {'-'.join(tags)} to be had; set "
            f"PIP_INDEX_URL, or use FROM=DIR with the file at hand."
        )
    return found[near[-1]]


def _torch(requirements: list[str]) -> str:
    for row in map(Requirement, requirements):
        pins = [one.version for one in row.specifier if one.operator == "=="]
        if row.name == "torch" and pins:
            return pins[0]
    return ""


def _sdist_commit(project: Project, base: Base, folder: Path | None) -> str:
    path = fetch.get(project, Archive(project.pin.project, base.sdist, base.sha256, ""), folder)
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(f"/{project.pin.project}/_version.py"):
                file = archive.extractfile(member)
                match = COMMIT.search(file.read().decode()) if file else None
                return match["id"] if match else ""
    return ""
