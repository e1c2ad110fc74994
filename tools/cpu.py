"""The patched Python over CPU extensions of another release: for tests only."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import checkout, fetch, files, lock, overlay, wheels
from tools.errors import ConflictError
from tools.git import Git
from tools.lock import Lock
from tools.project import Project
from tools.say import say
from tools.wheels import Fresh, Plan

# "cpu" in the version makes vLLM choose its CPU platform; the rest is a warning label.
SUFFIX = "cpu.testonly"
# Not manylinux: an index refuses this tag, so the wheel cannot be published by mistake.
TAG = "cp38-abi3-linux_x86_64"
BINARY = (".so",)
BINARY_NAMES = ("vllm-rs",)


def version(project: Project) -> str:
    return f"{project.pin.full_version}.{SUFFIX}"


def plan(project: Project, git: Git, chain: Lock) -> tuple[Plan, str]:
    """Return the members of the CPU build and its dist-info folder."""
    pin = project.pin
    name = version(project)
    info = f"{pin.project}-{name}.dist-info"
    upstream = wheels.open_wheel(fetch.get(project, pin.wheel))
    extensions = wheels.open_wheel(fetch.get(project, pin.cpu_wheel))
    result = {
        key: member
        for key, member in overlay.plan(git, pin, chain, upstream, name).items()
        if not is_binary(key)
    }
    native = {
        key: member
        for key, member in wheels.members(extensions).items()
        if is_binary(key) and key.startswith(f"{pin.project}/")
    }
    tag = result[f"{info}/WHEEL"].read().decode()
    result[f"{info}/WHEEL"] = Fresh(overlay.stamp_tag(tag, TAG).encode())
    return {**native, **result}, info


def is_binary(name: str) -> bool:
    return name.endswith(BINARY) or name.rpartition("/")[2] in BINARY_NAMES


def write(project: Project, git: Git, chain: Lock) -> Path:
    """Write the CPU wheel into dist/."""
    content, info = plan(project, git, chain)
    path = project.dist / f"{project.pin.project}-{version(project)}-{TAG}.whl"
    wheels.write(content, info, path, project.pin.epoch)
    return path


def folder(project: Project) -> Path:
    """Return where the CPU build of the locked series is unpacked."""
    chain = lock.load(project.lock)
    pin = project.pin
    parts = (chain.series_id[:12], pin.wheel.sha256[:8], pin.cpu_wheel.sha256[:8])
    return project.cache / f"cpu-{chain.tree[:12]}-{'-'.join(parts)}-r{pin.revision}"


def extensions(project: Project) -> Path:
    """Return the folder from which unpacked builds link their big binaries."""
    return project.cache / f"cpu-extensions-{project.pin.cpu_wheel.sha256[:12]}"


@contextmanager
def alone(project: Project) -> Iterator[None]:
    """Let one process at a time unpack: builds of all checkouts share the big binaries."""
    shared = extensions(project)
    with files.only_one(shared.with_suffix(".lock")) as free:
        if not free:
            raise ConflictError(
                f"another process unpacks {project.short(shared)}; wait for it, then run this "
                f"again."
            )
        yield


def unpack(project: Project, git: Git, chain: Lock, target: Path) -> None:
    """Write the CPU build into a folder; the caller is alone."""
    content, info = plan(project, git, chain)
    wheels.unpack(content, info, target, extensions(project))


def unpacked(project: Project) -> Path:
    """Return the unpacked CPU build, making it when it is not there."""
    target = folder(project)
    if not target.is_dir():
        git = checkout.need(project)
        chain = checkout.need_locked(project, git)
        with alone(project):
            # Another process may have made it since.
            if not target.is_dir():
                _unpacked(project, git, chain, target)
                return target
    say(f"{project.short(target)}: already unpacked")
    return target


def _unpacked(project: Project, git: Git, chain: Lock, target: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=".cpu-", dir=project.cache))
    try:
        unpack(project, git, chain, scratch)
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        files.remove_tree(scratch)
    say(f"{project.short(target)}: unpacked, for tests only")
