"""The documents that the tiny model learns, and that the engine tests prompt it with.

Their text comes from the docstrings of the standard library, so it changes with the Python version.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
import random
from collections.abc import Callable


def docstrings(size: int = 4000) -> str:
    """The first `size` characters of the docstrings of some standard library modules."""
    found: list[str] = []
    for name in ("textwrap", "bisect", "heapq", "shlex", "random", "functools", "statistics"):
        tree = ast.parse(pathlib.Path(importlib.import_module(name).__file__ or "").read_text())
        defs = (ast.Module, ast.ClassDef, ast.FunctionDef)
        found += [
            ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, defs)
        ]
    return "\n\n".join(d for d in found if len(d) > 80).encode("ascii", "ignore").decode()[:size]


class Tasks:
    """Documents whose start is random and whose continuation mostly follows from it."""

    def __init__(self, seed: int, corpus: str) -> None:
        self.rng, self.corpus = random.Random(seed), corpus
        self.words = sorted(
            {w for w in corpus.split() if w.isalpha() and w.islower() and 3 <= len(w) <= 6}
        )
        self.makers: dict[str, Callable[[int], str]] = dict(
            text=self.text,
            copy=self.copy,
            count=self.count,
            walk=self.walk,
            brackets=self.brackets,
            sums=self.sums,
        )
        self.weights = dict(text=2, copy=2, count=1, walk=1, brackets=1, sums=1)

    def text(self, n: int) -> str:
        """A stretch of the fixed corpus, to be learned by heart."""
        start = self.rng.randrange(len(self.corpus) - n)
        return self.corpus[start : start + n]

    def copy(self, n: int) -> str:
        """A random phrase over and over; in half of the documents its letters are distinct."""
        picks: list[Callable[..., list[str]]] = [self.rng.sample, self.rng.choices]
        letters = "".join(
            self.rng.choice(picks)("abcdefghijklmnopqrstuvwxyz", k=self.rng.randint(5, 20))
        )
        phrase = self.rng.choice(["{};", "{} ", "<{}>"]).format(letters)
        return phrase * (n // len(phrase) + 1)

    def count(self, n: int) -> str:
        """Numbered lines with one or two words in turn."""
        number, step = self.rng.randrange(900), self.rng.randint(1, 2)
        words = self.rng.sample(self.words, self.rng.randint(1, 2))
        return "".join(
            f"{(number + step * i) % 1000:03d} {words[i % len(words)]}\n" for i in range(n // 8 + 1)
        )

    def walk(self, n: int) -> str:
        """Letters and digits by turns, each with the stride of one of four rules: a period of
        260.
        """
        rule, letter, digit = (self.rng.randrange(k) for k in (4, 26, 10))
        strides = ((3, 1), (5, 3), (7, 7), (11, 9))[rule]
        pairs = (
            f"{chr(97 + (letter + strides[0] * i) % 26)}{(digit + strides[1] * i) % 10}"
            for i in range(n // 2)
        )
        return "ABCD"[rule] + "".join(pairs)

    def brackets(self, n: int) -> str:
        """Nested brackets, line by line one level deeper, from one level again after eight."""
        first, depth, out = self.rng.randrange(4), self.rng.randint(1, 8), ""
        while len(out) < n:
            kinds = [(first + i) % 4 for i in range(depth)]
            out += (
                "".join("([{<"[k] for k in kinds)
                + "".join(")]}>"[k] for k in reversed(kinds))
                + "\n"
            )
            depth = depth % 8 + 1
        return out

    def sums(self, n: int) -> str:
        """A chain of sums modulo 100."""
        x, y, out = self.rng.randrange(100), self.rng.randint(1, 5), ""
        while len(out) < n:
            out += f"{x:02d}+{y}={(x + y) % 100:02d};"
            x = (x + y) % 100
        return out

    def document(self, name: str, length: int) -> list[int]:
        """One document as token ids (a token is a byte)."""
        return list(self.makers[name](length)[:length].encode())

    def batch(
        self, rows: int, length: int, copy_weight: float = 2
    ) -> tuple[list[str], list[list[int]]]:
        """Documents of tasks picked at random, with the names of their tasks."""
        weights = self.weights | dict(copy=copy_weight)
        names = self.rng.choices(list(weights), list(weights.values()), k=rows)
        return names, [self.document(name, length) for name in names]
