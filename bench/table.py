"""Write the measured tables from bench/results: `python bench/table.py`.

Into README.md, between its markers, and into docs/benchmarks.md. With --check nothing is
written, and exit code 1 says what is stale; that is what `make test` runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import check
import figures
import pages
import ranks
import store

ROOT = Path(__file__).resolve().parents[1]
PAGE, PLOTS = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "plots"
START, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def targets_table(verdicts: list[check.Verdict]) -> list[str]:
    """Return each target with the figure of its worst row."""
    body = []
    for verdict in verdicts:
        target, unit = verdict.target, verdict.target["unit"]
        sign = "<=" if target["better"] == "lower" else ">="
        worst = "not measured" if verdict.worst is None else check.number(verdict.worst, unit)
        if verdict.short and worst == check.number(target["must"], unit):
            worst = check.number(verdict.worst, unit, digits=4)
        if verdict.worst is not None and verdict.missing:
            worst += f", {len(verdict.missing)} row{'s' * (len(verdict.missing) > 1)} missing"
        body.append([
            target["name"],
            check.number(target["native"], unit) if "native" in target else "",
            f"{sign} {check.number(target['must'], unit)}",
            f"{sign} {check.number(target['aim'], unit)}" if "aim" in target else "",
            worst + " **short**" * bool(verdict.short),
        ])  # fmt: skip
    return pages.rows("figure|native before|must reach|aim|measured, worst row", body)


def readme(
    files: dict[str, dict[str, Any]],
    verdicts: list[check.Verdict],
    on_ranks: list[dict[str, Any]],
) -> str:
    """Return the generated section of the README."""
    parts = []
    if "kernels" in files or "engine" in files:
        parts += [
            (
                "`make bench` measures these on a GPU, `make bench-check` says which rows fall "
                "short of `bench/targets.toml`; all rows, how they are measured, and plots are in "
                "[docs/benchmarks.md](docs/benchmarks.md)."
            ),
            "",
            *targets_table(verdicts),
            "",
        ]
    if "kernels" in files:
        parts += [f"Kernels: {pages.runs_of(files['kernels'])}", ""]
    if "engine" in files:
        loads = figures.compared(files["engine"]["rows"])
        parts += [*pages.engine_summary(files["engine"], loads), ""]
    parts += ranks.summary(on_ranks)
    return "\n".join([START, "", *parts, END])


def outputs(results: Path, gpu: str) -> dict[Path, str]:
    """Return the generated text of each file."""
    files = check.files(results, gpu)
    latency = results / f"{gpu}-latency.json"
    if latency.exists():
        files["latency"] = store.read(latency)
    verdicts = check.judged(results, gpu)
    file = ROOT / "README.md"
    before, _, rest = file.read_text().partition(START)
    on_ranks = ranks.files(results, gpu)
    text = before + readme(files, verdicts, on_ranks) + rest.partition(END)[2]
    page = pages.page(files, targets_table(verdicts), PLOTS)
    return {file: text, PAGE: "\n".join([page, *ranks.section(on_ranks)])}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check.add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        texts = outputs(args.results, args.gpu)
        stale = [f for f, text in texts.items() if not f.exists() or f.read_text() != text]
        old_plots = pages.stale_plots(check.files(args.results, args.gpu), PLOTS)
    except store.UnreadableError as error:
        print(error, file=sys.stderr)
        return 2
    if args.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} does not show bench/results; run `make bench-table`.")
        for path in old_plots:
            print(f"{path.relative_to(ROOT)} is not of the committed rows; run `make bench-table`.")
        return 1 if stale or old_plots else 0
    for path in stale:
        path.write_text(texts[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
