"""Exit codes, and the exceptions that carry them.

A message is one sentence that names the cause and the cure: it is printed as it is.
"""

from __future__ import annotations

OK = 0
FINDINGS = 1
USAGE = 2
CONFLICT = 3
BUG = 4


class ToolError(Exception):
    """An expected stop: something is wrong outside this program."""

    code = FINDINGS


class NothingToDoError(ToolError):
    """All is as it was asked for."""

    code = OK


class UsageError(ToolError):
    """The command line, or a setting read from it, makes no sense."""

    code = USAGE


class ConflictError(ToolError):
    """Somebody's work waits: the tool stops rather than choose for them."""

    code = CONFLICT
