"""Where the time of an engine's steps goes: `python bench/steps.py GEOMETRY MODE --out OUT.json`.

An engine in this process, asked for the same load over and over: when its first token comes and
how long a step takes, then once under cProfile (the host's functions) and once under torch's
profiler (the GPU's kernels). A profile slows what it looks at; compare those of two modes, and
take times from the rounds without one. What is compiled while it serves is in its log.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import fcntl
import os
import pstats
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine
import host
from stepwatch import StepWatch

MOST = 40  # functions and kernels of a profile


def first_and_steps(watch: StepWatch, begun: float) -> dict[str, float | None]:
    """Milliseconds to the end of the first wave of prompts, and of a step of the whole batch."""
    return {
        "prompts_ms": round(1e3 * (watch.steps[watch.first_wave()].at - begun), 2),
        "step_ms": watch.summary().get("ms_per_step"),
    }


def functions(profile: cProfile.Profile) -> list[dict[str, Any]]:
    """The functions that take most time in themselves, with that of what they call."""
    rows = [
        {
            "function": f"{Path(file).parent.name}/{Path(file).name}:{line} {name}",
            "calls": calls, "own_ms": round(1e3 * own, 2), "total_ms": round(1e3 * total, 2),
        }
        for (file, line, name), (_, calls, own, total, _) in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
    ]  # fmt: skip
    own = sorted(rows, key=lambda row: -row["own_ms"])[:MOST]
    return own + [r for r in sorted(rows, key=lambda r: -r["total_ms"])[:MOST] if r not in own]


def kernels(profile: Any, kind: str) -> tuple[float, list[dict[str, Any]]]:
    """Milliseconds of all kernels (on a CPU: operators), and those that take most time."""
    field = f"self_{kind}_time_total"
    rows = [
        {"kernel": e.key[:120], "calls": e.count, "ms": round(getattr(e, field) / 1e3, 3)}
        for e in profile.key_averages()
        if getattr(e, field)
    ]
    longest = sorted(rows, key=lambda row: -row["ms"])[:MOST]
    return round(sum(row["ms"] for row in rows), 3), longest


@contextlib.contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    """Wait for the lock, if there is one: engines start side by side, and measure one by one."""
    if lock is None:
        yield
        return
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def look(found: engine.Engine, args: argparse.Namespace, batch: int) -> dict[str, Any]:
    """What one load is like: rounds without a profile, then the two profiles."""
    import torch

    request = {"batch": batch, "tokens": args.tokens, "acceptance": args.acceptance, "seed": 0}
    found.measure(request)
    rounds = []
    for seed in range(args.rounds):
        found.generate(batch, args.tokens, seed)
        rounds.append(first_and_steps(found.watch, found.begun))
    profile = cProfile.Profile()
    profile.runcall(found.generate, batch, args.tokens, 0)
    kind = "device" if torch.cuda.is_available() else "cpu"
    activities = [
        torch.profiler.ProfilerActivity.CUDA
        if kind == "device"
        else torch.profiler.ProfilerActivity.CPU
    ]
    with torch.profiler.profile(activities=activities) as traced:
        found.generate(batch, args.tokens, 0)
    gpu_ms, longest = kernels(traced, kind)
    return {
        "batch": batch, "steps": len(found.watch.steps), "rounds": rounds,
        "host": functions(profile), "gpu_ms": gpu_ms, "gpu": longest,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = engine.parser()
    parser.description = __doc__
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--load", type=int, nargs="+", default=[8, 32], help="requests at once")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--acceptance", type=float, help="mean tokens a step, if synthetic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=Path, help="file to lock while it measures")
    args = parser.parse_args(argv)
    if engine.is_synthetic(args) and not args.acceptance:
        parser.error(f"{args.geometry} has random weights: set --acceptance, mean tokens a step.")
    if max(args.load) > max(args.batches):
        parser.error("--load is of more requests than an engine of these --batches runs at once.")
    if args.ranks > 1:
        parser.error("--ranks 2 and more are processes of their own, which no profile here sees.")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    found = engine.Engine(args)
    print("started", flush=True)
    with turn(args.turn):
        rows = [look(found, args, batch) for batch in args.load]
    report = {"geometry": args.geometry, "mode": args.mode, "drafts": args.drafts, "rows": rows}
    host.write_report(args.out, report)
    for row in rows:
        print(row["batch"], row["rounds"], flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # as engine.py
