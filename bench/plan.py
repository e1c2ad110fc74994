"""Which engines are measured, which of them start together, and in which order they take turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import geometry

# Mean tokens a step (accepted drafts and one more) by synthetic acceptance.
LEVELS: dict[int, dict[str, float]] = {
    1: {"middle": 1.6, "low": 1.3, "high": 1.9},
    3: {"middle": 2.5, "low": 1.5, "high": 3.5},
    4: {"middle": 3.0, "low": 2.0, "high": 4.0},
    7: {"middle": 4.0, "low": 2.0, "high": 6.0},
}
BATCHES = (1, 8, 32, 64, 128, 256)
MODES = ("none", "snapshot", "window")
REPEATS = 3
STEPS = 40  # verify steps that a measurement lasts, about
PLAIN_TOKENS = 96  # a measurement without speculation, or with the acceptance that comes
# Where a step takes a few ms, most of them the host's, one hiccup weighs much.
SHORT_STEPS = ("qwen3.5-0.8b", "tiny")
MORE, MORE_UP_TO = 3, 32  # times as many steps there, up to this batch
PLAIN_KV_GIB = 8  # 256 requests without drafts
MOST_ENGINES = 3  # that start together: more disturb each other where steps are short
GROUPS = (
    ("qwen3.6-27b-8-of-64-layers", 4),
    ("qwen3.5-0.8b", 4),
    ("tiny", 4),
    *((name, n) for n in (7, 1, 3) for name in ("qwen3.6-27b-8-of-64-layers", "qwen3.5-0.8b")),
    *(("tiny", n) for n in (7, 1, 3)),
)
QUICK_GROUPS = (("qwen3.5-0.8b", 4),)
ENGINE_FIELDS = ("geometry", "mode", "drafts", "alone")
ROW_FIELDS = (*ENGINE_FIELDS, "level", "batch", "repeat")


@dataclass(frozen=True)
class Leg:
    """One engine of one mode; `alone` has the GPU to itself."""

    geometry: str
    mode: str
    drafts: int
    alone: bool = False

    @property
    def name(self) -> str:
        drafts = f" {self.drafts} drafts" if self.drafts else ""
        return f"{self.geometry} {self.mode}{drafts}{' alone' * self.alone}"

    @property
    def fields(self) -> dict[str, Any]:
        """What names the engine in a row, `alone` only where it is."""
        found = {"geometry": self.geometry, "mode": self.mode, "drafts": self.drafts}
        return found | {"alone": True} if self.alone else found

    def kv_gib(self, override: int | None = None) -> int:
        """Size of the cache: equal for window and snapshot; less is plenty without drafts."""
        if self.alone:
            return override or geometry.ALONE_KV_GIB
        size = override or geometry.KV_GIB[self.geometry]
        return size if self.drafts else min(size, PLAIN_KV_GIB)

    def gib(self, override: int | None = None, ranks: int = 1) -> float:
        """Memory that the engine takes of a GPU, at most; ranks share the weights."""
        return geometry.WEIGHTS_GIB[self.geometry] / ranks + self.kv_gib(override)

    @property
    def levels(self) -> dict[str, float | None]:
        """Name -> mean tokens a step to set, None where it is not ours to set."""
        if not self.drafts:
            return {"none": None}
        return {"real": None} if self.geometry == "tiny" else dict(LEVELS[self.drafts])


@dataclass(frozen=True)
class Item:
    """One measurement of one engine."""

    leg: Leg
    level: str
    acceptance: float | None
    batch: int
    repeat: int

    @property
    def fields(self) -> dict[str, Any]:
        mine = {"level": self.level, "batch": self.batch, "repeat": self.repeat}
        return self.leg.fields | mine

    @property
    def tokens(self) -> int:
        short = self.leg.geometry in SHORT_STEPS and self.batch <= MORE_UP_TO
        tokens = round(STEPS * self.acceptance) if self.acceptance else PLAIN_TOKENS
        return tokens * MORE if short else tokens


def groups(
    names: Iterable[tuple[str, int]], modes: Iterable[str] = MODES, *, alone: bool = False
) -> list[list[Leg]]:
    """Engines that are compared with each other; no speculation once for each geometry."""
    seen: set[str] = set()
    found = []
    for name, drafts in names:
        legs = [Leg(name, mode, drafts, alone) for mode in modes if mode != "none"]
        if "none" in modes and name not in seen:
            legs.append(Leg(name, "none", 0, alone))
            seen.add(name)
        found.append(legs)
    return found


def parties(
    found: list[list[Leg]], gpu_gib: float, override: int | None = None, ranks: int = 1
) -> list[list[Leg]]:
    """Groups packed, in their order, into engines that fit the GPU together.

    A group that does not fit is cut: its engines without speculation start on their own. One
    that is to be alone shares with none.
    """
    made: list[list[Leg]] = []
    room, seats = 0.0, 0
    for group in found:
        whole = sum(leg.gib(override, ranks) for leg in group) <= gpu_gib
        plain = [leg for leg in group if not leg.drafts]
        pieces = [group] if whole else [[leg for leg in group if leg.drafts], plain]
        if any(leg.alone for leg in group):
            pieces = [[leg] for leg in group]
        for piece in filter(None, pieces):
            need = sum(leg.gib(override, ranks) for leg in piece)
            if need > gpu_gib:
                raise ValueError(
                    f"{', '.join(leg.name for leg in piece)} need {need:.0f} GiB together and the "
                    f"GPU has {gpu_gib:.0f}; set a smaller --kv-gib or --alone."
                )
            if need > room or len(piece) > seats or piece[0].alone:
                made.append([])
                room, seats = gpu_gib, MOST_ENGINES
            made[-1] += piece
            room, seats = room - need, seats - len(piece)
    return made


def turns(legs: list[Leg], batches: Iterable[int], repeats: int) -> Iterator[Item]:
    """Every measurement of a party, the most wanted first.

    Engines take turns at each load, another one first in each repeat, so that a drift of
    the machine meets all of them alike.
    """
    ranks = max((len(leg.levels) for leg in legs), default=0)
    batches = list(batches)
    for rank in range(ranks):
        for repeat in range(repeats):
            order = legs[repeat % len(legs) :] + legs[: repeat % len(legs)]
            for batch in batches:
                for leg in order:
                    if rank < len(leg.levels):
                        level, acceptance = list(leg.levels.items())[rank]
                        yield Item(leg, level, acceptance, batch, repeat)
