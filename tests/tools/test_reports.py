"""docs/reports.md names tests and rules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import testids

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = "docs/reports.md"
GATE = "vllm/config/gdn_recoverssm.py"
TEST_ID = re.compile(r"`(tests/[\w./-]+\.py)::(\w+)(?:\[[^`]*\])?`")
RULE = re.compile(r"^\| .* \| `(\w+)` \|$", re.MULTILINE)
NAME = re.compile(r'^ +"(\w+)",$', re.MULTILINE)


def unknown(root: Path) -> list[str]:
    """Test ids and rules that the document names and nothing defines."""
    text = (root / DOCUMENT).read_text()
    ids, rules = TEST_ID.findall(text), RULE.findall(text)
    assert len(ids) == text.count(".py::"), "an id that is not read"
    found = testids.unknown(root, [f"{path}::{name}" for path, name in ids])
    names = set(NAME.findall(testids.source(root, GATE)))
    return found + [rule for rule in rules if rule not in names]


def test_every_named_test_and_rule_exists() -> None:
    assert unknown(ROOT) == []
    text = (ROOT / DOCUMENT).read_text()
    assert len(TEST_ID.findall(text)) > 50
    assert len(RULE.findall(text)) > 5


def test_every_report_has_a_test() -> None:
    """In the tables that have a column for it."""
    text = (ROOT / DOCUMENT).read_text()
    rows = [line for line in text.split("\n") if line.count(" | ") == 4]
    held = [row for row in rows if not row.startswith(("| report |", "| found in"))]
    assert len(held) > 30
    for row in held:
        _, _, tests, base, now = row.strip("| ").split(" | ")
        assert TEST_ID.search(tests), row
        assert re.match(r"(yes|no|n\.a\.|not reproduced)(?!\w)", base), row
        assert now == "yes", row


@pytest.mark.parametrize("where", ["checkout", "patches"])
def test_a_wrong_name_is_found(where: str, tmp_path: Path) -> None:
    own, patched = "tests/own/test_a.py", "tests/core/test_b.py"
    files = {
        own: "def test_one() -> None:\n",
        patched: "class TestIt:\n    async def test_two(self):\n",
        GATE: '        "sleep",\n',
    }
    for path, text in files.items():
        if path != own and where == "patches":
            lines = "".join(f"+{line}\n" for line in text.split("\n"))
            content = f"diff --git a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n@@ @@\n{lines}"
            target = tmp_path / "patches" / "topic" / f"{Path(path).stem}.patch"
        else:
            content = text
            target = tmp_path / ("" if path == own else "vendor/vllm") / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    document = tmp_path / DOCUMENT
    document.parent.mkdir()

    good = f"`{own}::test_one`<br>`{patched}::test_two[a case]`\n| x | `sleep` |\n"
    document.write_text(good)
    assert unknown(tmp_path) == []
    for name, wrong in (("test_one", "test_on"), ("test_two", "test_twos"), ("sleep", "asleep")):
        document.write_text(good.replace(name, wrong))
        assert [found.rpartition("::")[2] for found in unknown(tmp_path)] == [wrong]
    document.write_text(good.replace("test_b.py", "test_c.py"))
    assert unknown(tmp_path) == ["tests/core/test_c.py::test_two"]
