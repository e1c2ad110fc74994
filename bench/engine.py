"""Throughput of one way of serving one geometry: `python bench/engine.py --help`.

Random weights and random prompts; drafts are accepted by chance at a set mean length
(synthetic rejection sampling), so every mode does the same work. Writes one JSON file.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geometry
import host
import modes


@contextlib.contextmanager
def alone(meeting: Path | None, engines: int) -> Iterator[None]:
    """Let engines start together, but measure one by one once all have started.

    An engine that failed counts as started when its starter leaves a file for it.
    """
    if meeting is None:
        yield
        return
    (meeting / f"started-{os.getpid()}").touch()
    while len(list(meeting.glob("started-*"))) < engines:
        time.sleep(0.5)
    with (meeting / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def process_memory_gib() -> float:
    """GPU memory of this process and its children, as the driver counts it."""
    import psutil
    import pynvml

    mine = {os.getpid(), *(c.pid for c in psutil.Process().children(recursive=True))}
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    used = [
        p.usedGpuMemory or 0
        for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device)
        if p.pid in mine
    ]
    return round(sum(used) / 2**30, 2)


def counter(llm: Any, name: str) -> float:
    """Sum of a Prometheus counter of the engine."""
    return sum(m.value for m in llm.get_metrics() if m.name == name)


def measure(llm: Any, batch: int, tokens: int, repeats: int, vocab: int) -> dict[str, Any]:
    """Median output tokens per second of `batch` requests decoded together."""
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt

    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    rates, steps_ms, lengths = [], [], []
    for repeat in range(repeats + 1):  # the first warms up
        prompts = [
            TokensPrompt(prompt_token_ids=random.choices(range(vocab), k=32)) for _ in range(batch)
        ]
        drafts = counter(llm, "vllm:spec_decode_num_drafts")
        accepted = counter(llm, "vllm:spec_decode_num_accepted_tokens")
        start = time.perf_counter()
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        elapsed = time.perf_counter() - start
        if repeat == 0:
            continue
        drafts = counter(llm, "vllm:spec_decode_num_drafts") - drafts
        accepted = counter(llm, "vllm:spec_decode_num_accepted_tokens") - accepted
        rates.append(sum(len(o.outputs[0].token_ids) for o in outputs) / elapsed)
        steps = drafts / batch if drafts else tokens
        steps_ms.append(1e3 * elapsed / steps)
        lengths.append(1 + accepted / drafts if drafts else 1.0)
    return {
        "batch": batch,
        "tokens_per_s": round(statistics.median(rates), 1),
        "tokens_per_s_all": [round(rate, 1) for rate in rates],
        "ms_per_step": round(statistics.median(steps_ms), 3),
        "acceptance_length": round(statistics.median(lengths), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("geometry", choices=sorted(geometry.GEOMETRIES))
    parser.add_argument("mode", choices=sorted(modes.MODES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--drafts", type=int, default=4)
    parser.add_argument("--acceptance", type=float, default=3.0)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kv-gib", type=int, default=16)
    parser.add_argument("--meeting", type=Path, help="a folder shared by engines that take turns")
    parser.add_argument("--engines", type=int, default=1, help="how many meet there")
    args = parser.parse_args()

    random.seed(0)
    mode = modes.MODES[args.mode]
    query_len = 1 + args.drafts if mode.drafts else 1
    sizes = sorted({*args.batches, *(b * query_len for b in args.batches)})
    with tempfile.TemporaryDirectory() as scratch:
        arguments = modes.engine_arguments(
            mode,
            str(geometry.write(args.geometry, Path(scratch))),
            drafts=args.drafts,
            capture_sizes=sizes,
            synthetic_acceptance=args.acceptance,
            load_format="dummy",
            max_model_len=1024,
            max_num_seqs=max(args.batches),
            max_num_batched_tokens=8192,
            kv_cache_memory_bytes=args.kv_gib << 30,
            disable_log_stats=False,
        )
        from vllm import LLM

        start = time.perf_counter()
        llm = LLM(**arguments)
        started = time.perf_counter() - start
    cache = llm.llm_engine.vllm_config.cache_config
    result = {
        "geometry": args.geometry,
        "mode": args.mode,
        "about": mode.about,
        "drafts": args.drafts if mode.drafts else 0,
        "start_s": round(started, 1),
        "kv_cache_gib": args.kv_gib,
        "kv_cache_tokens": cache.kv_cache_size_tokens,
        "max_concurrency": cache.kv_cache_max_concurrency,
        "max_model_len": 1024,
        "gpu_memory_gib": process_memory_gib(),
        "host": host.facts(),
        "command": " ".join(["python", *sys.argv]),
    }
    with alone(args.meeting, args.engines):
        result["batches"] = [
            measure(llm, batch, args.tokens, args.repeats, 200000) for batch in args.batches
        ]
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    # A leftover thread must not hold the GPU memory that another engine waits for.
    llm.llm_engine.engine_core.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
