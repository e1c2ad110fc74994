"""Which tests a file defines, in the project or in the patched tree."""

from __future__ import annotations

import re
from pathlib import Path

DEFINED = re.compile(r"^[ ]*(?:async )?def (test_\w+)\(", re.MULTILINE)


def source(root: Path, path: str) -> str:
    """A file of the project or of the patched tree; without a checkout, what patches add to it."""
    checkout = root / "vendor" / "vllm"
    for folder in (root, checkout):
        if (folder / path).is_file():
            return (folder / path).read_text(encoding="utf-8")
    if checkout.is_dir():
        return ""
    added = []
    for patch in sorted((root / "patches").rglob("*.patch")):
        for part in re.split(
            r"^diff --git ", patch.read_text(encoding="utf-8"), flags=re.MULTILINE
        ):
            if f"\n+++ b/{path}\n" in part:
                added += [line[1:] for line in part.split("\n") if line.startswith("+")]
    return "\n".join(added)


def unknown(root: Path, ids: list[str]) -> list[str]:
    """Return those of the ids, path::name, that nothing defines."""
    paths = {name.partition("::")[0] for name in ids}
    defined = {path: set(DEFINED.findall(source(root, path))) for path in paths}
    return [name for name in ids if name.partition("::")[2] not in defined[name.partition("::")[0]]]
