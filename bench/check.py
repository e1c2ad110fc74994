"""Compare the committed measurements with bench/targets.toml: `python bench/check.py`.

Prints each row that falls short with both figures, and what was not measured. Exit codes:
0 every target is reached, 1 a row falls short or is not measured, 2 usage.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import store
from figures import FIGURES, rows_of

HERE = Path(__file__).resolve().parent
SOURCES = {"kernels": "kernels", "engine": "engine"}  # source -> end of the file's name
LABELS = {"batch": "B", "state": "", "geometry": "", "level": "acceptance"}


@dataclass(frozen=True)
class Verdict:
    """A target against the rows that it is about."""

    target: dict[str, Any]
    reached: list[tuple[str, float]]
    short: list[tuple[str, float]]
    missing: list[str]

    @property
    def worst(self) -> float | None:
        """The figure of the row that is furthest from the target."""
        values = [value for _, value in self.reached + self.short]
        if not values:
            return None
        return max(values) if self.target["better"] == "lower" else min(values)


def targets(path: Path = HERE / "targets.toml") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(path.read_text())["target"]
    return found


def files(folder: Path, gpu: str) -> dict[str, dict[str, Any]]:
    """Return the measurements that exist, by source."""
    paths = {source: folder / f"{gpu}-{end}.json" for source, end in SOURCES.items()}
    return {source: store.read(path) for source, path in paths.items() if path.exists()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Let a command line say which measurements it is about."""
    parser.add_argument("--results", type=Path, default=HERE / "results", metavar="FOLDER")
    parser.add_argument("--gpu", default="h200", help="which files: GPU-kernels.json and so on")


def name_of(fields: dict[str, Any]) -> str:
    return ", ".join(f"{LABELS.get(name, name)} {value}".strip() for name, value in fields.items())


def judge(target: dict[str, Any], rows: list[dict[str, Any]]) -> Verdict:
    verdict = Verdict(target, [], [], [])
    names = list(target["rows"])
    by_fields = {tuple(row.get(name) for name in names): row for row in rows}
    for values in itertools.product(*target["rows"].values()):
        row, name = by_fields.get(values), name_of(dict(zip(names, values, strict=True)))
        value = None if row is None else FIGURES[target["figure"]](row)
        if value is None:
            verdict.missing.append(name)
            continue
        lower = target["better"] == "lower"
        good = value <= target["must"] if lower else value >= target["must"]
        (verdict.reached if good else verdict.short).append((name, value))
    return verdict


def judged(folder: Path, gpu: str, path: Path = HERE / "targets.toml") -> list[Verdict]:
    found = files(folder, gpu)
    rows = {source: rows_of(source, found) for source in SOURCES}
    return [judge(target, rows[target["source"]]) for target in targets(path)]


def number(value: float, unit: str = "", digits: int = 3) -> str:
    """Return a figure with its unit; never rounded so far that its integer part changes."""
    if not math.isfinite(value):
        return f"{value} {unit}".strip()
    text = f"{value:.1e}" if 0 < abs(value) < 1e-2 else f"{value:.{digits}g}"
    return f"{text if value < 10**digits else round(value)} {unit}".strip()


def bound(target: dict[str, Any]) -> str:
    word = "at most" if target["better"] == "lower" else "at least"
    return f"{word} {number(target['must'], target['unit'])}"


def report(verdicts: list[Verdict], *, every: bool = False) -> list[str]:
    """Return a line for each row that falls short and for each target with rows not measured.

    With `every` each row that was not measured is named, not only the first.
    """
    lines = []
    for verdict in verdicts:
        target = verdict.target
        total = len(verdict.reached) + len(verdict.short) + len(verdict.missing)
        lines += [
            f"short: {target['name']} [{name}]: {number(value, target['unit'], 4)}, must be "
            f"{bound(target)}"
            for name, value in verdict.short
        ]
        if verdict.missing:
            named = verdict.missing if every else verdict.missing[:1]
            lines.append(
                f"not measured: {target['name']}: {len(verdict.missing)} of {total} rows, must be "
                f"{bound(target)} ({'' if every else 'the first: '}{'; '.join(named)})"
            )
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--targets", type=Path, default=HERE / "targets.toml")
    parser.add_argument("--all", action="store_true", help="name every row that is not measured")
    args = parser.parse_args(argv)
    try:
        verdicts = judged(args.results, args.gpu, args.targets)
    except (store.UnreadableError, OSError, tomllib.TOMLDecodeError) as error:
        print(error, file=sys.stderr)
        return 2
    lines = report(verdicts, every=args.all)
    for line in lines:
        print(line)
    good = sum(not verdict.short and not verdict.missing for verdict in verdicts)
    print(f"{good} of {len(verdicts)} targets reached")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
