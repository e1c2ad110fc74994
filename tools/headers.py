"""What every patch must say about itself, and what its added lines must look like."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from unidiff.errors import UnidiffParseError
from unidiff.patch import Line, PatchedFile, PatchSet

from tools.patchfile import Patch

SUBJECT_LIMIT = 72
STATUS = ("Pending", "Submitted", "Backport", "Inappropriate", "Denied")
STATUS_LINE = re.compile(r"(?P<state>[A-Z][a-z]+)( \[(?P<why>[^\[\]]+)\])?\Z")
NEEDS_WHY = ("Submitted", "Backport", "Inappropriate", "Denied")
URL = re.compile(r"https?://\S+\Z")
REQUIRED = ("Upstream-Status", "Tests", "Depends", "Signed-off-by")
NO_TESTS = re.compile(r"none( \[(?P<why>[^\[\]]+)\])?\Z")
SIGNED = re.compile(r"[^<>]+ <[^<>@\s]+@[^<>\s]+>\Z")
NEAR_MISS = re.compile(
    r"^(upstream[-_ ]?status|tests?|depends?(-on)?|signed-off-by)\s*:", re.IGNORECASE
)
TEMPLATE = re.compile(r"\b(TODO|FIXME|XXX|WIP)\b")
NO_NEWLINE = re.compile(rb"^\+.*\n\\ No newline", re.MULTILINE)
SPDX = "# SPDX-License-Identifier: "


@dataclass(frozen=True)
class Context:
    """What a header may refer to."""

    earlier: tuple[str, ...]
    exists: Callable[[str], bool]


def check(patch: Patch, context: Context) -> list[str]:
    """Return one line for each thing that is wrong with a patch."""
    return [
        *_subject(patch),
        *_body(patch),
        *_trailers(patch, context),
        *_lines(patch),
    ]


def _subject(patch: Patch) -> Iterator[str]:
    subject = patch.subject
    if len(subject) > SUBJECT_LIMIT:
        yield f"the subject has {len(subject)} characters, {SUBJECT_LIMIT} at most"
    if subject.endswith("."):
        yield "the subject ends with a full stop"
    if re.match(r"\A(fixup|squash|amend)! ", subject):
        yield "the subject is an autosquash marker; run `make refresh`"


def _body(patch: Patch) -> Iterator[str]:
    paragraphs = patch.body.split("\n\n")
    if patch.trailers():
        paragraphs.pop()
    text = "\n\n".join(paragraphs).strip()
    if not text:
        yield "the message has no body: say why the change is needed"
    elif re.match(r"(From|Date|Subject): ", text):
        yield "the body starts like a mail header: git am would take it for one"
    if TEMPLATE.search(patch.message):
        yield "the message holds a TODO, FIXME, XXX or WIP marker"
    if re.search(r"^-- $", patch.message, re.MULTILINE):
        yield "the message holds a mail signature"


def _trailers(patch: Patch, context: Context) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for key, value in patch.trailers():
        found.setdefault(key, []).append(value)
    for key in REQUIRED:
        if key not in found:
            yield f"the trailer '{key}:' is missing{_hint(patch, key)}"
        elif len(found[key]) > 1 and key != "Signed-off-by":
            yield f"the trailer '{key}:' stands {len(found[key])} times"
    checks = {
        "Upstream-Status": _status,
        "Tests": _tests,
        "Depends": _depends,
        "Signed-off-by": _signed,
    }
    for key, check_value in checks.items():
        for value in found.get(key, []):
            yield from check_value(value, context)


def without_tests(patch: Patch) -> str:
    """Return the reason a patch gives for having no tests; empty when it gives none."""
    matches = [NO_TESTS.match(value) for key, value in patch.trailers() if key == "Tests"]
    return next((match["why"] for match in matches if match and match["why"]), "")


def depends(patch: Patch) -> list[str]:
    """Return the patches that a patch declares to need."""
    values = [value for key, value in patch.trailers() if key == "Depends"]
    names = [name for value in values for name in re.split(r"[,\s]+", value)]
    return [name for name in names if name != "none"]


def _tests(value: str, context: Context) -> Iterator[str]:
    match = NO_TESTS.match(value)
    if match:
        if not match["why"]:
            yield "Tests: none needs [a reason]"
        return
    for path in re.split(r"[,\s]+", value):
        if not context.exists(path.partition("::")[0]):
            yield f"Tests: {path} does not exist in the tree after this patch"


def _signed(value: str, _: Context) -> Iterator[str]:
    if not SIGNED.match(value):
        yield f"Signed-off-by: {value!r} is not 'Name <mail>'"


def _hint(patch: Patch, key: str) -> str:
    for line in patch.body.splitlines():
        match = NEAR_MISS.match(line)
        if match and match[0].lower().replace("_", "-").startswith(key.lower()[:7]):
            return f" (the line {line!r} is misspelt or not in the last paragraph)"
    return ""


def _status(value: str, _: Context) -> Iterator[str]:
    match = STATUS_LINE.match(value)
    if not match or match["state"] not in STATUS:
        yield (
            f"Upstream-Status: {value!r} is malformed: one of {' | '.join(STATUS)}, "
            f"then optionally [a reason or URL]"
        )
        return
    if match["state"] in NEEDS_WHY and not match["why"]:
        yield f"Upstream-Status: {match['state']} needs [a reason or URL]"
    if match["state"] == "Submitted" and match["why"] and not URL.match(match["why"]):
        yield "Upstream-Status: Submitted needs the [URL] of the submission"


def _depends(value: str, context: Context) -> Iterator[str]:
    names = re.split(r"[,\s]+", value)
    if names == ["none"]:
        return
    for name in names:
        if name not in context.earlier:
            yield (
                f"Depends: {name} is not a patch earlier in the series "
                f"(write 'none' or names such as topic/name.patch)"
            )


def _lines(patch: Patch) -> Iterator[str]:
    if b"\nGIT binary patch\n" in patch.diff:
        yield "it holds a binary change, which quilt cannot apply"
        return
    if NO_NEWLINE.search(patch.diff):
        yield "an added last line does not end with a newline"
    try:
        # newline='' keeps a stray carriage return visible.
        text = io.StringIO(patch.diff.decode("utf-8"), newline="")
        files = PatchSet(text)
    except UnicodeDecodeError:
        yield "an added line is not UTF-8"
        return
    except UnidiffParseError as error:
        yield f"the diff cannot be parsed ({error})"
        return
    for file in files:
        for line in added(file):
            for fault in _faults(line.value):
                yield f"{file.path}:{line.target_line_no}: added line with {fault}"
        if file.is_added_file:
            yield from _new_file(file.path, [line.value for line in added(file)])


def added(file: PatchedFile) -> list[Line]:
    """Return the lines a patch adds to a file."""
    return [line for hunk in file for line in hunk if line.is_added]


def _faults(text: str) -> Iterator[str]:
    text = text.removesuffix("\n")
    if text.endswith("\r"):
        yield "a carriage return"
    elif text != text.rstrip():
        yield "trailing whitespace"
    if re.match(r"\t* +\t", text):
        yield "a space before a tab"


def _new_file(path: str, lines: list[str]) -> Iterator[str]:
    if path.endswith(".py") and lines and not any(SPDX in line for line in lines[:2]):
        yield f"{path}: a new Python file without '{SPDX.strip()}' in its first two lines"
    if lines and not lines[-1].strip():
        yield f"{path}: a blank line at the end of a new file"
