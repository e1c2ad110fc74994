"""A real server under clients that come, go and share: `python tests/soak/soak.py MODEL OUT.json`.

Every request is asked twice: calmly, a few at a time, and in a storm of many at once in which some
clients disconnect and state blocks run out, so that requests are preempted. Exit code 1 unless
all that stayed is answered, with the tokens of the calm run or parting from them at a near tie, the
storm preempted and found prefixes in the cache, and afterwards no state block is held and memory
is where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
from requests_mix import Answer, Ask, draw, parted

sys.path.append(str(Path(__file__).resolve().parents[1] / "gpu"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import host
from engine import process_memory_gib
from parity import TIE_NATS
from serve import HOST, README

TESTS = Path(__file__).resolve().parents[1]
PORT = 8753
GROWTH_GIB = 0.25  # of GPU memory in a storm, for workspaces of batches not seen before


def exposed(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def metrics(port: int) -> dict[str, float]:
    """Sums over labels of the server's numbers."""
    found: dict[str, float] = {}
    for line in exposed(port).splitlines():
        if line and not line.startswith("#"):
            name, value = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
            found[name] = found.get(name, 0) + float(value)
    return found


class Client:
    """Asks one server."""

    def __init__(self, model: str, port: int) -> None:
        self.model, self.url = model, f"http://127.0.0.1:{port}/v1/completions"

    async def ask(self, session: aiohttp.ClientSession, ask: Ask, *, stay: bool) -> Answer | None:
        """Return the answer, None to a client that went away."""
        body = ask.body(self.model) | ({"stream": False} if stay else {})
        async with session.post(self.url, json=body) as reply:
            if reply.status != 200:
                raise RuntimeError(f"status {reply.status}: {(await reply.text())[:300]}")
            if not body["stream"]:
                return Answer.of(await reply.json())
            chunks = 0
            async for _ in reply.content:
                chunks += 1
                if chunks > 2 * (ask.leaves_after or 0):  # a blank line follows each chunk
                    reply.close()
                    return None
        return None

    async def all(self, asks: list[Ask], at_once: int, *, stay: bool) -> list[Answer | None]:
        gate = asyncio.Semaphore(at_once)
        timeout = aiohttp.ClientTimeout(total=1800)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

            async def one(ask: Ask) -> Answer | None:
                async with gate:
                    return await self.ask(session, ask, stay=stay)

            return await asyncio.gather(*map(one, asks))


def wait_until(what: Any, seconds: float, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(0.5)
    return False


def is_idle(port: int) -> bool:
    found = metrics(port)
    busy = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    return not any(found[f"vllm:{name}"] for name in busy)


def soak(args: argparse.Namespace, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    if not wait_until(lambda: metrics(args.port), 600, process):
        raise RuntimeError("the server did not start")
    block = re.search(r'vllm:cache_config_info{.*\bblock_size="(\d+)"', exposed(args.port))
    assert block is not None
    asks = draw(args.seed, args.requests, most_tokens=args.most_tokens, block=int(block[1]))
    client = Client(args.model, args.port)
    started = time.monotonic()
    calm = asyncio.run(client.all(asks, args.calm, stay=True))
    calm_seconds, before, memory = (
        time.monotonic() - started,
        metrics(args.port),
        [process_memory_gib()],
    )
    order = list(range(len(asks)))
    random.Random(args.seed + 1).shuffle(order)
    started = time.monotonic()
    answers = asyncio.run(client.all([asks[i] for i in order], args.storm, stay=False))
    storm_seconds = time.monotonic() - started
    memory.append(process_memory_gib())
    idle = wait_until(lambda: is_idle(args.port), 60, process)
    after = metrics(args.port)
    stayed = [(calm[i], answer) for i, answer in zip(order, answers, strict=True) if answer]
    margins = [m for a, b in stayed if (m := parted(a, b)) is not None]
    preempted, cached = (
        after[name] - before[name]
        for name in ("vllm:num_preemptions_total", "vllm:prefix_cache_hits_total")
    )
    found: dict[str, Any] = {
        "requests": len(asks), "block_size": int(block[1]),
        "left": sum(a.leaves_after is not None for a in asks),
        "structured": sum(a.regex is not None for a in asks), "answered": len(stayed),
        "equal": len(stayed) - len(margins), "parted_at_ties": sorted(round(m, 4) for m in margins),
        "preempted": int(preempted), "cached_tokens": int(cached), "idle_after": idle,
        "accepted_tokens": int(after["vllm:spec_decode_num_accepted_tokens_total"]),
        "drafts": int(after["vllm:spec_decode_num_drafts_total"]),
        "commits": int(after["vllm:gdn_recoverssm_commits_total"]),
        "committed_tokens": int(after["vllm:gdn_recoverssm_committed_tokens_total"]),
        "state_bytes_per_request": int(after["vllm:gdn_recoverssm_state_bytes_per_request"]),
        "gpu_gib": memory, "calm_s": round(calm_seconds, 1), "storm_s": round(storm_seconds, 1),
    }  # fmt: skip
    grown = 0.0 if None in memory else float(memory[1] or 0) - float(memory[0] or 0)
    found["failed"] = [
        name
        for name, bad in {
            "not all that stayed were answered": len(stayed) < len(asks) - found["left"],
            "answers differ beyond ties": any(m > TIE_NATS for m in margins),
            "nothing was preempted": preempted <= 0,
            f"only {cached:.0f} tokens were found in the cache": cached < args.least_cached,
            "state blocks or requests are left": not idle,
            f"GPU memory grew by {grown:.2f} GiB": grown > GROWTH_GIB,
        }.items()
        if bad
    ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--most-tokens", type=int, default=96)
    parser.add_argument("--calm", type=int, default=4, help="requests at once at first")
    parser.add_argument("--storm", type=int, default=96, help="requests at once then")
    parser.add_argument("--least-cached", type=int, default=1, metavar="TOKENS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--interpreted", action="store_true", help="on a CPU, see tests/harness")
    args, more = parser.parse_known_args()  # more goes to the server
    program = ["-m", "vllm.entrypoints.cli.main", "serve"]
    if args.interpreted:
        program = [str(TESTS / "soak" / "interpreted_server.py")]
    command = [sys.executable, *program, args.model, *README, *HOST]
    command += ["--port", str(args.port), *more]
    log = args.out.with_suffix(".log")
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        try:
            found = soak(args, process)
        except Exception as error:
            print(f"{error}\n{log.read_text(errors='replace')[-4000:]}", file=sys.stderr)
            return 1
        finally:
            process.terminate()
            process.wait(60)
    report = {"host": host.facts(), "command": host.command(), **found}
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
