"""One run of the engine, as the tests look at it."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import pathlib
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Said:
    """What a request said: tokens, their log-probabilities, and the gap between the two
    likeliest tokens.
    """

    tokens: list[int]
    logprobs: list[float]
    margins: list[float]
    cached: int


@dataclasses.dataclass(frozen=True)
class Row:
    """A request in one step: tokens computed before it, tokens run, drafts among those,
    tokens sampled.
    """

    computed: int
    scheduled: int
    drafts: int
    sampled: int


@dataclasses.dataclass(frozen=True)
class Result:
    path: pathlib.Path
    said: dict[str, Said]
    steps: list[dict[str, Row]]
    draft_margins: list[dict[str, list[float]]]
    blocks: dict[str, list[list[int]]]
    facts: dict[str, Any]

    @classmethod
    def read(cls, path: pathlib.Path) -> Result:
        data = json.loads(path.read_text())
        steps = [{name: Row(*row) for name, row in step.items()} for step in data.pop("steps")]
        said = {name: Said(**said) for name, said in data.pop("requests").items()}
        return cls(path, said, steps, data.pop("draft_margins"), data.pop("blocks"), data)

    @property
    def seconds(self) -> tuple[int, int]:
        return round(self.facts["seconds"]["start"]), round(self.facts["seconds"]["play"])

    @functools.cached_property
    def states(self) -> dict[str, np.ndarray]:
        """States of the accepted tokens after each step: "request/tokens computed/layer/part"."""
        with np.load(self.path.with_suffix(".npz")) as arrays:
            return dict(arrays)

    def rows(self, name: str) -> list[Row]:
        """The steps of one request in order."""
        return [step[name] for step in self.steps if name in step]

    def accepted(self) -> collections.Counter[tuple[int, int]]:
        """How often a step ran so many drafts and sampled so many tokens; prompt steps are
        left out.
        """
        return collections.Counter(
            (row.drafts, row.sampled)
            for name in self.said
            for row in self.rows(name)[1:]
            if row.sampled
        )

    def draftless_after_acceptance(self) -> int:
        """Steps without drafts right after a step of the same request that accepted drafts."""
        return sum(
            before.sampled > 1 and row.drafts == 0 and row.scheduled == 1
            for name in self.said
            for before, row in zip(self.rows(name), self.rows(name)[1:], strict=False)
        )
