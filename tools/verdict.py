"""What became of a run of tests: pytest's exit code and its report, read together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree as ET

PASSED = "passed"
FAILED = "failed"
NOTHING = "no test ran"
ABORTED = "aborted"
# pytest's exit codes
GOOD, BAD, INTERRUPTED, EMPTY = 0, 1, 2, 5
REASON_LENGTH = 160


@dataclass(frozen=True)
class Run:
    """What became of one run of tests."""

    outcome: str
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reason: str = ""  # the first failure, or why there is no verdict
    remembered: bool = False
    failures: dict[str, str] = field(default_factory=dict)  # tests by their ids, with the reason
    left_out: dict[str, str] = field(default_factory=dict)  # failures that do not count

    def leave_out(self, names: Collection[str]) -> Run:
        """Return what the run says without some of its failures."""
        rest = {name: why for name, why in self.failures.items() if name not in names}
        gone = {name: why for name, why in self.failures.items() if name in names}
        if not gone:
            return self
        reason = next(iter(rest.values()), "" if self.passed else "no test that counts passed")
        outcome = FAILED if rest else PASSED if self.passed else NOTHING
        known = replace(self, outcome=outcome, failed=len(rest), reason=reason)
        return replace(known, failures=rest, left_out=gone)


def judge(code: int, report: Path, paths: tuple[str, ...] = ()) -> Run:
    """Say what pytest's exit code and report mean together; neither says enough alone.

    Failures are named if pytest itself ended the run: the tests of `paths` were all collected.
    """
    if code == EMPTY:
        return Run(NOTHING, 0, reason="every file was empty or skipped")
    try:
        suite = ET.parse(report).getroot()  # noqa: S314 - pytest wrote it just now
    except (OSError, ET.ParseError):
        return Run(ABORTED, 0, reason=f"pytest ended with exit code {code} and no report")
    cases = suite.findall(".//testcase")
    bad = [case for case in cases if case.find("failure") is not None or _error(case) is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(bad) - skipped
    counts = Run("", 0, passed, len(bad), skipped)
    if code == GOOD and not bad:
        if passed:
            return replace(counts, outcome=PASSED)
        return replace(counts, outcome=NOTHING, reason=f"all {skipped} were skipped")
    # A module that cannot be collected is an interruption to pytest, a failure here.
    if code in (BAD, INTERRUPTED) and bad:
        ended = {_id(case, paths): _reason(case) for case in bad} if code == BAD else {}
        return replace(counts, outcome=FAILED, reason=_reason(bad[0]), failures=ended)
    return replace(counts, outcome=ABORTED, reason=f"pytest ended with exit code {code}")


def _error(case: ET.Element) -> ET.Element | None:
    return case.find("error")


def _id(case: ET.Element, paths: tuple[str, ...]) -> str:
    """Return pytest's name of a test: the report has its file and classes with dots."""
    dotted, name = case.get("classname", ""), case.get("name", "")
    for path in paths:
        module = path.removesuffix(".py").replace("/", ".")
        if f"{dotted}.".startswith(f"{module}."):
            classes = dotted.removeprefix(module).replace(".", "::")
            return f"{path}{classes}::{name}"
    return f"{dotted}.{name}"


def _reason(case: ET.Element) -> str:
    found = case.find("failure")
    found = _error(case) if found is None else found
    text = "" if found is None else found.text or ""
    # A module that cannot be collected has its cause at the end only.
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    message = "" if found is None else found.get("message", "")
    word = lines[-1] if message.startswith("collection") and lines else message
    return " ".join(word.split())[:REASON_LENGTH] or "no reason given"
