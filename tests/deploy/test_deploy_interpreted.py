"""What deploy/ names is there: flags by vLLM's own parser, metrics by its source."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import serve_lines

sys.path.insert(0, str(serve_lines.DEPLOY / "grafana"))

import make_dashboard

LINES = [
    pytest.param(line, id=f"{name} {number}")
    for name, lines in serve_lines.all_lines().items()
    for number, line in enumerate(lines)
]
METRIC = re.compile(r"vllm:\w+")
# Of what a name in the source becomes; gauges keep it.
ENDS = ("_total", "_bucket", "_sum", "_count", "")


def sources() -> str:
    """All of vLLM's Python that could name a metric."""
    found = importlib.util.find_spec("vllm")
    assert found is not None
    assert found.origin is not None
    texts = (path.read_text(encoding="utf-8") for path in Path(found.origin).parent.rglob("*.py"))
    return "\n".join(text for text in texts if '"vllm:' in text)


def exists(name: str, text: str) -> bool:
    return any(f'"{name.removesuffix(end)}"' in text for end in ENDS if name.endswith(end))


@pytest.mark.parametrize("line", LINES)
def test_flags_are_those_of_vllm_serve(line: list[str]) -> None:
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    read = make_arg_parser(FlexibleArgumentParser()).parse_args(line)
    assert read.model_tag
    assert read.use_replayssm
    assert read.speculative_config["method"] in {"mtp", "ngram"}


def test_every_artefact_has_a_line() -> None:
    found = serve_lines.all_lines()
    assert {name.split("/")[1] for name in found if name.startswith("deploy/")} == {
        "docker",
        "kubernetes",
        "ray",
        "systemd",
    }
    assert found.keys() >= set(serve_lines.DOCUMENTS)


def test_the_dashboard_names_metrics_that_exist() -> None:
    """The window's own are named by the patches that bring them."""
    panels = json.loads(make_dashboard.OUT.read_text())["panels"]
    named = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in METRIC.findall(target["expr"])
    }
    text = sources()
    assert set(make_dashboard.WINDOW) <= named
    assert len(named) > 12
    assert [n for n in sorted(named - set(make_dashboard.WINDOW)) if not exists(n, text)] == []


def test_a_metric_that_does_not_exist_is_seen() -> None:
    text = '"vllm:num_drafts", "vllm:seconds"'
    assert exists("vllm:num_drafts_total", text)
    assert exists("vllm:seconds_bucket", text)
    assert not exists("vllm:num_draft_total", text)
    assert not exists("vllm:num_drafts_sums", text)
