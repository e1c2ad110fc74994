"""A file of measurements that is written row by row, so that a killed run resumes.

The file holds `settings` (what must be equal for two rows to be comparable), `runs` (host
facts, series and command of each run that added rows) and named tables of rows. A row says
which run made it. Rows of an older series stay until the same is measured of a newer one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class UnreadableError(Exception):
    """A file of measurements that is none."""


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file of measurements."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UnreadableError(
            f"{path} cannot be read as measurements ({error}); restore it with git checkout or "
            f"delete it."
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("runs"), list):
        raise UnreadableError(
            f"{path} holds no list of runs, so it is no file of measurements; name another."
        )
    return found


def series(run: Mapping[str, Any]) -> str | None:
    """Return the id of the series that a run measured."""
    host = run.get("host")
    return host.get("series_id") if isinstance(host, dict) else None


def place(out: Path | None, folder: Path, name: str) -> Path:
    """Return where measurements go: a file as named, else `name` in the folder named or here."""
    if out is None:
        return folder / name
    return out / name if out.is_dir() else out


class Store:
    """Tables of rows; each table names the fields that identify a row."""

    def __init__(
        self, path: Path, tables: Mapping[str, tuple[str, ...]], settings: Mapping[str, Any]
    ) -> None:
        self.path, self.tables = path, dict(tables)
        self.note = ""
        self._run: int | None = None
        self.data: dict[str, Any] = {"settings": dict(settings), "runs": []}
        if path.exists():
            found = read(path)
            if found.get("settings") == self.data["settings"]:
                self.data = found
            else:
                old = path.with_suffix(".json.old")
                os.replace(path, old)
                changed = sorted(
                    name
                    for name in {*found.get("settings", {}), *settings}
                    if found.get("settings", {}).get(name) != settings.get(name)
                )
                self.note = (
                    f"{path.name} was measured with another {', '.join(changed)}; it is now "
                    f"{old.name}, and this run starts afresh."
                )
        for table in tables:
            self.data.setdefault(table, [])
        self._index = {table: self._indexed(table) for table in tables}

    def _indexed(self, table: str) -> dict[tuple[Any, ...], int]:
        return {self._key(table, row): i for i, row in enumerate(self.data[table])}

    def _key(self, table: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(field) for field in self.tables[table])

    def _older(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is of another series than the run that has begun."""
        run = self.data["runs"][row["run"]]
        return bool(series(run) != series(self._pending))

    def has(self, table: str, row: Mapping[str, Any]) -> bool:
        """Whether a row with these identifying fields was measured with this run's series."""
        at = self._index[table].get(self._key(table, row))
        return at is not None and not self._older(self.data[table][at])

    def begin(self, run: Mapping[str, Any]) -> None:
        """Say what run the rows that follow belong to; it is written with the first.

        Its `host` names the series. To be called before anything else.
        """
        self._pending, self._run = dict(run), None

    def add(self, table: str, row: Mapping[str, Any], *, save: bool = True) -> None:
        """Add a row, or replace the one of the same identity, and write the file.

        Repeats of the same by another series go: a median is of one series.
        """
        if self._run is None:
            self._run = len(self.data["runs"])
            self.data["runs"].append(self._pending)
        added = {**row, "run": self._run}
        apart = [field for field in self.tables[table] if field != "repeat"]
        alike = [row.get(field) for field in apart]
        kept = [
            old for old in self.data[table]
            if not self._older(old) or [old.get(field) for field in apart] != alike
        ]  # fmt: skip
        if len(kept) < len(self.data[table]):
            self.data[table][:] = kept
            self._index[table] = self._indexed(table)
        at = self._index[table].setdefault(self._key(table, row), len(self.data[table]))
        self.data[table][at:] = [added, *self.data[table][at + 1 :]]
        if save:
            self.write()

    def write(self) -> None:
        """Replace the file at once, so that a killed run leaves the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        scratch.write_text(json.dumps(self.data, indent=1) + "\n")
        os.replace(scratch, self.path)
