"""A patch file: mail headers, a message, ``---``, a diff. Read here and written here.

Both directions are this project's own code, so that ``write(read(x)) == x`` does not
depend on git's version or on anybody's mail settings. ``git am`` and quilt read the
result as well; the tests hold both to it.
"""

from __future__ import annotations

import email.header
import email.utils
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from tools import hunks
from tools.errors import ToolError

MAIL_SEPARATOR = re.compile(r"From [0-9a-f]{40} ")
PREFIX = re.compile(r"\A\[(RFC |RESEND )*PATCH[^\]]*\]\s*")
IDENT = re.compile(r"\A(?P<name>[^<>\n]+) <(?P<mail>[^<>\n]+)>\Z")
DIFF = b"diff --git "
TRAILER = re.compile(r"\A(?P<key>[A-Za-z][A-Za-z0-9-]*): (?P<value>\S.*)\Z")


@dataclass(frozen=True)
class Ident:
    """An author, as git records one."""

    name: str
    mail: str
    epoch: int
    zone: str

    @property
    def date(self) -> str:
        """The date as mail writes it."""
        minutes = int(self.zone[1:3]) * 60 + int(self.zone[3:5])
        offset = timedelta(minutes=-minutes if self.zone[0] == "-" else minutes)
        return email.utils.format_datetime(datetime.fromtimestamp(self.epoch, timezone(offset)))


@dataclass(frozen=True)
class Patch:
    """One commit of the series, without its parent."""

    author: Ident
    subject: str
    body: str
    diff: bytes

    @property
    def message(self) -> str:
        return f"{self.subject}\n\n{self.body}\n" if self.body else f"{self.subject}\n"

    def trailers(self) -> list[tuple[str, str]]:
        return trailers(self.body)


def trailers(body: str) -> list[tuple[str, str]]:
    """Return the trailers: the last paragraph, if it holds nothing else."""
    last = body.rpartition("\n\n")[2].splitlines()
    found: list[tuple[str, str]] = []
    for line in last:
        match = TRAILER.match(line)
        if match:
            found.append((match["key"], match["value"].strip()))
        elif line[:1].isspace() and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            return []
    return found


def digest(data: bytes) -> str:
    """Return the sha256 of a file's content."""
    return hashlib.sha256(data).hexdigest()


def write(patch: Patch) -> bytes:
    """Return the file. There is one way to write a patch."""
    head = (
        f"From: {patch.author.name} <{patch.author.mail}>\n"
        f"Date: {patch.author.date}\n"
        f"Subject: {patch.subject}\n"
        f"\n"
    )
    body = f"{patch.body}\n" if patch.body else ""
    return head.encode() + body.encode() + b"---\n" + patch.diff


def read(data: bytes, name: str) -> Patch:
    """Read a patch file: the canonical form, or what ``git format-patch`` writes."""
    start = 0 if data.startswith(DIFF) else data.find(b"\n" + DIFF) + 1
    if not data.strip():
        raise ToolError(f"{name} is empty; restore it or remove it from the series.")
    if not start and not data.startswith(DIFF):
        raise ToolError(
            f"{name} holds no 'diff --git' line: it is truncated or no git patch; restore it."
        )
    head, diff = data[:start], data[start:]
    if b"\r\n" in head or b"\r\n" in diff.split(b"\n@@", 1)[0]:
        raise ToolError(f"{name} has Windows line endings; restore it with plain newlines.")
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{name}: the header is not UTF-8; save it as UTF-8.") from None
    if not diff.endswith(b"\n"):
        raise ToolError(f"{name} ends within a line: it is truncated; restore it.")
    hunks.check(diff, name, head.count(b"\n"))
    fields, message = _headers(text, name)
    subject = PREFIX.sub("", _plain(fields["subject"]))
    return Patch(_author(fields, name), subject, _body(message), diff)


def _headers(text: str, name: str) -> tuple[dict[str, str], str]:
    lines = text.split("\n")
    if lines and MAIL_SEPARATOR.match(lines[0]):
        del lines[0]
    fields: dict[str, str] = {}
    last = ""
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007 - used below
        if not line:
            break
        key, colon, value = line.partition(": ")
        if line[0] in " \t" and last:
            fields[last] += " " + line.strip()
        elif colon and re.match(r"[A-Za-z-]+\Z", key):
            last = key.lower()
            fields[last] = value.strip()
        else:
            break
    for needed in ("from", "date", "subject"):
        if not fields.get(needed):
            raise ToolError(
                f"{name} has no '{needed.title()}:' mail header; "
                f"commit the change in the checkout and run `make refresh` to write it."
            )
    return fields, "\n".join(lines[count:])


def _body(message: str) -> str:
    body = re.split(r"^---$", message, maxsplit=1, flags=re.MULTILINE)[0]
    return clean_message(body)


def clean_message(text: str) -> str:
    """Strip a message as ``git stripspace`` does, so that it survives git."""
    lines = [line.rstrip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip("\n"))


def _plain(value: str) -> str:
    if "=?" not in value:
        return value
    return str(email.header.make_header(email.header.decode_header(value)))


def _author(fields: dict[str, str], name: str) -> Ident:
    match = IDENT.match(_plain(fields["from"]))
    if not match:
        raise ToolError(f"{name}: 'From: {fields['from']}' is not 'Name <mail>'; correct it.")
    stamp = email.utils.parsedate_tz(fields["date"])
    if not stamp:
        raise ToolError(f"{name}: 'Date: {fields['date']}' is not a mail date; correct it.")
    offset = (stamp[9] or 0) // 60
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"
    author = match["name"].strip().strip('"')
    return Ident(author, match["mail"], int(email.utils.mktime_tz(stamp)), zone)
