"""Files that are whole or absent."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    for stale in path.parent.glob(f".{path.name}.*.part"):
        stale.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
