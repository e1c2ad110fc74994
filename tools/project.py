"""Where everything lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools import pin as pins
from tools.git import Git


@dataclass(frozen=True)
class Project:
    """One checkout of the patch series project."""

    root: Path
    # A line is a project within a project: paths are shown, and things kept, from the outer one.
    outer: Path | None = None

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def series(self) -> Path:
        return self.root / "series"

    @property
    def lock(self) -> Path:
        return self.root / "series.lock"

    @property
    def vendor(self) -> Path:
        return self.root / "vendor"

    @property
    def pin_file(self) -> Path:
        return self.vendor / "upstream.toml"

    @property
    def dist(self) -> Path:
        return (self.outer or self.root) / "dist"

    @cached_property
    def pin(self) -> pins.Pin:
        return pins.load(self.pin_file)

    @property
    def checkout(self) -> Path:
        """The git repository in which upstream's code is edited."""
        return self.vendor / self.pin.project

    @property
    def cache(self) -> Path:
        """Downloads, environments and logs: may be shared, may be deleted."""
        named = os.environ.get("GDNWINDOW_CACHE")
        return Path(named).expanduser().absolute() if named else self._shown / "vendor" / "cache"

    @property
    def downloads(self) -> Path:
        return self.cache / "downloads"

    @property
    def git(self) -> Git:
        """The checkout's repository, with its work tree."""
        return Git(self.checkout / ".git", self.checkout)

    def short(self, path: Path) -> str:
        """Return a path as the user would type it from the project's root."""
        shown = self._shown
        return str(path.relative_to(shown)) if path.is_relative_to(shown) else str(path)

    @property
    def _shown(self) -> Path:
        return self.outer or self.root
