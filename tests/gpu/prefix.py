"""Time to the first token with a cold and a warm prefix cache, window against snapshots.

`python tests/gpu/prefix.py MODEL OUT.json` asks each mode, a process of its own, for one token of
the same prompts, one at a time: with an empty cache, and again. The report has medians and their
ratios. Exit code 1 if an engine fails, a warm prompt is not found, or the modes find
other numbers of blocks of it, whose sizes differ by a few tokens. MODEL may be a folder of
bench/geometry.py, with --dummy.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[1]))

import host
import modes

MODES = ("snapshot", "window")


def time_engine(args: argparse.Namespace) -> dict[str, Any]:
    """Return the times of one mode, in this process."""
    if args.interpreted:
        import harness

        harness.install("kernels")
    more: dict[str, Any] = {"load_format": "dummy"} if args.dummy else {}
    if args.kv_gib:
        more["kv_cache_memory_bytes"] = int(args.kv_gib * 2**30)
    else:
        more["gpu_memory_utilization"] = 0.9
    arguments = modes.engine_arguments(
        modes.MODES[args.mode], args.model, drafts=args.drafts,
        capture_sizes=modes.capture_sizes(4, 1 + args.drafts), eager=args.interpreted,
        max_num_seqs=4, enable_prefix_caching=True, max_model_len=args.max_model_len, **more,
    )  # fmt: skip
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    llm = LLM(**arguments)
    config = llm.llm_engine.vllm_config
    block = config.cache_config.block_size
    most = min(256, config.model_config.get_vocab_size())
    rng = random.Random(11)
    prompts = [[rng.randrange(1, most) for _ in range(args.tokens)] for _ in range(args.prompts)]
    sampling = SamplingParams(temperature=0, max_tokens=1, detokenize=False)

    def ask(prompt: list[int]) -> tuple[float, int]:
        start = time.perf_counter()
        (output,) = llm.generate(TokensPrompt(prompt_token_ids=prompt), sampling, use_tqdm=False)
        return 1e3 * (time.perf_counter() - start), output.num_cached_tokens

    found: dict[str, Any] = {"cold": [], "warm": [], "block": block, "cached": []}
    for repeat in range(1 + args.repeats):
        assert llm.reset_prefix_cache()
        cold, warm = [ask(prompt) for prompt in prompts], [ask(prompt) for prompt in prompts]
        if repeat:  # the first compiles what is left to compile
            found["cold"] += [ms for ms, _ in cold]
            found["warm"] += [ms for ms, _ in warm]
        found["cached"].append([[n for _, n in cold], [n for _, n in warm]])
    if args.interpreted:
        llm.llm_engine.engine_core.shutdown()  # at exit it would leave shared memory files
    return found


def compare(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    medians = {
        mode: {which: round(statistics.median(one[which]), 3) for which in ("cold", "warm")}
        for mode, one in found.items()
    }
    cached = {mode: one["cached"] for mode, one in found.items()}
    blocks = {
        mode: [[[n / found[mode]["block"] for n in part] for part in pair] for pair in one]
        for mode, one in cached.items()
    }
    pairs = [pair for one in cached.values() for pair in one]
    wrong = {
        "an empty cache had a prefix": any(any(cold) for cold, _ in pairs),
        "a prompt was not found again": not all(all(warm) for _, warm in pairs),
        "the modes find different parts": blocks["window"] != blocks["snapshot"],
    }
    ratios = {
        f"{which}_ttft_over_snapshots": round(
            medians["window"][which] / medians["snapshot"][which], 4
        )
        for which in ("cold", "warm")
    }
    return {
        "block_size": found["window"]["block"],
        "ttft_ms": medians,
        "cached_tokens": cached["window"][-1][1],
        **ratios,
        "failed": [name for name, is_wrong in wrong.items() if is_wrong],
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=2600, help="of a prompt")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--drafts", type=int, default=3)
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument("--kv-gib", type=float, help="the cache (default: what memory is left)")
    parser.add_argument("--dummy", action="store_true", help="random weights")
    parser.add_argument("--interpreted", action="store_true", help="on a CPU, see tests/harness")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.mode:
        args.out.write_text(json.dumps(time_engine(args)))
        return 0
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for mode in MODES:
            out = Path(scratch, f"{mode}.json")
            given = [args.model, str(out), *(argv or sys.argv[1:])[2:], "--mode", mode]
            with out.with_suffix(".log").open("w") as log:
                command = [sys.executable, str(Path(__file__).resolve()), *given]
                code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
            if code:
                words = out.with_suffix(".log").read_text(errors="replace")[-4000:]
                print(f"{mode}: exit code {code}\n{words}", file=sys.stderr)
                return 1
            found[mode] = json.loads(out.read_text())
    report = compare(found)
    print(host.write_report(args.out, report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
