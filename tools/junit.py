"""What became of each test, from pytest's JUnit report. Standard library only: GPU hosts use it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

# xunit1 names the file of a test; the default names modules, which a path cannot be told from.
OPTIONS = ("-o", "junit_family=xunit1")
PASSED, FAILED, SKIPPED = range(3)  # places of a count


def counts(
    report: Path, rootdir: Path = Path(), folders: Iterable[Path] = ()
) -> dict[str, list[int]]:
    """Return how many cases of each test passed, failed and were skipped.

    Tests are named path::name, the path from the first of `folders` that holds it. What could not
    be collected is under the path of its file; of no report nothing is known.
    """
    found: dict[str, list[int]] = {}
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it
    except (OSError, ET.ParseError):
        return found
    for case in cases:
        name, is_module = case.get("name", ""), not case.get("classname")
        file = f"{name.replace('.', '/')}.py" if is_module else case.get("file", "")
        path = Path(os.path.normpath(rootdir / file))
        base = next((folder for folder in folders if path.is_relative_to(folder)), Path())
        key = path.relative_to(base).as_posix()
        row = found.setdefault(key if is_module else f"{key}::{name.partition('[')[0]}", [0, 0, 0])
        row[_place(case)] += 1
    return dict(sorted(found.items()))


def totals(tests: dict[str, list[int]]) -> tuple[int, int, int]:
    """Return how many cases passed, failed and were skipped in all."""
    good, bad, skipped = (sum(row[place] for row in tests.values()) for place in range(3))
    return good, bad, skipped


def _place(case: ET.Element) -> int:
    if case.find("failure") is not None or case.find("error") is not None:
        return FAILED
    return PASSED if case.find("skipped") is None else SKIPPED
