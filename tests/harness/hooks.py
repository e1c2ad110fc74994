"""Run functions on modules right after their import, so that no file of the engine has to be
edited.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Hook = Callable[[Any], None]  # takes the module

_pending: dict[str, list[Hook]] = {}


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _pending:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            for hook in _pending.pop(name, ()):
                hook(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after(name: str) -> Callable[[Hook], Hook]:
    """Decorator: call the function with module `name` right after that module's import."""

    def register(hook: Hook) -> Hook:
        if name in sys.modules:
            raise RuntimeError(f"{name} is already imported: hooks on it must be installed first")
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        _pending.setdefault(name, []).append(hook)
        return hook

    return register


def unused() -> list[str]:
    """Modules with hooks that were never imported: a hook that never ran would go unseen."""
    return sorted(_pending)
