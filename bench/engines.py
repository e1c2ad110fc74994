"""Throughput of no speculation, snapshots and the window: `python bench/engines.py`.

Engines that are compared start together on one GPU, which takes minutes, and then measure one
after the other, in turns at each load. With --alone each has the GPU to itself, and the next
starts when it has ended; --seconds are then shared out among the engines. Every measurement is
written as soon as it is made: run the same command again to go on after an interruption or the
end of --seconds.
Exit codes: 0 all is measured, 1 something is left or an engine failed, 2 usage or no GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import geometry
import host
import modes
import plan
import store
from crew import GoneError, Worker

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
TABLES = {"engines": plan.ENGINE_FIELDS, "rows": plan.ROW_FIELDS}
START_SECONDS, MEASURE_SECONDS = 600, 180


class Session:
    """One run of this command: what is to do, what is left, what failed."""

    def __init__(self, args: argparse.Namespace, found: store.Store, command: list[str]) -> None:
        self.args, self.found, self.command = args, found, command
        self.deadline = time.monotonic() + args.seconds
        self.failed: list[str] = []
        self.done = self.total = 0

    def items(self, legs: list[plan.Leg]) -> list[plan.Item]:
        """Return what a party has still to measure."""
        turns = plan.turns(legs, self.args.batches, self.args.repeats)
        wanted = {"none", "real", *self.args.levels}
        return [
            item
            for item in turns
            if item.level in wanted and not self.found.has("rows", item.fields)
        ]

    def start(self, leg: plan.Leg) -> Worker:
        command = [
            *self.command,
            leg.geometry,
            leg.mode,
            "--kv-gib",
            str(leg.kv_gib(self.args.kv_gib)),
        ]
        command += ["--drafts", str(leg.drafts or 1), "--batches", *map(str, self.args.batches)]
        command += ["--compiled"] * self.args.compiled
        if self.args.ranks > 1:
            command += ["--ranks", str(self.args.ranks), "--executor", self.args.executor]
        command += ["--tiny", str(self.args.tiny)] if leg.geometry == "tiny" else []
        log = self.found.path.parent / "logs" / f"{leg.name.replace(' ', '-')}.log"
        return Worker(leg.name, command, log)

    def party(self, legs: list[plan.Leg], deadline: float) -> None:
        """Start the engines of a party that have something to measure, and measure."""
        todo = self.items(legs)
        wanted = [leg for leg in legs if any(item.leg == leg for item in todo)]
        if not wanted or time.monotonic() > deadline:
            return
        print(f"starting {', '.join(leg.name for leg in wanted)} (minutes)", flush=True)
        begun = time.monotonic()
        crew = {leg: self.start(leg) for leg in wanted}
        try:
            for leg in wanted:
                left = min(begun + START_SECONDS, deadline) - time.monotonic()
                self.attempt(crew, leg, lambda worker, left=left: worker.answer(max(left, 1)))
            print(f"started after {time.monotonic() - begun:.0f} s", flush=True)
            while self.args.hold and self.args.hold.exists() and time.monotonic() < deadline:
                time.sleep(0.5)
            for item in todo:
                if time.monotonic() > deadline:
                    break
                if item.leg in crew:
                    self.measure(crew, item)
        finally:
            for worker in crew.values():
                worker.dismiss()
            for worker in crew.values():
                worker.stop()

    def attempt(
        self, crew: dict[plan.Leg, Worker], leg: plan.Leg, ask: Any
    ) -> dict[str, Any] | None:
        """Ask an engine; one that fails leaves the crew with a sentence."""
        try:
            answer: dict[str, Any] = ask(crew[leg])
        except GoneError as error:
            self.failed.append(str(error))
            print(error, file=sys.stderr, flush=True)
            crew.pop(leg).stop(1)
            return None
        if "advertised" in answer:
            self.found.add("engines", leg.fields | answer)
        return answer

    def measure(self, crew: dict[plan.Leg, Worker], item: plan.Item) -> None:
        request = {
            "batch": item.batch, "tokens": item.tokens, "acceptance": item.acceptance,
            "seed": item.repeat,
        }  # fmt: skip
        answer = self.attempt(crew, item.leg, lambda worker: worker.ask(request, MEASURE_SECONDS))
        if answer is None:
            return
        if "tokens_per_s" not in answer:
            self.failed.append(f"{item.leg.name} batch {item.batch}: too short to measure")
            return
        self.found.add("rows", {**item.fields, "acceptance": item.acceptance, **answer})
        self.done += 1
        short = f", only {answer['running']} ran together" * (answer["running"] < item.batch)
        print(
            f"[{self.done}/{self.total}] {item.leg.name} {item.level} batch {item.batch}: "
            f"{answer['tokens_per_s']:.0f} tokens/s, {answer['ms_per_step']} ms a step{short}",
            flush=True,
        )

    def run(self, parties: list[list[plan.Leg]]) -> int:
        self.total = sum(len(self.items(legs)) for legs in parties)
        waiting = [legs for legs in parties if self.items(legs)]
        for done, legs in enumerate(waiting):
            share = 1 if not legs[0].alone else len(waiting) - done
            now = time.monotonic()
            self.party(legs, now + (self.deadline - now) / share)
        if self.total > self.done:
            print(f"{self.total - self.done} measurements are left; run the same command again.")
        return 1 if self.failed or self.total > self.done else 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--out", type=Path, help="file or folder; default: bench/results")
    found.add_argument(
        "--quick", action="store_true", help="one geometry, one repeat, three batches"
    )
    found.add_argument("--geometries", nargs="+", choices=sorted(geometry.WEIGHTS_GIB))
    found.add_argument("--drafts", type=int, nargs="+", choices=sorted(plan.LEVELS))
    found.add_argument("--modes", nargs="+", default=list(plan.MODES), choices=sorted(modes.MODES))
    found.add_argument("--batches", type=int, nargs="+")
    found.add_argument("--repeats", type=int)
    levels = list(plan.LEVELS[1])
    found.add_argument("--levels", nargs="+", choices=levels, default=levels, help="of acceptance")
    found.add_argument("--ranks", type=int, default=1, help="tensor-parallel, a GPU each")
    found.add_argument("--executor", choices=["mp", "ray"], default="mp", help="of several ranks")
    found.add_argument(
        "--alone", action="store_true", help="one engine at a time, with the GPU to itself"
    )
    found.add_argument("--kv-gib", type=int, help="cache of an engine with drafts, or alone")
    found.add_argument("--tiny", type=Path, help="the trained checkpoint; without it, not measured")
    found.add_argument("--compiled", action="store_true", help="with torch.compile: starts slower")
    found.add_argument("--seconds", type=float, default=24 * 3600, help="begin nothing after these")
    found.add_argument(
        "--hold", type=Path, help="start engines, but measure nothing while this file is there"
    )
    found.add_argument(
        "--gpu-gib", type=float, help="memory to share out, default 96 %% of the GPU"
    )
    return found


def chosen(args: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the (geometry, drafts) pairs of a command line, in the order of the plan."""
    names = plan.QUICK_GROUPS if args.quick else plan.GROUPS
    if args.geometries:
        drafts = args.drafts or list(plan.LEVELS)
        order = [pair for pair in plan.GROUPS if pair[0] in args.geometries]
        more = [(name, n) for name in args.geometries for n in drafts]
        names = tuple(dict.fromkeys([*order, *more]))
    return [
        (name, n)
        for name, n in names
        if (not args.drafts or n in args.drafts) and (name != "tiny" or args.tiny)
    ]


def file_name(gpu: str, args: argparse.Namespace) -> str:
    """Return the name of the measurements: several ranks have files of their own."""
    ranks = f"-tp{args.ranks}{'-ray' * (args.executor == 'ray')}" if args.ranks > 1 else ""
    return f"{host.slug(gpu)}{ranks}-engine{'-quick' * args.quick}.json"


def main() -> int:
    args = parser().parse_args()
    args.batches = args.batches or ([1, 32, 128] if args.quick else list(plan.BATCHES))
    args.repeats = args.repeats or (1 if args.quick else plan.REPEATS)
    if reason := host.why_not():
        print(reason, file=sys.stderr)
        return 2
    facts = host.facts()
    ranks = {"ranks": args.ranks, "executor": args.executor} if args.ranks > 1 else {}
    name = file_name(facts["gpu"], args)
    settings = host.comparable(facts) | {
        "compiled": args.compiled, "steps": plan.STEPS, "kv_gib": args.kv_gib,
        "max_batch": max(args.batches), **ranks,
    }  # fmt: skip
    try:
        found = store.Store(store.place(args.out, RESULTS, name), TABLES, settings)
        groups = plan.groups(chosen(args), args.modes, alone=args.alone)
        gpu_gib = args.gpu_gib or 0.96 * facts["gpu_memory_gib"]
        parties = plan.parties(groups, gpu_gib, args.kv_gib, args.ranks)
    except (store.UnreadableError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if found.note:
        print(found.note)
    found.begin({"host": facts, "command": host.command()})
    return Session(args, found, [sys.executable, str(HERE / "engine.py")]).run(parties)


if __name__ == "__main__":
    sys.exit(main())
