"""Plots of the measurements as SVG: `python bench/plots.py`, into docs/plots.

Each carries a digest of the rows it was drawn from, which `bench/table.py --check` reads.
Exit codes: 0 done, 2 usage or matplotlib is missing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import check
import figures
import pages
import store
from table import PLOTS

Row = dict[str, Any]
FP32_TFLOPS = {"h200": 67.0}  # of the data sheet, without tensor cores
T, BATCH = 5, 64  # what the other axis is held at
SIDES = {
    "native": (figures.native_us, "tab:gray", "o"),
    "verify": (figures.verify_us, "tab:blue", "s"),
    "step": (figures.step_us, "tab:red", "^"),
}
MODES = {"none": "tab:green", "snapshot": "tab:gray", "window": "tab:red"}


def logarithmic(axis: Any, *, x: bool) -> None:
    """Logarithmic axes without minor ticks, which would be most of the file."""
    axis.set_yscale("log")
    axis.minorticks_off()
    if x:
        axis.set_xscale("log", base=2)


def grid(plt: Any, columns: int, lines: int = 1) -> tuple[Any, list[Any]]:
    figure, axes = plt.subplots(
        lines, columns, figsize=(3.4 * columns, 3 * lines), squeeze=False, layout="constrained"
    )
    return figure, [axis for line in axes for axis in line]


def times(plt: Any, rows: list[Row], across: str, held: str, value: int) -> Any:
    """Microseconds against batch or T: a panel for each dtype and number of value heads."""
    rows = [row for row in rows if row[held] == value]
    panels = sorted({(row["state"], row["HV"]) for row in rows}, reverse=True)
    columns = len({hv for _, hv in panels}) or 1
    figure, axes = grid(plt, columns, max(1, -(-len(panels) // columns)))
    for axis, (state, heads) in zip(
        axes, sorted(panels, key=lambda p: (p[0] != "float32", p[1])), strict=False
    ):
        mine = sorted(
            (row for row in rows if (row["state"], row["HV"]) == (state, heads)),
            key=lambda row: row[across],
        )
        for name, (of, colour, marker) in SIDES.items():
            points = [(row[across], of(row)) for row in mine if of(row) is not None]
            axis.plot(
                *zip(*points, strict=True), color=colour, marker=marker, label=name
            ) if points else None
        axis.plot(
            [row[across] for row in mine], [row["floor_us"]["read"] for row in mine],
            color="black", linestyle=":", label="one state read",
        )  # fmt: skip
        axis.set(title=f"{state}, HV {heads}, {held} {value}", xlabel=across, ylabel="us a layer")
        logarithmic(axis, x=across == "batch")
    axes[0].legend(fontsize=7)
    return figure


def work(row: Row, side: str) -> tuple[float, float]:
    """Floating point operations and bytes of states that a side must move, of one layer.

    A token and head costs 7 K V: decay, S k, the outer product and S q. A commit adds what a
    cycle of steps recorded, decay and outer product; a step is a verify and its share of that.
    """
    states = row["batch"] * row["HV"] * 128 * 128
    size = states * (4 if row["state"] == "float32" else 2)
    cycle = row["cycle"]
    moved = {"native": 1 + row["T"], "verify": 1, "step": 1 + 2 / cycle, "commit": 2}[side]
    flops = {"native": 7, "verify": 7, "step": 10, "commit": 3 * cycle}[side]
    return states * row["T"] * flops, size * moved


def roofline(plt: Any, rows: list[Row], gb_s: float, tflops: float | None) -> Any:
    figure, axes = grid(plt, 2)
    for axis, state in zip(axes, ("float32", "bfloat16"), strict=True):
        for side, colour in (
            ("native", "tab:gray"), ("verify", "tab:blue"), ("step", "tab:red"),
            ("commit", "tab:orange"),
        ):  # fmt: skip
            points = []
            for row in rows:
                us = figures.native_us(row) if side == "native" else row["us"].get(side)
                if row["state"] == state and us:
                    flops, moved = work(row, side)
                    points.append((flops / moved, flops / us / 1e6))
            if points:
                axis.scatter(*zip(*points, strict=True), s=12, color=colour, label=side)
        x = [0.5, 1, 2, 4, 8, 16, 32, 64]
        roof = [min(i * gb_s / 1e3, tflops or 1e9) for i in x]
        axis.plot(
            x,
            roof,
            color="black",
            label=f"{gb_s:.0f} GB/s" + (f", {tflops:.0f} TFLOP/s fp32" if tflops else ""),
        )
        axis.set(title=f"{state} state", xlabel="FLOP a byte of state", ylabel="TFLOP/s")
        logarithmic(axis, x=True)
        axis.legend(fontsize=7)
    return figure


def memory(plt: Any, rows: list[Row]) -> Any:
    """MiB of one request in one layer: snapshots of all tokens against a state and the window."""
    figure, (axis,) = grid(plt, 1)
    shown: dict[str, Row] = {}
    for row in rows:
        if row["T"] == T:
            shown.setdefault(
                f"{'fp32' if row['state'] == 'float32' else 'bf16'}\nHV {row['HV']}", row
            )
    names = list(shown)
    for shift, label, colour, of in (
        (-0.2, f"{T} snapshots", "tab:gray", lambda b: T * b["snapshot"]),
        (0.2, "state and window", "tab:red", lambda b: b["state"] + b["window"]),
    ):
        axis.bar(
            [i + shift for i in range(len(names))],
            [of(shown[name]["bytes"]) / 2**20 for name in names],
            0.4, label=label, color=colour,
        )  # fmt: skip
    axis.set_xticks(range(len(names)), names, fontsize=7)
    axis.set(ylabel="MiB a request and layer", title=f"T {T}")
    axis.legend(fontsize=7)
    return figure


def throughput(plt: Any, loads: list[Row]) -> Any:
    """Tokens per second against batch; hollow where state blocks ran out."""
    loads = [x for x in loads if x["T"] == T and x["level"] in {"middle", "real"}]
    panels = sorted({x["geometry"] for x in loads})
    figure, axes = grid(plt, max(1, len(panels)))
    for axis, name in zip(axes, panels, strict=False):
        for mode, colour in MODES.items():
            found = sorted(
                (x["modes"][mode] for x in loads if x["geometry"] == name and mode in x["modes"]),
                key=lambda row: row["batch"],
            )
            for rows, style in (
                (found, {"label": mode}),
                ([r for r in found if not figures.out_of_blocks(r)], {"marker": "o", "ls": ""}),
                (
                    [r for r in found if figures.out_of_blocks(r)],
                    {"marker": "o", "ls": "", "mfc": "white"},
                ),
            ):
                axis.plot(
                    [r["batch"] for r in rows], [r["tokens_per_s"] for r in rows],
                    color=colour, **style,
                )  # fmt: skip
        axis.set(title=f"{name}, {T - 1} drafts", xlabel="batch", ylabel="tokens/s")
        axis.title.set_fontsize(8)
        logarithmic(axis, x=True)
    axes[0].legend(fontsize=7)
    return figure


def concurrency(plt: Any, engines: list[Row]) -> Any:
    """Advertised concurrency for each GiB of cache."""
    figure, (axis,) = grid(plt, 1)
    shown = [e for e in engines if e["mode"] in MODES]
    labels = [f"{figures.place(e)}, {e['mode']}, {e['drafts']} drafts" for e in shown]
    axis.barh(
        labels, [e["advertised"] / e["kv_cache_gib"] for e in shown],
        color=[MODES[e["mode"]] for e in shown],
    )  # fmt: skip
    axis.tick_params(labelsize=6)
    axis.invert_yaxis()
    axis.set(xlabel="requests of 1,024 tokens a GiB of cache")
    return figure


def draw(plt: Any, files: dict[str, Row], gpu: str, out: Path) -> list[Path]:
    """Draw what there are measurements for."""
    drawn: dict[str, Any] = {}
    if "kernels" in files:
        rows, runs = files["kernels"]["rows"], files["kernels"]["runs"]
        gb_s = max(run["bandwidth_gb_s"] for run in runs)
        drawn["kernels-batch.svg"] = times(plt, rows, "batch", "T", T)
        drawn["kernels-tokens.svg"] = times(plt, rows, "T", "batch", BATCH)
        drawn["kernels-roofline.svg"] = roofline(plt, rows, gb_s, FP32_TFLOPS.get(gpu))
        drawn["kernels-memory.svg"] = memory(plt, rows)
    if "engine" in files:
        loads = figures.compared(files["engine"]["rows"])
        drawn["engine-throughput.svg"] = throughput(plt, loads)
        drawn["engine-memory.svg"] = concurrency(plt, files["engine"]["engines"])
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        figure.savefig(out / name, metadata={"Date": None, "Creator": None})
        stamp = f"<!-- rows: {pages.digest(files[pages.PLOTS[name]])} -->\n"
        (out / name).write_text((out / name).read_text() + stamp)
        plt.close(figure)
    return [out / name for name in drawn]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    check.add_arguments(parser)
    parser.add_argument("--out", type=Path, default=PLOTS, metavar="FOLDER")
    args = parser.parse_args(argv)
    try:
        files = check.files(args.results, args.gpu)
        import matplotlib as mpl
    except store.UnreadableError as error:
        print(error, file=sys.stderr)
        return 2
    except ImportError:
        print(
            "The plots need matplotlib, which this Python does not have; `make bench-table` "
            "installs it.",
            file=sys.stderr,
        )
        return 2
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 8})
    import matplotlib.pyplot as plt

    for path in draw(plt, files, args.gpu, args.out):
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
