"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def digest(content: Mapping[str, bytes]) -> str:
    """Return one hash of several files, by name."""
    whole = hashlib.sha256()
    for name in sorted(content):
        whole.update(f"{name} {len(content[name])}\n".encode() + content[name])
    return whole.hexdigest()


def write(path: Path, data: bytes) -> bool:
    """Replace a file in one step; say whether its content changed."""
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with partial(path) as temporary:
        temporary.write_bytes(data)
        temporary.chmod(0o644)
    return True


@contextmanager
def partial(path: Path) -> Iterator[Path]:
    """Give a temporary path; on success it becomes the real one, else it goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for other in path.parent.glob(f".{path.name}.*.part"):
        _remove_if_left(other)
    handle, temporary = _locked_temporary(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def _locked_temporary(path: Path) -> tuple[int, Path]:
    """Make a file and lock it: the lock goes with the process, so a leftover has none."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Between the two calls another process may have taken it for a leftover.
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def _remove_if_left(path: Path) -> None:
    """Delete the file of a killed process; leave that of a living one."""
    # OSError: its process holds it, or was done meanwhile, or is another user's.
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def sha256(path: Path) -> str:
    """Hash a file without reading it whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Hold a lock file; give False, at once, when another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            # The kernel drops it with the process: no stale lock survives a kill.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def remove_tree(path: Path) -> None:
    """Delete a folder so that its name is free at once, even if killed halfway."""
    if path.exists():
        trash = Path(tempfile.mkdtemp(prefix=".trash-", dir=path.parent))
        path.rename(trash / path.name)
        shutil.rmtree(trash)
