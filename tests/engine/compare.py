"""Comparisons of runs.

Equal tokens are not enough: a state that misses a token goes unseen in about half of the
prompts.  It moves log-probabilities, though, so those are compared too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from result import Result, Said

# Where the reference's two likeliest tokens are this near, the engine may take the other:
# rounding decides.
TIE = 0.07
# Two runs draft differently where the margins of both add up to what rounding moves them by: up
# to 0.125 was seen, two bf16 steps of a logit between 8 and 16.
DRAFT_TIE = 0.125


def prefix(said: Said, reference: Said) -> int:
    """Tokens of `said` that are also the reference's, from the start."""
    pairs = enumerate(zip(said.tokens, reference.tokens, strict=False))
    return next(
        (i for i, (ours, theirs) in pairs if ours != theirs),
        min(len(said.tokens), len(reference.tokens)),
    )


def drift(said: Said, reference: Said) -> np.ndarray:
    """How far log-probabilities are apart while the tokens are the same."""
    same = prefix(said, reference)
    return np.abs(np.subtract(said.logprobs[:same], reference.logprobs[:same]))


def rounding(said: Said, reference: Said) -> dict[str, float]:
    """Bounds on what rounds as coarsely as `said`, at other times, against `said` or the reference.

    Twice as far as `said` is, since both are rounded, and no less than fp32 states are held to.
    """
    off = drift(said, reference)
    return {"largest": max(0.01, 2 * off.max()), "mean": max(0.001, 2 * off.mean())}


def assert_same_words(
    run: Result, reference: Result, largest: float, mean: float, names: Iterable[str] | None = None
) -> None:
    """Every request says what it says in the reference, with nearly the same log-probabilities.

    `largest` and `mean` bound their differences.  Tokens may differ at a near tie; what follows
    one is not compared, so nearly all tokens have to come before.
    """
    compared = total = 0
    for name in names or run.said:
        said, other = run.said[name], reference.said[name]
        off = drift(said, other)
        same = off.size
        if same < len(said.tokens):
            margin = other.margins[same]
            assert margin < TIE, (
                f"{name}: token {same} differs, and the reference's margin there is {margin:.3f}"
            )
        assert off.max(initial=0) <= largest, (
            f"{name}: log-probability off by {off.max():.4f} at {off.argmax()}"
        )
        assert same == 0 or off.mean() <= mean, (
            f"{name}: log-probabilities off by {off.mean():.5f} on average"
        )
        compared, total = compared + same, total + len(said.tokens)
    assert compared >= 0.9 * total, f"only {compared} of {total} tokens come before near ties"


def assert_same_steps(run: Result, other: Result) -> None:
    """The same steps, up to one where a draft or a token was nearly tied and the runs went
    either way.

    A token's tie is for assert_same_words to judge.
    """
    for number, (step, reference) in enumerate(zip(run.steps, other.steps, strict=False)):
        if step == reference:
            continue
        for name in step.keys() | reference.keys():
            ours, theirs = step.get(name), reference.get(name)
            if ours == theirs:
                continue
            where = f"step {number}, {name}: {ours} instead of {theirs}"
            assert ours and theirs, where
            assert dataclasses.replace(ours, sampled=theirs.sampled) == theirs, where
            if prefix(run.said[name], other.said[name]) < len(run.said[name].tokens):
                continue
            parted = min(ours.sampled, theirs.sampled) - 1  # the first draft that differs
            assert 0 <= parted < ours.drafts, where
            margins = [r.draft_margins[number][name][parted : parted + 1] for r in (run, other)]
            assert all(margins), f"{where}, and no model proposed that draft"
            gap = sum(margin for (margin,) in margins)
            assert gap <= DRAFT_TIE, f"{where}, and the margins there add up to {gap:.3f}"
        return
    assert len(run.steps) == len(other.steps)


def distance(state: np.ndarray, other: np.ndarray) -> float:
    """Relative to the size of `other`."""
    return float(np.linalg.norm(state - other) / np.linalg.norm(other))


def nearest(
    states: Mapping[str, np.ndarray], key: str, others: Mapping[str, np.ndarray], reach: int = 3
) -> int:
    """Which token count's state in `others` is nearest to state `key`."""
    name, count, rest = key.split("/", 2)
    around = range(int(count) - reach, int(count) + reach + 1)
    distances = {
        n: distance(states[key], others[f"{name}/{n}/{rest}"])
        for n in around
        if f"{name}/{n}/{rest}" in others
    }
    return min(distances, key=distances.__getitem__)
