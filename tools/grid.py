"""What is proven of each patch: a table for people and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from tools import inherited
from tools.verdict import FAILED, PASSED, Run

APPLIES = "applies"
COMPILES = "compiles"
IMPORTS = "imports"
PASSES = "tests pass"
FAILS = "fail before"
COLUMNS = (APPLIES, COMPILES, IMPORTS, PASSES, FAILS)
YES, NO, OPEN = "yes", "NO", "-"


@dataclass(frozen=True)
class Cell:
    """One answer: yes, no, or open because something before it went wrong."""

    answer: str = OPEN
    note: str = ""
    run: Run | None = None


@dataclass
class Row:
    """One patch."""

    name: str
    tests: tuple[str, ...] = ()
    untested: str = ""  # the reason a patch declares for having no tests
    cells: dict[str, Cell] = field(default_factory=dict)

    def set(self, column: str, *, good: bool, note: str = "") -> None:
        self.cells[column] = Cell(YES if good else NO, "" if good else note)

    def ran(self, column: str, run: Run) -> None:
        """Enter a run of tests: before the patch they must fail."""
        wanted = FAILED if column == FAILS else PASSED
        good = run.outcome == wanted
        note = run.reason
        if column == FAILS and run.outcome == PASSED:
            note = f"all {run.passed} pass without the patch"
        self.cells[column] = Cell(YES if good else NO, note, run)

    def cell(self, column: str) -> Cell:
        return self.cells.get(column, Cell())

    @property
    def columns(self) -> tuple[str, ...]:
        """What has to be shown of it."""
        exempt = not self.tests and self.untested
        return COLUMNS[: COLUMNS.index(PASSES)] if exempt else COLUMNS

    @property
    def proven(self) -> bool:
        return all(self.cell(column).answer == YES for column in self.columns)

    def findings(self) -> list[str]:
        """Return a line for each thing that is not as it has to be."""
        found = [
            f"{self.name}: {column}: {cell.answer.lower()}: {cell.note}"
            for column in self.columns
            if (cell := self.cell(column)).note and cell.answer != YES
        ]
        if not self.tests and not self.untested and self.cell(APPLIES).answer == YES:
            found.append(
                f"{self.name}: it has no tests of its own; add one, or declare why with "
                f"'Tests: none [reason]'"
            )
        return found


def table(rows: list[Row]) -> list[str]:
    """Return the rows of the text."""
    lines = [["patch", *COLUMNS, "proven"]]
    for row in rows:
        cells = [_text(row.cell(column)) for column in COLUMNS]
        if row.columns != COLUMNS:
            cells[COLUMNS.index(PASSES) :] = ["none", "none"]
        lines.append([row.name, *cells, YES if row.proven else NO])
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    text = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    text += [f"{row.name}: no tests: {row.untested}" for row in rows if _exempt(row)]
    runs = [(row.name, row.cell(PASSES).run) for row in rows]
    return text + [f"{name}: {line}" for name, run in runs if run for line in inherited.lines(run)]


def _exempt(row: Row) -> bool:
    return row.columns != COLUMNS


def _text(cell: Cell) -> str:
    run = cell.run
    if run is None:
        return cell.answer
    counts = f"{run.failed or run.passed} in {run.seconds:.0f} s"
    if run.outcome not in (PASSED, FAILED):
        counts = run.outcome
    return f"{cell.answer} ({counts}{', before' if run.remembered else ''})"


def as_json(row: Row) -> dict[str, object]:
    """Return a row for other programs."""
    return {
        "patch": row.name,
        "proven": row.proven,
        "tests": list(row.tests),
        "no_tests_because": row.untested,
        "cells": {column: asdict(row.cell(column)) for column in COLUMNS},
    }
