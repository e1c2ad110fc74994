"""What a run asks for that the series under test has not: a line holds less than the main series.

The record in the build says which release it is of and which patches it has. Of the main series
nothing may be left out.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

PREFIX_CACHING = "gdn-recoverssm/prefix-caching.patch"
NGRAM_SINCE = (0, 32)
# Their own CPU path takes the block sizes of several cache groups for one, and fails.
NO_PLAIN_HYBRIDS = {(0, 32)}


def record(build: pathlib.Path) -> dict[str, Any]:
    (path,) = build.glob("vllm-*.dist-info/series.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def lacks(engine: dict[str, Any], series: dict[str, Any]) -> str:
    """Return what keeps a series from serving an engine's arguments, or nothing."""
    version = series["upstream"]["version"]
    release = tuple(int(part) for part in version.split(".")[:2])
    if engine.get("mode") == "plain" and release in NO_PLAIN_HYBRIDS:
        return f"vLLM {version} cannot serve hybrids on a CPU without the harness"
    if not engine.get("use_replayssm"):
        return ""
    patches = {patch["name"] for patch in series["patches"]}
    if engine.get("enable_prefix_caching") and PREFIX_CACHING not in patches:
        return f"the series on {version} has no {PREFIX_CACHING}"
    drafts = engine.get("speculative_config") or {}
    if drafts.get("method") == "ngram" and release < NGRAM_SINCE:
        return f"vLLM {version} has ngram drafts in Model Runner V1 alone"
    return ""
