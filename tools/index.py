"""The package index that the user's pip is set up for."""

from __future__ import annotations

import ast
import base64
import functools
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from tools import files
from tools.errors import ToolError
from tools.pin import Archive
from tools.say import say

JSON = "application/vnd.pypi.simple.v1+json"
CHUNK = 1 << 20
TIMEOUT = 60


@dataclass(frozen=True)
class Offer:
    """One file as the index lists it."""

    name: str
    url: str
    sha256: str
    yanked: bool


def _pip_setting(name: str) -> str | None:
    """Return a setting of pip: from the environment, else from its configuration files."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    table = _pip_configuration(os.environ.get("PIP_CONFIG_FILE", ""))
    return next(
        (table[key] for key in (f"download.{name}", f"global.{name}") if key in table), None
    )


@functools.cache
def _pip_configuration(_: str) -> dict[str, str]:
    # Not `pip config get`: without a flag it reads the user's own file only.
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = (line.partition("=") for line in done.stdout.splitlines())
    return {key: str(ast.literal_eval(value)) for key, mark, value in rows if mark}


def index_url() -> str:
    """Return the index pip would ask. No host is written in this project."""
    configured = _pip_setting("index-url")
    if configured:
        return configured.rstrip("/")
    try:
        from pip._internal.models.index import PyPI  # noqa: PLC0415 - may be missing
    except ImportError:
        raise ToolError(
            "no package index is known: set PIP_INDEX_URL, or install pip in this Python."
        ) from None
    return str(PyPI.simple_url)


def _open(url: str, accept: str) -> HTTPResponse:
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310
    if parts.username:
        # urllib takes user:password@ for part of the host's name.
        plain = f"{parts.username}:{parts.password or ''}"
        word = base64.b64encode(urllib.parse.unquote(plain).encode()).decode()
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        request = urllib.request.Request(bare.geturl(), headers={"Accept": accept})  # noqa: S310
        request.add_unredirected_header("Authorization", f"Basic {word}")
    context = ssl.create_default_context(cafile=_pip_setting("cert"))
    answer: HTTPResponse = urllib.request.urlopen(  # noqa: S310 - the user's own index
        request, timeout=TIMEOUT, context=context
    )
    return answer


def listing(project: str, instead: str = "FROM=DIR") -> list[Offer]:
    """Return every file the index serves of one project."""
    page = f"{index_url()}/{project}/"
    host = urllib.parse.urlsplit(page).hostname
    try:
        with _open(page, JSON) as answer:
            table = json.load(answer)
        return [
            Offer(
                str(row["filename"]),
                urllib.parse.urljoin(page, str(row["url"])),
                str(row.get("hashes", {}).get("sha256", "")),
                bool(row.get("yanked")),
            )
            for row in table["files"]
        ]
    except (OSError, HTTPException) as error:
        raise ToolError(
            f"the package index at {host} cannot be reached ({_reason(error)}); check the "
            f"network or PIP_INDEX_URL, or use {instead} with files at hand."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ToolError(
            f"the package index at {host} does not speak the JSON API; set PIP_INDEX_URL to "
            f"one that does, or use {instead} with files at hand."
        ) from None


def find(archive: Archive) -> str:
    """Return the URL of a pinned file."""
    for offer in listing(archive.project, "`make fetch FROM=DIR`"):
        if offer.name == archive.name:
            return offer.url
    host = urllib.parse.urlsplit(index_url()).hostname
    raise ToolError(
        f"the package index at {host} has no {archive.name}; set PIP_INDEX_URL to "
        f"another index, or use `make fetch FROM=DIR` with files at hand."
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return str(reason) or type(error).__name__


def download(archive: Archive, folder: Path) -> Path:
    """Return the pinned file from the cache, fetching it if need be."""
    path = folder / archive.name
    if path.is_file():
        if files.sha256(path) == archive.sha256:
            return path
        say(f"{archive.name} in the cache is damaged; fetching it again")
    url = find(archive)
    say(f"fetching {archive.name}")
    try:
        with files.partial(path) as temporary:
            with _open(url, "*/*") as answer, temporary.open("wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                if answer.length:  # what the server still owes
                    raise HTTPException("the connection was closed")
            check(temporary, archive)
            temporary.chmod(0o644)
    except (OSError, HTTPException) as error:
        raise ToolError(
            f"fetching {archive.name} broke off ({_reason(error)}); run `make fetch` again."
        ) from None
    return path


def check(path: Path, archive: Archive) -> None:
    """Stop unless a file is the pinned one."""
    found = files.sha256(path)
    if found != archive.sha256:
        raise ToolError(
            f"{archive.name} has sha256 {found}, but the pin says {archive.sha256}: the "
            f"download is incomplete or the index serves another file; nothing was kept."
        )
