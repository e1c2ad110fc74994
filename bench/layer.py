"""A step of a GDN layer with the window against upstream's snapshots: `python bench/layer.py`.

One row for each shape: microseconds of each side, floors from the bandwidth of a device
copy in the same run, errors against fp64. Times are medians over graph replays that take
turns between the sides; a replay walks over input sets that together exceed the L2 cache
several times, so every launch finds it cold. A step is the mean of a cycle from commit to
commit in which every token is accepted, the commit's launches in it; a verify is a step with an
empty window. The commit is one launch over many layers, and its time is given for one layer.
Every row is written as soon as it is measured: run the same command again to go on after an
interruption.
Exit codes: 0 done, 1 a check failed, 2 usage or no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import figures
import host
import store

FIELDS = ("H", "HV", "batch", "T", "state")
RESULTS = Path(__file__).resolve().parent / "results"
STATES = ("float32", "bfloat16")
FULL: dict[str, Any] = {"HV": (48, 32, 16), "batch": (64, 32, 128, 8, 1, 256), "T": (5, 8, 2)}
QUICK: dict[str, Any] = {"HV": (32,), "batch": (64, 8), "T": (5,)}
REPLAYS = 12, 3  # and how many of them are dropped as warm-up


def shapes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Every combination as the fields of a row, the shapes that matter most first."""
    return [
        {"H": 16, "HV": hv, "batch": batch, "T": t, "state": state}
        for t, hv, batch, state in itertools.product(
            values["T"], values["HV"], values["batch"], values.get("state", STATES)
        )
    ]


def graph_of(run: Callable[[int], Any], calls: int) -> Callable[[], None]:
    """Return a function that replays `calls` calls as one CUDA graph."""
    import torch

    for i in range(min(3, calls)):
        run(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            run(i)
    return graph.replay


def elapsed_us(replay: Callable[[], None], *, gpu: bool) -> float:
    if not gpu:
        start = time.perf_counter()
        replay()
        return 1e6 * (time.perf_counter() - start)
    import torch

    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    replay()
    after.record()
    after.synchronize()
    return 1e3 * float(before.elapsed_time(after))


def times_us(case: Any, replays: int, dropped: int) -> dict[str, float]:
    """Median microseconds of each side, for one layer."""
    gpu = case.device.type == "cuda"
    sides = {}
    for name, (run, calls, steps) in case.timed().items():
        replay = (
            graph_of(run, calls) if gpu else lambda run=run, calls=calls: [*map(run, range(calls))]
        )
        sides[name] = replay, steps
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(replays):
        for name, (replay, steps) in sides.items():
            found[name].append(elapsed_us(replay, gpu=gpu) / steps)
    return {name: round(statistics.median(t[dropped:]), 2) for name, t in found.items()}


def bandwidth_gb_s(device: str, size: int) -> float:
    """Bytes read and written a second by a big copy on the device."""
    import torch

    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = [elapsed_us(lambda: target.copy_(source), gpu=device == "cuda") for _ in range(10)]
    return round(2 * size / statistics.median(times[2:]) / 1e3, 1)


def measure(fields: dict[str, Any], gb_s: float, device: str, replays: tuple[int, int],
            layers: int | None = None) -> dict[str, Any]:  # fmt: skip
    """Return the row of one shape."""
    from layer_case import Case, Shape

    shape = Shape(**fields)
    case = Case(shape, device, layers)
    row = {**fields, "layers": case.layers, "cycle": case.cycle, "check": case.check()}
    row["us"] = times_us(case, *replays)
    read = shape.batch * shape.state_bytes / gb_s / 1e3
    row["floor_us"] = {"read": round(read, 2), "read_write": round(2 * read, 2)}
    row["bytes"] = case.memory()
    return row


def sentence(row: dict[str, Any]) -> str:
    us = row["us"]
    native = min(us[name] for name in us if name in ("snapshot_cuda", "snapshot_triton"))
    return (
        f"{row['state']} HV {row['HV']} batch {row['batch']} T {row['T']}: native {native} us, "
        f"step {us['step']} us, {native / us['step']:.2f} x (verify {us['verify']} us, commit "
        f"{us['commit']} us)"
    )


def sound(row: dict[str, Any]) -> bool:
    """Whether the window computed what the snapshots compute (within twice their error)."""
    check = row["check"]
    return (
        check["verify_writes_no_state"]
        and check["history_exact"]
        and all(
            mine <= 2 * max(figures.native_errors(errors))
            for errors in (check["output_error"], check["state_error"])
            for mine in figures.window_errors(errors)
        )
    )


def run(found: store.Store, todo: list[dict[str, Any]], gb_s: float, device: str,
        replays: tuple[int, int], layers: int | None = None) -> list[str]:  # fmt: skip
    """Measure what the file lacks; return a sentence for each row whose check failed."""
    missing = [fields for fields in todo if not found.has("rows", fields)]
    if len(missing) < len(todo):
        print(f"{len(todo) - len(missing)} of {len(todo)} rows are in {found.path.name} already")
    start, failed = time.monotonic(), []
    for i, fields in enumerate(missing, 1):
        row = measure(fields, gb_s, device, replays, layers)
        found.add("rows", row)
        left = (time.monotonic() - start) / i * (len(missing) - i)
        print(f"[{i}/{len(missing)}] {sentence(row)}; {left:.0f} s left", flush=True)
        if not sound(row):
            failed.append(f"check failed: {sentence(row)}: {row['check']}")
        if device == "cuda":
            import torch

            torch.cuda.empty_cache()
    return failed


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--out", type=Path, help="file or folder; default: bench/results")
    found.add_argument(
        "--quick", action="store_true", help="a few shapes, into GPU-kernels-quick.json"
    )
    found.add_argument("--value-heads", type=int, nargs="+", metavar="HV")
    found.add_argument("--batches", type=int, nargs="+", metavar="B")
    found.add_argument("--tokens", type=int, nargs="+", metavar="T", help="1 + drafts")
    found.add_argument("--states", nargs="+", choices=STATES)
    return found


def main() -> int:
    args = parser().parse_args()
    if reason := host.why_not():
        print(reason, file=sys.stderr)
        return 2
    import torch

    torch.manual_seed(0)
    values = dict(QUICK if args.quick else FULL)
    given = {"HV": args.value_heads, "batch": args.batches, "T": args.tokens, "state": args.states}
    values |= {name: value for name, value in given.items() if value}
    facts = host.facts()
    name = f"{host.slug(facts['gpu'])}-kernels{'-quick' * args.quick}.json"
    settings = host.comparable(facts) | {"replays": REPLAYS[0]}
    try:
        found = store.Store(store.place(args.out, RESULTS, name), {"rows": FIELDS}, settings)
    except store.UnreadableError as error:
        print(error, file=sys.stderr)
        return 2
    if found.note:
        print(found.note)
    gb_s = bandwidth_gb_s("cuda", 2 << 30)
    print(f"{facts['gpu']}: a device copy moves {gb_s:.0f} GB/s")
    found.begin({"host": facts, "command": host.command(), "bandwidth_gb_s": gb_s})
    failed = run(found, shapes(values), gb_s, "cuda", REPLAYS)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
