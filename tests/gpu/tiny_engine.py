"""Greedy outputs of the trained tiny checkpoint in one way of serving.

`python tests/gpu/tiny_engine.py MODEL MODE OUT.json [--eager] [--cached]`; run by parity.py,
one process a mode. With --cached requests first decode over the end of a block; others then go
on from what they said, with the prefix found in the cache and again with an empty cache.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[1]))

import modes
from tinymodel.tasks import Tasks, docstrings

PROMPTS = [
    b"the quick brown fox jumps over the lazy dog. the quick brown",
    b"1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ",
    b"abcabcabcabcabc",
    b"def f(x):\n    return x\n\ndef g(",
    b"Return the number of items in the list, or raise ValueError if",
    b"((()))(())()((()",
    b"12+7=19;3+4=7;25+13=",
    b"x",
]
DRAFTS = 3
# Documents: tokens by which the first prompt is short of a block, and tokens said before the next.
OVER_A_BLOCK = {"text": (3, 12), "copy": (10, 25), "sums": (5, 20)}


def rows_of(outputs: list[Any]) -> list[dict[str, Any]]:
    """Tokens of each request, their log-probabilities and the gaps to the second best."""
    rows = []
    for output in outputs:
        completion = output.outputs[0]
        best = [
            sorted((x.logprob for x in entry.values()), reverse=True)
            for entry in completion.logprobs or []
        ]
        rows.append(
            {
                "tokens": list(completion.token_ids),
                "logprobs": [x[0] for x in best],
                "margins": [x[0] - x[1] for x in best],
                "cached": output.num_cached_tokens,
            }
        )
    return rows


def over_a_block(llm: Any, ask: Callable[[list[list[int]], int], list[Any]]) -> dict[str, Any]:
    """Requests that go on from what others said: from the cache, and without it."""
    block = llm.llm_engine.vllm_config.cache_config.block_size
    tasks = Tasks(777, docstrings())
    prompts, said = [], []
    for name, (short, tokens) in OVER_A_BLOCK.items():
        prompts.append(tasks.document(name, block + 160)[: block - short])
        said.append(tokens)
    first = ask(prompts, 40)
    again = [
        [*prompt, *output.outputs[0].token_ids[:tokens]]
        for prompt, output, tokens in zip(prompts, first, said, strict=True)
    ]
    again.append([*again[1], 10])  # a second reader of one block
    warm = rows_of(ask(again, 60))
    assert llm.reset_prefix_cache()
    return {"block": block, "warm": warm, "cold": rows_of(ask(again, 60))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("mode", choices=sorted(modes.MODES))
    parser.add_argument("out", type=Path)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--executor", default="", help="mp or ray")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--long-tokens", type=int, default=4096)
    args = parser.parse_args()
    more: dict[str, Any] = {"max_num_batched_tokens": 64}  # prefill chunks beside verify rows
    if args.executor:
        more["distributed_executor_backend"] = args.executor
    if args.cached:
        # Every boundary's state is kept, not only what a repeated prompt would use.
        del more["max_num_batched_tokens"]
        more |= {"enable_prefix_caching": True, "prefix_cache_retention_interval": None}
    arguments = modes.engine_arguments(
        modes.MODES[args.mode],
        args.model,
        drafts=DRAFTS,
        capture_sizes=[1, 2, 4, 8, 16, 32],
        eager=args.eager,
        max_model_len=args.long_tokens + 256,
        max_num_seqs=8,
        kv_cache_memory_bytes=1 << 30,
        disable_log_stats=False,
        tensor_parallel_size=args.ranks,
        **more,
    )
    import os

    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt
    from vllm.v1.core.sched.scheduler import Scheduler

    counts: collections.Counter[str] = collections.Counter()
    update = Scheduler.update_from_output

    def logged(self, scheduled, output):  # type: ignore[no-untyped-def]
        for request, index in output.req_id_to_index.items():
            sampled = output.sampled_token_ids[index]
            if request in scheduled.scheduled_spec_decode_tokens and sampled:
                counts[str(len(sampled))] += 1
        return update(self, scheduled, output)

    Scheduler.update_from_output = logged  # type: ignore[method-assign]
    llm = LLM(**arguments)

    def ask(prompts: list[list[int]], tokens: int) -> list[Any]:
        sampling = SamplingParams(
            temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=2
        )
        given = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        return list(llm.generate(given, sampling, use_tqdm=False))

    if args.cached:
        found = over_a_block(llm, ask)
    else:
        prompts = [list(prompt) for prompt in PROMPTS]
        found = {"rows": rows_of(ask(prompts, args.tokens))}
        found["long"] = rows_of(ask(prompts, args.long_tokens))
    args.out.write_text(json.dumps(found | {"accepted_counts": dict(sorted(counts.items()))}))


if __name__ == "__main__":
    main()
