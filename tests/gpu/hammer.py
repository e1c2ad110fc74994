"""One engine under fresh batches, over and over: `python tests/gpu/hammer.py MODEL OUT.json`.

For faults too rare for a test. The same prompts come again each round, twice at least, admitted
while others decode, so answers must be those of the first round up to near ties; every second round
goes without log-probabilities, as most requests do, and is judged by those of the first. A CUDA
fault leaves a core dump beside OUT, of which cuda-gdb tells the kernel; run it for each mode
(--mode snapshot) alone on a GPU, since other processes change what overlaps. Exit code 1 if the
engine died or answers parted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[1]))

import host
import modes
from parity import beyond_ties, compare
from tiny_engine import rows_of
from tinymodel.tasks import Tasks, docstrings

PROMPT, TOKENS = 32, 96


def watch_for_faults(out: Path) -> Path:
    """Have a CUDA fault of this process's engine dump what ran; return where."""
    core = out.with_suffix(".core")
    core.unlink(missing_ok=True)
    os.environ |= {
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
        "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1",  # without memory
        "CUDA_COREDUMP_FILE": str(core),
    }
    return core


def said_of(core: Path) -> list[str]:
    """What cuda-gdb says of a core dump: the kernel, its block and where it was."""
    commands = [f"target cudacore {core}", "info cuda kernels", "x/8i $pc-64", "bt"]
    words = [word for command in commands for word in ("-ex", command)]
    try:
        done = subprocess.run(
            ["cuda-gdb", "-batch", *words], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"cuda-gdb says nothing of {core} ({error})"]
    return (done.stdout + done.stderr).splitlines()[-40:]


class Hammer:
    """An engine and what it said in the first round."""

    def __init__(self, args: argparse.Namespace) -> None:
        arguments = modes.engine_arguments(
            modes.MODES[args.mode],
            args.model,
            drafts=args.drafts,
            capture_sizes=modes.capture_sizes(max(args.batches), 1 + args.drafts),
            eager=args.eager,
            compiled=args.compiled,
            max_model_len=1024,
            max_num_seqs=max(args.batches),
            max_num_batched_tokens=8192,
            kv_cache_memory_bytes=2 << 30,
            async_scheduling=not args.sync,
        )
        from vllm import LLM, SamplingParams

        self.llm = LLM(**arguments)
        self.sampling = [
            SamplingParams(
                temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False, logprobs=n
            )
            for n in (2, None)
        ]
        tasks = Tasks(0, docstrings())
        self.prompts = {batch: tasks.batch(batch, PROMPT)[1] for batch in args.batches}
        self.first: dict[int, list[dict[str, Any]]] = {}

    def round(self, number: int, batch: int) -> dict[str, Any]:
        given = [{"prompt_token_ids": prompt} for prompt in self.prompts[batch]]
        rows = rows_of(self.llm.generate(given, self.sampling[number % 2], use_tqdm=False))
        first = self.first.setdefault(batch, rows)
        if number % 2:
            # Where they part, the first round tells whether that was at a tie.
            rows = [a | {"tokens": b["tokens"]} for a, b in zip(first, rows, strict=True)]
        return compare(rows, first)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=sorted(modes.MODES), default="window")
    parser.add_argument("--drafts", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--sync", action="store_true", help="without asynchronous scheduling")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="torch.compile, as vLLM's default")
    args = parser.parse_args()
    core = watch_for_faults(args.out)
    rounds, requests, margins, died = 0, 0, [], ""
    until = time.monotonic() + args.seconds
    try:
        hammer = Hammer(args)
        while rounds < 2 or time.monotonic() < until:
            for batch in args.batches:
                margins += hammer.round(rounds, batch)["margins_where_parted"]
                requests += batch
            rounds += 1
    except Exception as error:
        died = f"{type(error).__name__}: {error}"
    beyond = beyond_ties(margins)
    report = {
        "mode": args.mode, "rounds": rounds, "requests": requests,
        "parted_at_ties": len(margins) - len(beyond), "parted_beyond": beyond, "died": died,
        "fault": said_of(core) if core.exists() else [],
    }  # fmt: skip
    print(host.write_report(args.out, report))
    return bool(died or beyond)


if __name__ == "__main__":
    sys.exit(main())
