"""Write a wheel from parts of other wheels, reproducible to the byte.

Members that do not change are copied as they lie in the source, compressed; the few
that do are stored. So the result does not depend on any machine's zlib, and a 300 MB
wheel takes seconds. The `wheel` package then reads it back, every hash checked.
"""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import shutil
import stat
import struct
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from wheel.wheelfile import WheelError, WheelFile

from tools import files
from tools.errors import ToolError

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
CHUNK = 1 << 20


@dataclass(frozen=True)
class Kept:
    """A member of an existing wheel, with the hash its RECORD gives."""

    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    digest: str
    size: str

    def read(self) -> bytes:
        return self.archive.read(self.info)

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.info.external_attr >> 16)


@dataclass(frozen=True)
class Fresh:
    """A member with new content."""

    content: bytes
    mode: int = 0o644

    def read(self) -> bytes:
        return self.content


Plan = dict[str, Kept | Fresh]


def open_wheel(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise ToolError(f"{path.name} cannot be read ({error}); run `make fetch`.") from None


def dist_info(archive: zipfile.ZipFile) -> str:
    """Return the name of a wheel's dist-info folder."""
    names = {name.partition("/")[0] for name in archive.namelist()}
    found = [name for name in names if name.endswith(".dist-info")]
    if len(found) != 1 or any(name.endswith(".data") for name in names):
        raise ToolError(
            f"{archive.filename} has {len(found)} dist-info folders or a .data folder; "
            f"the overlay knows wheels with one dist-info only: use VIA=setup."
        )
    return found[0]


def members(archive: zipfile.ZipFile) -> Plan:
    """Return every member of a wheel except RECORD, in order."""
    info = dist_info(archive)
    text = archive.read(f"{info}/RECORD").decode("utf-8")
    rows = {row[0]: row for row in csv.reader(io.StringIO(text)) if row}
    plan: Plan = {}
    for item in archive.infolist():
        if item.is_dir() or item.filename == f"{info}/RECORD":
            continue
        row = rows.get(item.filename)
        if row is None:
            raise ToolError(f"{archive.filename}: {item.filename} is not in its RECORD.")
        plan[item.filename] = Kept(archive, item, row[1], row[2])
    return plan


def record(plan: Plan, info: str) -> bytes:
    """Return the RECORD file of a plan."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for name, member in plan.items():
        if isinstance(member, Kept):
            writer.writerow((name, member.digest, member.size))
        else:
            raw = hashlib.sha256(member.content).digest()
            digest = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
            writer.writerow((name, f"sha256={digest}", len(member.content)))
    writer.writerow((f"{info}/RECORD", "", ""))
    return text.getvalue().encode()


def write(plan: Plan, info: str, path: Path, epoch: int) -> None:
    """Write the wheel and read it back."""
    content = {**plan, f"{info}/RECORD": Fresh(record(plan, info))}
    with files.partial(path) as temporary:
        with zipfile.ZipFile(temporary, "w") as target:
            for name, member in content.items():
                if isinstance(member, Kept):
                    _copy(member, target, name)
                else:
                    _store(member, target, name, epoch)
        temporary.chmod(0o644)
    read_back(path)


def read_back(path: Path) -> None:
    """Check every hash of a wheel with the `wheel` package."""
    try:
        with WheelFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    while member.read(CHUNK):
                        pass
    except (WheelError, zipfile.BadZipFile) as error:
        raise ToolError(f"{path.name} is not a sound wheel: {error}") from None


def _copy(member: Kept, target: zipfile.ZipFile, name: str) -> None:
    source, out = member.archive.fp, target.fp
    if source is None or out is None:
        raise ToolError(f"{member.archive.filename} was closed while it was read.")
    source.seek(member.info.header_offset)
    header = LOCAL_HEADER.unpack(source.read(LOCAL_HEADER.size))
    source.seek(header[9] + header[10], io.SEEK_CUR)
    info = copy.copy(member.info)
    info.filename = name
    info.extra = b""
    info.flag_bits &= ~0x08  # sizes go into the header, not behind the data
    info.header_offset = target.start_dir
    out.seek(target.start_dir)
    out.write(info.FileHeader(zip64=False))
    left = info.compress_size
    while left:
        chunk = source.read(min(CHUNK, left))
        if not chunk:
            raise ToolError(f"{member.archive.filename} is truncated; run `make fetch`.")
        out.write(chunk)
        left -= len(chunk)
    # What ZipFile.writestr does once the data is out.
    target.start_dir = out.tell()
    target.filelist.append(info)
    target.NameToInfo[name] = info
    target._didModify = True  # type: ignore[attr-defined]  # noqa: SLF001


def _store(member: Fresh, target: zipfile.ZipFile, name: str, epoch: int) -> None:
    stamp = time.gmtime(epoch)
    info = zipfile.ZipInfo(name, stamp[:6])
    info.create_system = 3  # Unix, wherever this runs: the modes count
    info.external_attr = (stat.S_IFREG | member.mode) << 16
    target.writestr(info, member.content, zipfile.ZIP_STORED)


def unpack(plan: Plan, info: str, folder: Path, shared: Path | None = None) -> None:
    """Write a plan as an installed folder; big binaries are linked from a shared one."""
    content = {**plan, f"{info}/RECORD": Fresh(record(plan, info))}
    for name, member in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if shared and name.endswith(".so"):
            if not (shared / name).is_file():
                with files.partial(shared / name) as temporary:
                    _extract(member, temporary)
            _link(shared / name, path)
        else:
            _extract(member, path)


def _extract(member: Kept | Fresh, path: Path) -> None:
    if isinstance(member, Kept):
        with member.archive.open(member.info) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
    else:
        path.write_bytes(member.content)
    path.chmod(member.mode)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
