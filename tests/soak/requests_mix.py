"""Requests of mixed kinds, and what a server answers to one of them."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from tinymodel.tasks import Tasks, docstrings

DOCUMENTS, SHORT, BEHIND = 12, 120, 40
REGEX = "[0-9 ]{4,24}"


@dataclass(frozen=True)
class Ask:
    """One completion. Its client goes away after `leaves_after` chunks of the stream."""

    prompt: tuple[int, ...]
    max_tokens: int
    regex: str | None = None
    leaves_after: int | None = None

    def body(self, model: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "model": model, "prompt": list(self.prompt), "max_tokens": self.max_tokens,
            "temperature": 0, "logprobs": 2, "return_tokens_as_token_ids": True,
            "ignore_eos": self.regex is None, "stream": self.leaves_after is not None,
        }  # fmt: skip
        if self.regex:
            found["structured_outputs"] = {"regex": self.regex}
        return found


def draw(seed: int, count: int, *, most_tokens: int, block: int) -> list[Ask]:
    """Prompts that share prefixes, of one token or many; some structured, some left.

    Some end just before `block` tokens, so that they need another block while they decode.
    """
    rng = random.Random(seed)
    tasks = Tasks(seed, docstrings())
    names = sorted(tasks.makers)
    documents = [tasks.document(names[i % len(names)], block + BEHIND) for i in range(DOCUMENTS)]
    found = []
    for i in range(count):
        near = rng.randint(block - 12, block + 4)
        length = rng.choice((1, 2, rng.randint(3, 16), rng.randint(8, SHORT), near, near))
        found.append(
            Ask(
                prompt=tuple(rng.choice(documents)[:length]),
                max_tokens=rng.choice((1, rng.randint(2, 12), rng.randint(8, most_tokens))),
                regex=REGEX if i % 10 == 3 else None,
                leaves_after=rng.randint(1, 6) if i % 7 == 5 else None,
            )
        )
    return found


@dataclass(frozen=True)
class Answer:
    """The tokens of a completion, and at each the gap between the two likeliest."""

    tokens: tuple[str, ...]
    margins: tuple[float, ...]

    @classmethod
    def of(cls, reply: dict[str, Any]) -> Answer:
        found = reply["choices"][0]["logprobs"]
        margins = []
        for entry in found["top_logprobs"]:
            best = sorted(entry.values(), reverse=True)
            margins.append(best[0] - best[1] if len(best) > 1 else float("inf"))
        return cls(tuple(found["tokens"]), tuple(margins))


def parted(a: Answer, b: Answer) -> float | None:
    """None if two answers are equal, else how near a tie was where they part.

    One that merely ends before the other parts from it with certainty.
    """
    if a.tokens == b.tokens:
        return None
    pairs = zip(a.tokens, b.tokens, strict=False)
    at = next((i for i, (x, y) in enumerate(pairs) if x != y), None)
    return float("inf") if at is None else min(a.margins[at], b.margins[at])
