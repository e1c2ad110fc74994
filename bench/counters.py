"""Hardware counters of a step's kernels, by Nsight Compute: `python bench/counters.py`.

Runs itself under `ncu` for each shape, cold L2 and clocks as they come, and writes what bounds
each kernel: time, bytes, throughput of memory and arithmetic, occupancy, and why warps waited.
Exit codes: 0 all is measured, 1 a run failed, 2 usage, no GPU or no ncu.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import host
import store

RESULTS = Path(__file__).resolve().parent / "results"
SECTIONS = (
    "SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "LaunchStats",
    "Occupancy", "WarpStateStats",
)  # fmt: skip
# Our name -> ncu's.
METRICS = {
    "us": "gpu__time_duration.sum",
    "memory_pct": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_pct": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "compute_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "waves": "launch__waves_per_multiprocessor",
    "issue_pct": "sm__inst_issued.avg.pct_of_peak_sustained_active",
}
STALL = "smsp__average_warps_issue_stalled_"
MICROSECONDS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
SHAPES = ((32, 64, 5, "float32"), (32, 64, 5, "bfloat16"), (48, 128, 5, "float32"),
          (16, 32, 5, "float32"), (32, 8, 2, "bfloat16"))  # fmt: skip


def parse(text: str) -> list[dict[str, Any]]:
    """Return a row for each kernel launch of ncu's raw CSV page."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    table = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    names, units = table[0], table[1]
    found = []
    for values in table[2:]:
        row = dict(zip(names, values, strict=False))
        unit = dict(zip(names, units, strict=False))
        kernel: dict[str, Any] = {"kernel": row["Kernel Name"].split("(")[0]}
        for mine, theirs in METRICS.items():
            if row.get(theirs):
                kernel[mine] = float(row[theirs].replace(",", ""))
        if "us" in kernel:
            kernel["us"] = round(kernel["us"] * MICROSECONDS[unit[METRICS["us"]]], 3)
        stalls = {
            name.removeprefix(STALL).split("_per_")[0]: float(value.replace(",", ""))
            for name, value in row.items()
            if name.startswith(STALL) and name.endswith("_per_issue_active.ratio") and value
        }
        worst = sorted(stalls, key=lambda name: -stalls[name])[:3]
        found.append(kernel | {"stalls": {name: round(stalls[name], 2) for name in worst}})
    return found


def missing(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Shapes without a row: HV, batch, T, state."""
    found = {(row["HV"], row["batch"], row["T"], row["state"]) for row in rows}
    return [list(shape) for shape in SHAPES if shape not in found]


def launch(words: list[str]) -> None:
    """Runs under ncu: a commit, and a verify behind the longest window, of a shape."""
    import layer_case
    import torch

    heads, batch, tokens, state = int(words[0]), int(words[1]), int(words[2]), words[3]
    case = layer_case.Case(layer_case.Shape(16, heads, batch, tokens, state))
    case.fill_windows()
    for run in (case.verify_longest, case.snapshot_cuda):
        run(0)
    case.commit(0)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    case.commit(0)
    case.verify_longest(1 % case.sets)
    case.snapshot_cuda(2 % case.sets)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="file or folder; default: bench/results")
    parser.add_argument("--launch", nargs=4, metavar=("HV", "B", "T", "STATE"))
    args = parser.parse_args()
    if reason := host.why_not():
        print(reason, file=sys.stderr)
        return 2
    if args.launch:
        launch(args.launch)
        return 0
    ncu = shutil.which("ncu")
    if ncu is None:
        print("ncu is not on the PATH; install Nsight Compute.", file=sys.stderr)
        return 2
    options = [word for name in SECTIONS for word in ("--section", name)]
    options += ["--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw"]
    rows: list[dict[str, Any]] = []
    facts, failed = host.facts(), 0
    out = store.place(args.out, RESULTS, f"{host.slug(facts['gpu'])}-counters.json")
    for shape in SHAPES:
        words = [str(word) for word in shape]
        done = subprocess.run(
            [ncu, *options, sys.executable, __file__, "--launch", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        kernels = parse(done.stdout)
        if not kernels:
            failed = 1
            print(f"{words}: {(done.stderr or done.stdout)[-400:]}", file=sys.stderr)
        for kernel in kernels:
            rows.append(dict(zip(("HV", "batch", "T", "state"), shape, strict=True)) | kernel)
            print(json.dumps(rows[-1]), flush=True)
        report = {"host": facts, "command": host.command(), "missing": missing(rows), "rows": rows}
        out.write_text(json.dumps(report, indent=1) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
