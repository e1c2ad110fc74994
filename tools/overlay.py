"""The patched Python files over the pinned wheel: what goes in, and when not to."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import PurePosixPath

from tools.errors import ToolError
from tools.git import Git
from tools.lock import Lock
from tools.pin import Archive, Pin
from tools.wheels import Fresh, Plan, dist_info, members

PROVENANCE = "series.json"
# A change here reaches compiled code or metadata, which an overlay cannot deliver.
BUILD_INPUTS = (
    "CMakeLists.txt",
    "MANIFEST.in",
    "PKG-INFO",
    "cmake/",
    "csrc/",
    "pyproject.toml",
    "requirements/",
    "rust-toolchain.toml",
    "rust/",
    "setup.cfg",
    "setup.py",
    "tools/build_",
)
COMPILED = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".pyx", ".rs", ".so"}


def plan(git: Git, pin: Pin, chain: Lock, archive: zipfile.ZipFile, version: str) -> Plan:
    """Return the members of the patched wheel under a version."""
    upstream = members(archive)
    changed = git.changed(chain.base_tree, chain.tree)
    refuse_build_inputs(pin, changed)
    refuse_disagreement(git, pin, chain.base_tree, upstream)
    result: Plan = {}
    old, new = dist_info(archive), f"{pin.project}-{version}.dist-info"
    for name, member in upstream.items():
        result[name.replace(f"{old}/", f"{new}/", 1) if name.startswith(old) else name] = member
    edits = package_files(git, pin, chain, changed)
    for name, edit in edits.items():
        if edit is None:
            result.pop(name, None)
        else:
            result[name] = edit
    version_file = f"{pin.project}/_version.py"
    result[version_file] = Fresh(
        stamp_version(upstream[version_file].read().decode(), pin.version, version).encode()
    )
    metadata = upstream[f"{old}/METADATA"].read().decode()
    result[f"{new}/METADATA"] = Fresh(stamp_metadata(metadata, pin.version, version).encode())
    result[f"{new}/{PROVENANCE}"] = Fresh(provenance(pin, chain, version, edits))
    # dist-info goes last, as the wheel specification recommends.
    return dict(sorted(result.items(), key=lambda item: item[0].startswith(f"{new}/")))


def refuse_build_inputs(pin: Pin, changed: list[str]) -> None:
    """Stop when the series needs more than Python files replaced."""
    package = f"{pin.project}/"
    bad = [
        name
        for name in changed
        if name.startswith(BUILD_INPUTS)
        or (name.startswith(package) and PurePosixPath(name).suffix in COMPILED)
        or name == f"{package}_version.py"
    ]
    if bad:
        raise ToolError(
            f"the series changes {len(bad)} file(s) that go into compiled code or metadata "
            f"({', '.join(bad)}); a wheel laid over the released one cannot hold that: build "
            f"from source, or take the change out of the series."
        )


def refuse_disagreement(git: Git, pin: Pin, base_tree: str, upstream: Plan) -> None:
    """Stop when the released wheel was not made from the released sources."""
    bad: list[str] = []
    skip = f"{pin.project}/_version.py"
    for row in git.zlist("ls-tree", "-r", "-z", "--full-tree", base_tree, f"{pin.project}/"):
        blob, name = row.split(" ")[2].split("\t")[0], row.partition("\t")[2]
        member = upstream.get(name)
        if name == skip or (member and git_blob(member.read()) == blob):
            continue
        if member or name.endswith(".py"):
            bad.append(name)
    if bad:
        raise ToolError(
            f"{pin.sdist.name} and {pin.wheel.name} disagree on "
            f"{len(bad)} file(s) ({', '.join(bad[:5])}): "
            f"patches made against one do not fit the other; pin another release."
        )


def git_blob(content: bytes) -> str:
    """Return the id git gives to a file's content."""
    head = f"blob {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def package_files(git: Git, pin: Pin, chain: Lock, changed: list[str]) -> dict[str, Fresh | None]:
    """Return the changed files of the package, None for a removed one."""
    edits: dict[str, Fresh | None] = {}
    for name in changed:
        if not name.startswith(f"{pin.project}/"):
            continue
        rows = git.zlist("ls-tree", "-z", "--full-tree", chain.tree, name)
        if not rows:
            edits[name] = None
            continue
        mode, _, rest = rows[0].partition(" ")
        if mode not in ("100644", "100755"):
            raise ToolError(f"{name} is a symbolic link or submodule; a wheel cannot hold one.")
        content = git.raw("cat-file", "blob", rest.split(" ")[1].split("\t")[0])
        edits[name] = Fresh(content, int(mode[3:], 8))
    return edits


def once(pattern: str, replacement: str, text: str, what: str) -> str:
    """Replace the one match of a pattern."""
    result, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise ToolError(f"{what} has {count} lines like {pattern!r}, not one: adapt the overlay.")
    return result


def stamp_version(text: str, old: str, new: str) -> str:
    """Write the local version into the package's version file."""
    numbers = ", ".join(old.split("."))
    local = new.partition("+")[2]
    text = once(
        rf"^__version__ = version = '{re.escape(old)}'$",
        f"__version__ = version = '{new}'",
        text,
        "_version.py",
    )
    return once(
        rf"^__version_tuple__ = version_tuple = \({numbers}\)$",
        f"__version_tuple__ = version_tuple = ({numbers}, '{local}')",
        text,
        "_version.py",
    )


def stamp_metadata(text: str, old: str, new: str) -> str:
    """Write the local version into the metadata; nothing else changes."""
    head, blank, body = text.partition("\n\n")
    return once(rf"^Version: {re.escape(old)}$", f"Version: {new}", head, "METADATA") + blank + body


def stamp_tag(text: str, tag: str) -> str:
    """Let WHEEL name the tag that the file name has."""
    return once(r"^Tag: \S+$", f"Tag: {tag}", text, "WHEEL")


def provenance(pin: Pin, chain: Lock, version: str, edits: dict[str, Fresh | None]) -> bytes:
    """Return the record that the installed package checks itself with."""

    def archive(item: Archive) -> dict[str, str]:
        return {"name": item.name, "sha256": item.sha256}

    table = {
        "format": 1,
        "version": version,
        "upstream": {
            "project": pin.project,
            "version": pin.version,
            "sdist": archive(pin.sdist),
            "wheel": archive(pin.wheel),
        },
        "series_id": chain.series_id,
        "base_tree": chain.base_tree,
        "tree": chain.tree,
        "commit": chain.commit,
        "patches": [{"name": step.name, "sha256": step.sha256} for step in chain.steps],
        "files": {
            name: hashlib.sha256(edit.content).hexdigest() if edit else None
            for name, edit in sorted(edits.items())
        },
    }
    return (json.dumps(table, indent=2) + "\n").encode()
