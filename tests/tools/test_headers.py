from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools import headers, patchfile
from tools.errors import ToolError
from tools.headers import Context

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = tomllib.loads((CORPUS / "expected.toml").read_text())
GOOD = sorted((CORPUS / "pass").iterdir())
BAD = sorted((CORPUS / "fail").iterdir())
CONTEXT = Context(
    earlier=("core/first.patch", "core/second.patch"),
    exists=lambda path: path in ("tests/test_a.py", "tests/test_b.py"),
)


def findings(path: Path) -> list[str]:
    try:
        return headers.check(patchfile.read(path.read_bytes(), path.name), CONTEXT)
    except ToolError as error:
        return [str(error)]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_patch_has_no_finding(path: Path) -> None:
    assert findings(path) == []


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_patch_has_its_findings_and_no_others(path: Path) -> None:
    found = findings(path)
    expected = EXPECTED[path.stem]
    assert len(found) == len(expected), found
    for line, words in zip(found, expected, strict=True):
        assert words in line


def test_every_expectation_has_a_file() -> None:
    assert set(EXPECTED) == {path.stem for path in BAD}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_reading_and_writing_are_inverse(path: Path) -> None:
    patch = patchfile.read(path.read_bytes(), path.name)
    again = patchfile.write(patch)
    assert patchfile.read(again, path.name) == patch
    if not path.stem.startswith(("mbox", "folded")):
        assert again == path.read_bytes()
