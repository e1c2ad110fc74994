"""Every hunk's body is as long as its header says, whatever stands around it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import hunks, patchfile
from tools.errors import ToolError

ROOT = Path(__file__).parents[2]
FILE = "diff --git a/x b/x\n--- a/x\n+++ b/x\n"
NEW = "diff --git a/n b/n\nnew file mode 100644\nindex 000..111\n--- /dev/null\n+++ b/n\n"
BINARY = "diff --git a/b b/b\nindex 0..1\nGIT binary patch\nliteral 4\nLcmZ\n\nliteral 0\nH\n\n"
ONE = FILE + "@@ -1 +1 @@\n-a\n+b\n"
GOOD = {
    "one-line": ONE,
    "heading": FILE + "@@ -1 +1,2 @@ def f():\n a\n+b\n",
    "two": ONE + "@@ -9,2 +9,2 @@\n c\n-d\n+e\n" + NEW + "@@ -0,0 +1 @@\n+a\n",
    "empty-context": FILE + "@@ -1,3 +1,2 @@\n a\n\n-b\n",
    "no-newline": FILE
    + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end\n",
    "no-newline-then-file": ONE + "\\ No newline at end of file\n" + BINARY,
    "like-a-header": FILE + "@@ -1,2 +1,2 @@\n--- a/x\n+++ b/x\n-@@ -1 +1 @@\n+diff --git\n",
    "like-a-signature": FILE + "@@ -1,2 +1 @@\n a\n-- \n",
    "mode": "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n" + FILE + "@@ -1 +0,0 @@\n-a\n",
    "rename": "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
    "copy": "diff --git a/x b/y\nsimilarity index 90%\ncopy from x\ncopy to y\nindex 1..2\n"
    "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
    "removed": "diff --git a/x b/x\ndeleted file mode 100644\nindex 1..0\n",
    "binary": BINARY + NEW + "@@ -0,0 +1 @@\n+a\n",
    "binary-name-only": "diff --git a/b b/b\nindex 0..1\nBinary files a/b and b/b differ\n",
    "signature": ONE + "-- \n2.43.0\n\n",
}
BAD = {
    "new-fewer": (NEW + "@@ -0,0 +1,2 @@\n+a\n+b\n+c\n", 6, "0 and 2; 0 and 3"),
    "new-more": (NEW + "@@ -0,0 +1,4 @@\n+a\n+b\n+c\n", 6, "0 and 4; 0 and 3"),
    "old-fewer": (FILE + "@@ -1 +1 @@\n-a\n-b\n+c\n", 4, "1 and 1; 2 and 1"),
    "context": (FILE + "@@ -1,2 +1,2 @@\n-a\n+b\n c\n d\n", 4, "2 and 2; 3 and 3"),
    "only-one-side": (FILE + "@@ -1,2 +1,3 @@\n a\n b\n", 4, "2 and 3; 2 and 2"),
    "before-a-hunk": (ONE + "+c\n@@ -9 +9 @@\n-d\n+e\n", 4, "; 1 and 2"),
    "second-hunk": (ONE + "@@ -9,2 +9 @@\n-d\n+e\n", 7, "; 1 and 1"),
    "before-a-file": (ONE + "+c\n" + ONE, 4, "1 and 2"),
    "removed-dashes": (ONE + "--- c\n", 4, "; 2 and 1"),
    "added-pluses": (ONE + "+++ c\n", 4, "; 1 and 2"),
    "dropped-signature": (ONE + "-- \n+c\n", 4, "; 2 and 2"),
    "no-signature": (ONE + "-- \n", 4, "; 2 and 1"),
    "empty-line": (ONE + "\n", 4, "; 2 and 2"),
    "text": (ONE + "c\n", 7, "'c' is no part of a diff"),
    "index": (ONE + "index 1..2\n", 7, "'index 1..2' is no part of a diff"),
    "header": (NEW + "@@ -0,0 +1,2 @\n+a\n+b\n", 6, "'@@ -0,0 +1,2 @' is no part of a diff"),
    "signature-in-front": (ONE + "-- \n2.43\n" + FILE, 4, "; 2 and 1"),
}  # fmt: skip


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_sound_diff(text: str) -> None:
    hunks.check(text.encode(), "x.patch")


@pytest.mark.parametrize(("text", "line", "words"), BAD.values(), ids=BAD)
def test_damage_is_named(text: str, line: int, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        hunks.check(text.encode(), "x.patch", 10)
    message = str(caught.value).replace(" old and ", " and ")
    message = message.replace(" new lines, its body holds ", "; ")
    assert f"x.patch is damaged at line {10 + line}: " in message
    assert words in message
    assert message.endswith("commit the change in vendor/vllm and run `make refresh`.")
    assert "\n" not in message


@pytest.mark.parametrize("path", sorted((ROOT / "patches").rglob("*.patch")), ids=lambda p: p.stem)
def test_a_changed_count_is_found_in_every_hunk(path: Path) -> None:
    data = path.read_bytes()
    patchfile.read(data, path.name)
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        match = hunks.HUNK.match(line)
        if not match:
            continue
        for group in (1, 2):
            count = int(match[group] or 1)
            for wrong in {max(count - 1, 0), count + 1} - {count}:
                old, new = match[1] or b"1", match[2] or b"1"
                counts = (wrong, int(new)) if group == 1 else (int(old), wrong)
                changed = [*lines]
                changed[number] = b"@@ -1,%d +1,%d @@" % counts
                with pytest.raises(ToolError, match=f"at line {number + 1}: "):
                    patchfile.read(b"\n".join(changed), path.name)


def test_what_git_writes_is_sound(tmp_path: Path) -> None:
    def git(*argv: str) -> bytes:
        return subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x", *argv],
            cwd=tmp_path, check=True, capture_output=True,
        ).stdout  # fmt: skip

    git("init", "-q")
    files = {"a": b"1\n\n2\n", "b": bytes(range(256)), "c": b"no newline", "d": b"- \n" * 9}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    (tmp_path / "a").write_bytes(b"1\n\n-- 2\n++ 3")
    (tmp_path / "b").write_bytes(bytes(range(255, -1, -1)))
    (tmp_path / "c").write_bytes(b"no newline\nnone")
    (tmp_path / "d").write_bytes(b"- \n" * 3)
    (tmp_path / "c").chmod(0o755)
    (tmp_path / "d").rename(tmp_path / "e")
    (tmp_path / "empty").touch()
    git("add", "-A")
    git("commit", "-q", "-m", "y")
    for flags in ([], ["--binary"], ["-M10", "-C"], ["--no-renames", "-U0"], ["-R", "--binary"]):
        hunks.check(git("diff-tree", "-p", *flags, "HEAD~1", "HEAD"), "x.patch")
    patchfile.read(git("format-patch", "-1", "--stdout"), "x.patch")
