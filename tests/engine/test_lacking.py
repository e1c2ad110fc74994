"""What is left out of a line's runs, and nothing of the main series'."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from conftest import asked, build_folder
from lacking import PREFIX_CACHING, lacks, record
from programs import PROGRAMS
from scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
CACHED = {"cache_window", "cache_ngram", "cache_async", "ranks_cache"}
CACHED |= {"sleep_report", "soak_report", "serve_report"}


def left_out(version: str, *patches: str) -> set[str]:
    series: dict[str, Any] = {
        "upstream": {"version": version},
        "patches": [{"name": name} for name in patches],
    }
    return {name for name in (*SCENARIOS, *PROGRAMS) if lacks(asked(name), series)}


def test_what_a_line_has_not_is_left_out() -> None:
    assert left_out("0.33.0", PREFIX_CACHING) == set()
    assert left_out("0.32.0") == CACHED | {"plain"}
    assert left_out("0.31.0", PREFIX_CACHING) == {"ngram_window", "cache_ngram"}


def test_this_build_says_what_it_is() -> None:
    found = record(build_folder())
    pin = tomllib.loads((ROOT / "vendor" / "upstream.toml").read_text())
    assert found["upstream"]["project"] == "vllm"
    if found["upstream"]["version"] == pin["upstream"]["version"]:
        assert not any(lacks(asked(name), found) for name in (*SCENARIOS, *PROGRAMS))
