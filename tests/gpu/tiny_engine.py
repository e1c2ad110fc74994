"""Greedy outputs of the trained tiny checkpoint in one way of serving.

`python tests/gpu/tiny_engine.py MODEL MODE OUT.json [--eager]`; run by parity.py,
one process a mode.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import modes

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("mode", choices=sorted(modes.MODES))
    parser.add_argument("out", type=Path)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--tokens", type=int, default=160)
    args = parser.parse_args()
    arguments = modes.engine_arguments(
        modes.MODES[args.mode],
        args.model,
        drafts=DRAFTS,
        capture_sizes=[1, 2, 4, 8, 16, 32],
        eager=args.eager,
        max_model_len=1024,
        max_num_seqs=8,
        max_num_batched_tokens=64,  # prefill chunks beside verify rows
        kv_cache_memory_bytes=1 << 30,
        disable_log_stats=False,
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
    sampling = SamplingParams(
        temperature=0, max_tokens=args.tokens, ignore_eos=True, detokenize=False, logprobs=2
    )
    outputs = llm.generate(
        [TokensPrompt(prompt_token_ids=list(p)) for p in PROMPTS], sampling, use_tqdm=False
    )
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
            }
        )
    args.out.write_text(json.dumps({"rows": rows, "accepted_counts": dict(sorted(counts.items()))}))


if __name__ == "__main__":
    main()
