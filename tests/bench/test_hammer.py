"""tests/gpu/hammer.py: what a round makes of the answers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "gpu"))

import hammer


def answer(tokens: list[int], *, logprobs: bool) -> SimpleNamespace:
    entries = [{t: SimpleNamespace(logprob=x) for t, x in ((0, -0.1), (1, -2.6))} for _ in tokens]
    completion = SimpleNamespace(token_ids=tokens, logprobs=entries if logprobs else None)
    return SimpleNamespace(outputs=[completion], num_cached_tokens=0)


class FakeEngine:
    """Says what it is told, with log-probabilities if they are asked for."""

    def __init__(self, *said: list[int]) -> None:
        self.said = list(said)

    def generate(self, given: Any, sampling: str, **kwargs: Any) -> list[SimpleNamespace]:
        return [answer(self.said.pop(0), logprobs=sampling == "with")]


@pytest.mark.parametrize(
    ("later", "margins"), [([1, 2, 3], []), ([1, 2, 4], [2.5]), ([9, 2, 3], [2.5])]
)
def test_a_round_is_judged_by_the_first(later: list[int], margins: list[float]) -> None:
    found = hammer.Hammer.__new__(hammer.Hammer)
    found.llm = FakeEngine([1, 2, 3], later, [1, 2, 3])
    found.sampling, found.prompts, found.first = ["with", "without"], {1: [[5]]}, {}
    assert found.round(0, 1)["margins_where_parted"] == []
    assert found.round(1, 1)["margins_where_parted"] == margins
    assert found.round(2, 1)["margins_where_parted"] == []
