"""The tiny checkpoint, trained once and kept: its training takes about four minutes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MAKER = HERE / "make_tiny_qwen35.py"
LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors")


def cache_folder() -> pathlib.Path:
    named = os.environ.get("GDNWINDOW_CACHE")
    folder = pathlib.Path(named) if named else HERE.parents[1] / ".cache"
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
    return folder


def key() -> str:
    """Everything that the weights depend on, but the kind of CPU."""
    digest = hashlib.sha256()
    for source in (MAKER, HERE / "tasks.py"):
        digest.update(source.read_bytes())
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    digest.update("\n".join([platform.python_version(), *versions]).encode())
    return digest.hexdigest()[:16]


def checkpoint() -> pathlib.Path:
    """The folder of the checkpoint; trains it if the cache has none."""
    kept = cache_folder() / f"tiny-qwen35-{key()}"
    if kept.is_dir():
        return kept
    # A folder gets its final name only when complete, so a run that was cut short leaves nothing
    # to be used.
    making = pathlib.Path(tempfile.mkdtemp(prefix=".tiny-qwen35-", dir=cache_folder()))
    try:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run([sys.executable, str(MAKER), str(making)], check=True, env=environment)
        try:
            making.rename(kept)
        except OSError:
            if not kept.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return kept


if __name__ == "__main__":
    print(checkpoint())
