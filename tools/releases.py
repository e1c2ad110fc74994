"""The releases of the upstream project that an index, or a folder, serves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from tools import fetch, files, index
from tools.errors import ToolError, UsageError
from tools.pin import Archive
from tools.project import Project

LATEST = "latest"


@dataclass(frozen=True)
class Release:
    """One release, known by its sdist."""

    version: str
    sdist: Archive

    @property
    def key(self) -> Version:
        return Version(self.version)


def is_version(word: str) -> bool:
    """Tell a release from a commit: a version has a dot, and an id of digits has none."""
    try:
        Version(word)
    except InvalidVersion:
        return word == LATEST
    return "." in word


def known(project: Project, folder: Path | None) -> list[Release]:
    """Return the releases that can be had, oldest first."""
    name = project.pin.project
    if folder is None:
        rows = [(row.name, row.sha256) for row in index.listing(name) if not row.yanked]
    else:
        # Nobody vouches for a file at hand; its own hash still names it from here on.
        rows = [
            (path.name, files.sha256(path))
            for path in sorted(folder.glob(f"{name}-*.tar.gz"))
            if _version(path.name, name)
        ]
    found: dict[Version, Release] = {}
    for file, sha256 in rows:
        version = _version(file, name)
        if version is not None:
            archive = Archive(name, file, sha256, "")
            found[version] = Release(str(version), archive)
    return [found[version] for version in sorted(found)]


def _version(file: str, project: str) -> Version | None:
    try:
        name, version = parse_sdist_filename(file)
    except (InvalidSdistFilename, InvalidVersion):
        return None
    return version if name == project and file.endswith(".tar.gz") else None


def choose(releases: list[Release], word: str) -> Release:
    """Return the release a user asked for."""
    if word == LATEST:
        final = [release for release in releases if not release.key.is_prerelease]
        if final:
            return final[-1]
        raise ToolError("no release is to be had; set PIP_INDEX_URL or use FROM=DIR.")
    wanted = Version(word)
    for release in releases:
        if release.key == wanted:
            return release
    near = ", ".join(release.version for release in releases[-3:]) or "none"
    raise UsageError(f"there is no release {word} to be had; the newest are {near}.")


def way(releases: list[Release], old: str, target: Release) -> list[Release]:
    """Return the final releases after one version up to another, also downwards."""
    start, end = Version(old), target.key
    low, high = min(start, end), max(start, end)
    between = [
        release
        for release in releases
        if low < release.key < high and not release.key.is_prerelease
    ]
    return [*(between if start < end else reversed(between)), target]


def sdist(project: Project, release: Release, folder: Path | None) -> Path:
    """Return a release's sdist, by the hash that the index names."""
    if not release.sdist.sha256:
        raise ToolError(
            f"the index names no sha256 of {release.sdist.name}; set PIP_INDEX_URL to one that "
            f"does, or use FROM=DIR with the file at hand."
        )
    return fetch.get(project, release.sdist, folder)
