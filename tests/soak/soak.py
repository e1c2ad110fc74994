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
import sys
import time
from pathlib import Path
from typing import Any

from client import Client
from requests_mix import Answer, draw, parted
from server import Server, add_arguments, command, serving

sys.path.append(str(Path(__file__).resolve().parents[1] / "gpu"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import host
from engine import process_memory_gib
from parity import beyond_ties

PORT = 8753
GROWTH_GIB = 0.25  # of GPU memory in a storm, for workspaces of batches not seen before


def soak(args: argparse.Namespace, server: Server) -> dict[str, Any]:
    if not server.until(server.metrics, 600):
        raise RuntimeError("the server did not start")
    block = server.block_size()
    asks = draw(args.seed, args.requests, most_tokens=args.most_tokens, block=block)
    client = Client(args.model, args.port)
    started = time.monotonic()
    calm = asyncio.run(client.all(asks, args.calm, stay=True))
    calm_seconds, before = time.monotonic() - started, server.metrics()
    memory = [process_memory_gib()]
    order, rng = list(range(len(asks))), random.Random(args.seed + 1)
    pairs: list[tuple[Answer | None, Answer | None]] = []
    started, storms = time.monotonic(), 0
    while not storms or time.monotonic() - started < args.seconds:
        rng.shuffle(order)
        answers = asyncio.run(client.all([asks[i] for i in order], args.storm, stay=False))
        pairs += zip((calm[i] for i in order), answers, strict=True)
        memory.append(process_memory_gib())
        storms += 1
    storm_seconds = time.monotonic() - started
    idle = server.until(server.is_idle, 60)
    after = server.metrics()
    stayed = [(a, b) for a, b in pairs if a and b]
    margins = [m for a, b in stayed if (m := parted(a, b)) is not None]
    left = storms * sum(a.leaves_after is not None for a in asks)
    preempted, cached = (
        after[name] - before[name]
        for name in ("vllm:num_preemptions_total", "vllm:prefix_cache_hits_total")
    )
    found: dict[str, Any] = {
        "requests": len(pairs), "storms": storms, "block_size": block, "left": left,
        "structured": storms * sum(a.regex is not None for a in asks), "answered": len(stayed),
        "equal": len(stayed) - len(margins), "parted_at_ties": sorted(round(m, 4) for m in margins),
        "preempted": int(preempted), "cached_tokens": int(cached), "idle_after": idle,
        "accepted_tokens": int(after["vllm:spec_decode_num_accepted_tokens_total"]),
        "drafts": int(after["vllm:spec_decode_num_drafts_total"]),
        "commits": int(after["vllm:gdn_recoverssm_commits_total"]),
        "committed_tokens": int(after["vllm:gdn_recoverssm_committed_tokens_total"]),
        "state_bytes_per_request": int(after["vllm:gdn_recoverssm_state_bytes_per_request"]),
        "gpu_gib": memory, "calm_s": round(calm_seconds, 1), "storm_s": round(storm_seconds, 1),
    }  # fmt: skip
    grown = 0.0 if None in memory else float(memory[-1] or 0) - float(memory[0] or 0)
    found["failed"] = [
        name
        for name, bad in {
            "not all that stayed were answered": len(stayed) < len(pairs) - left,
            "answers differ beyond ties": bool(beyond_ties(margins)),
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
    parser.add_argument("--seconds", type=float, default=0, help="storms until then, one at least")
    parser.add_argument("--least-cached", type=int, default=1, metavar="TOKENS")
    parser.add_argument("--seed", type=int, default=0)
    add_arguments(parser, PORT)
    args, more = parser.parse_known_args()  # more goes to the server
    args.out.unlink(missing_ok=True)
    words = command(args.model, args.port, more, interpreted=args.interpreted)
    with serving(words, args.port, args.out.with_suffix(".log")) as server:
        try:
            found = soak(args, server)
        except Exception as error:
            print(f"{error}\n{server.said()}", file=sys.stderr)
            return 1
    host.write_report(args.out, found)
    print(json.dumps(found, indent=1))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
