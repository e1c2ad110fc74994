"""Talk goes to stderr, data to stdout."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """Tell the user what happens."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - the one place


def data(text: str) -> None:
    """Print what another program may read."""
    print(text, flush=True)  # noqa: T201 - the one place
