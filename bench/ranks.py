"""The measured tables of engines on several tensor-parallel ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import figures
import pages
import store

Row = dict[str, Any]
TITLE = "## Tensor parallel"


def files(results: Path, gpu: str) -> list[Row]:
    """Return the measurements that `bench/engines.py --ranks` has left, fewer ranks first."""
    found = [store.read(path) for path in sorted(results.glob(f"{gpu}-tp*-engine.json"))]
    return sorted(found, key=lambda file: (file["settings"]["ranks"], name(file)))


def name(file: Row) -> str:
    return f"{file['settings']['ranks']} GPUs, {file['settings']['executor']}"


def section(measured: list[Row]) -> list[str]:
    """Return the section of the page."""
    lines = [
        TITLE,
        "",
        (
            "`bench/engines.py --ranks N [--executor ray]`: one engine on N GPUs of a host. Cache "
            "is that of each GPU, GPU memory that of all; engines that are compared share the GPUs "
            "and take turns."
        ),
        "",
    ]
    if not measured:
        lines += ["No measurement in this form is committed.", ""]
    for file in measured:
        lines += [f"### {name(file)}", "", *pages.engine(file), ""]
    return lines


def summary(measured: list[Row]) -> list[str]:
    """Return the README's tables: four drafts at the middle acceptance."""
    lines = []
    for file in measured:
        loads = figures.compared(file["rows"])
        lines += [f"On {name(file)}:", "", *pages.engine_summary(file, loads), ""]
    return lines
