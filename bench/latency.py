"""Inter-token latency of servers under `vllm bench serve` load: `python bench/latency.py`.

One `vllm serve` for each mode, started together on one GPU; then each is loaded alone, in
turns at each concurrency, by the code of `vllm bench serve` with its random data set. A chunk of a
stream is one step, which carries several tokens with drafts: the inter-token latency here is
that between chunks, and time per output token is the mean over tokens. Every measurement is
written as soon as it is made: run the same command again to go on.
Exit codes: 0 all is measured, 1 something is left or a server failed, 2 usage or no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import geometry
import host
import modes
import plan
import store

RESULTS = Path(__file__).resolve().parent / "results"
FIELDS = ("geometry", "mode", "drafts", "concurrency", "repeat")
SERVE = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve"]
PORT = 8741
PROMPT, OUTPUT = 32, 120
KEPT = (
    "p50_itl_ms", "p99_itl_ms", "mean_tpot_ms", "p50_tpot_ms", "p99_tpot_ms", "p50_ttft_ms",
    "p99_ttft_ms", "output_throughput", "completed", "failed",
)  # fmt: skip


def flags(arguments: dict[str, Any]) -> list[str]:
    """Return engine arguments as `vllm serve` takes them, the model first."""
    found = [str(arguments["model"])]
    for name, value in arguments.items():
        option = name.replace("_", "-")
        if name == "model" or value is None:
            continue
        if isinstance(value, bool):
            found.append(f"--{'' if value else 'no-'}{option}")
        else:
            found += [f"--{option}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return found


class Server:
    """A `vllm serve` of one mode."""

    def __init__(self, leg: plan.Leg, folder: Path, port: int, args: argparse.Namespace) -> None:
        self.leg, self.model = leg, folder
        self.url = f"http://127.0.0.1:{port}"
        mode, query = modes.MODES[leg.mode], leg.drafts + 1
        acceptance = plan.LEVELS[leg.drafts]["middle"] if leg.drafts else None
        environment = dict(os.environ)
        arguments = modes.engine_arguments(
            mode, str(folder), drafts=leg.drafts or 1, compiled=args.compiled,
            capture_sizes=modes.capture_sizes(max(args.concurrency), query),
            synthetic_acceptance=acceptance, load_format="dummy", max_model_len=1024,
            max_num_seqs=max(args.concurrency), max_num_batched_tokens=8192, seed=0,
            kv_cache_memory_bytes=leg.kv_gib(args.kv_gib) << 30,
        )  # fmt: skip
        del arguments["skip_tokenizer_init"]
        # The mode's variables are for this server alone.
        mine = dict(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        self.log = args.logs / f"serve-{leg.name.replace(' ', '-')}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [*args.serve, *flags(arguments), "--host", "127.0.0.1", "--port", str(port)]
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                command, stdout=stream, stderr=subprocess.STDOUT, env=mine
            )

    def wait(self, deadline: float) -> str | None:
        """Return None once it is healthy, else a sentence."""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                code = self.process.returncode
                return f"the server of {self.leg.name} ended with exit code {code}, see {self.log}"
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return None
            except OSError:
                time.sleep(0.5)
        return f"the server of {self.leg.name} was not healthy in time, see {self.log}"

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def load(server: Server, concurrency: int, seed: int) -> dict[str, Any]:
    """What `vllm bench serve` measures at a fixed number of concurrent requests."""
    from vllm.benchmarks.serve import add_cli_args
    from vllm.benchmarks.serve import main as bench_serve
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    arguments = parser.parse_args([
        "--base-url", server.url, "--model", str(server.model), "--backend", "vllm",
        "--dataset-name", "random", "--random-input-len", str(PROMPT),
        "--random-output-len", str(OUTPUT), "--num-prompts", str(max(4, 2 * concurrency)),
        "--max-concurrency", str(concurrency), "--num-warmups", str(min(concurrency, 8)),
        "--ignore-eos", "--temperature", "0", "--seed", str(seed), "--disable-tqdm",
        "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99",
    ])  # fmt: skip
    with server.log.with_suffix(".load.log").open("a") as log, contextlib.redirect_stdout(log):
        found = bench_serve(arguments)
    return {name: round(float(found[name]), 3) for name in KEPT}


def planned(found: store.Store, legs: list[plan.Leg], args: argparse.Namespace) -> list[Any]:
    """Return (leg, fields) of what the file lacks, in turns, another first in each repeat."""
    turns = [
        (leg, {
            "geometry": leg.geometry, "mode": leg.mode, "drafts": leg.drafts,
            "concurrency": concurrency, "repeat": repeat,
        })
        for repeat in range(args.repeats)
        for concurrency in args.concurrency
        for leg in legs[repeat % len(legs) :] + legs[: repeat % len(legs)]
    ]  # fmt: skip
    return [(leg, fields) for leg, fields in turns if not found.has("rows", fields)]


def run(found: store.Store, todo: list[Any], servers: dict[plan.Leg, Server],
        args: argparse.Namespace) -> int:  # fmt: skip
    """Measure; return how much is left."""
    left, deadline = len(todo), time.monotonic() + args.seconds
    for leg, server in list(servers.items()):
        if reason := server.wait(time.monotonic() + 600):
            print(reason, file=sys.stderr, flush=True)
            servers.pop(leg).stop()
    for n, (leg, fields) in enumerate(todo, 1):
        if leg not in servers or time.monotonic() > deadline:
            continue
        answer = load(servers[leg], fields["concurrency"], fields["repeat"])
        if answer["failed"] or not answer["completed"]:
            print(f"{leg.name}: {answer['failed']:.0f} requests failed", file=sys.stderr)
            continue
        found.add("rows", fields | answer)
        left -= 1
        print(
            f"[{n}/{len(todo)}] {leg.name}, {fields['concurrency']} at once: inter-token p50 "
            f"{answer['p50_itl_ms']} ms, p99 {answer['p99_itl_ms']} ms",
            flush=True,
        )
    return left


def measure(args: argparse.Namespace, found: store.Store) -> int:
    """Start the servers that have something to measure, measure, stop them."""
    legs = [
        plan.Leg(args.geometry, mode, args.drafts if modes.MODES[mode].drafts else 0)
        for mode in args.modes
    ]
    todo = planned(found, legs, args)
    servers: dict[plan.Leg, Server] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = geometry.write(args.geometry, Path(scratch), tokenizer=True)
        try:
            for i, leg in enumerate(leg for leg in legs if any(leg == of for of, _ in todo)):
                servers[leg] = Server(leg, folder, args.port + i, args)
            left = run(found, todo, servers, args)
        finally:
            for server in servers.values():
                server.stop()
    if left:
        print(f"{left} measurements are left; run the same command again.")
    return 1 if left else 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--out", type=Path, help="file or folder; default: bench/results")
    found.add_argument("--quick", action="store_true", help="the small geometry, one repeat")
    found.add_argument("--geometry", choices=sorted(geometry.GEOMETRIES))
    found.add_argument("--drafts", type=int, default=4, choices=sorted(plan.LEVELS))
    found.add_argument("--modes", nargs="+", default=list(plan.MODES), choices=sorted(modes.MODES))
    found.add_argument("--concurrency", type=int, nargs="+", metavar="N")
    found.add_argument("--repeats", type=int)
    found.add_argument("--kv-gib", type=int, help="cache of a server with drafts")
    found.add_argument("--compiled", action="store_true", help="with torch.compile: starts slower")
    found.add_argument("--seconds", type=float, default=24 * 3600, help="begin nothing after these")
    return found


def main() -> int:
    args = parser().parse_args()
    if reason := host.why_not():
        print(reason, file=sys.stderr)
        return 2
    args.geometry = args.geometry or (
        "qwen3.5-0.8b" if args.quick else "qwen3.6-27b-8-of-64-layers"
    )
    args.concurrency = args.concurrency or ([1, 32] if args.quick else [1, 32, 128])
    args.repeats = args.repeats or (1 if args.quick else plan.REPEATS)
    facts = host.facts()
    name = f"{host.slug(facts['gpu'])}-latency{'-quick' * args.quick}.json"
    settings = host.comparable(facts) | {
        "compiled": args.compiled, "kv_gib": args.kv_gib, "prompt": PROMPT, "output": OUTPUT,
        "most": max(args.concurrency),
    }  # fmt: skip
    try:
        found = store.Store(store.place(args.out, RESULTS, name), {"rows": FIELDS}, settings)
    except store.UnreadableError as error:
        print(error, file=sys.stderr)
        return 2
    if found.note:
        print(found.note)
    found.begin({"host": facts, "command": host.command()})
    args.logs, args.serve, args.port = found.path.parent / "logs", SERVE, PORT
    return measure(args, found)


if __name__ == "__main__":
    sys.exit(main())
