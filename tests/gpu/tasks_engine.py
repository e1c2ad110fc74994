"""Answers of one way of serving, and log-probabilities: run by tasks.py, one process each.

`python tests/gpu/tasks_engine.py MODEL MODE JOB.json OUT.json`. JOB holds `tasks` (question,
answer, stop), `max_tokens`, `forced` (how many tasks' texts are scored), `engine` (arguments), and
`said`: name -> token ids of prompts and answers of other runs, forced on this engine as prompts.
Its own answers are forced as well.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[1]))

import modes

COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
OWN = "own"


def prompt_of(tokenizer: Any, question: str) -> list[int]:
    """A turn of a chat where the model has a template for it, else the bare question."""
    if getattr(tokenizer, "chat_template", None):
        turn = [{"role": "user", "content": f"{question}\nEnd with the answer's number alone."}]
        text = tokenizer.apply_chat_template(
            turn, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return list(tokenizer.encode(text, add_special_tokens=False))
    return list(tokenizer.encode(question, add_special_tokens=False))


def answers(llm: Any, job: dict[str, Any], prompts: list[list[int]]) -> list[dict[str, Any]]:
    """Greedy answers, with the log-probability of each token as it was decoded."""
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt

    sampling = [
        SamplingParams(
            temperature=0, max_tokens=job["max_tokens"], logprobs=0, stop=task.get("stop")
        )
        for task in job["tasks"]
    ]
    given = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
    found = []
    for output in llm.generate(given, sampling, use_tqdm=False):
        said = output.outputs[0]
        found.append({
            "prompt": list(output.prompt_token_ids), "text": said.text,
            "tokens": list(said.token_ids),
            "logprobs": [
                entry[token].logprob
                for token, entry in zip(said.token_ids, said.logprobs, strict=True)
            ],
        })  # fmt: skip
    return found


def forced(llm: Any, texts: list[tuple[list[int], list[int]]]) -> list[list[float]]:
    """Log-probabilities of the tokens behind each prompt, computed as a prompt."""
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt

    sampling = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    given = [TokensPrompt(prompt_token_ids=[*prompt, *tokens]) for prompt, tokens in texts]
    found = []
    for (prompt, tokens), output in zip(
        texts, llm.generate(given, sampling, use_tqdm=False), strict=True
    ):
        entries = output.prompt_logprobs[len(prompt) :]
        found.append([e[token].logprob for token, e in zip(tokens, entries, strict=True)])
    return found


def counters(llm: Any) -> dict[str, int]:
    found = {metric.name: metric for metric in llm.get_metrics()}
    named = {name: found.get(f"vllm:spec_decode_{name}") for name in COUNTERS}
    return {name: int(metric.value) for name, metric in named.items() if metric is not None}


def main() -> None:
    model, mode, job_file, out = sys.argv[1:5]
    job = json.loads(Path(job_file).read_text())
    if job.get("interpreted"):
        import harness

        harness.install("kernels")
    arguments = modes.engine_arguments(
        modes.MODES[mode],
        model,
        drafts=job["drafts"],
        capture_sizes=modes.capture_sizes(job["engine"]["max_num_seqs"], 1 + job["drafts"]),
        eager=bool(job.get("interpreted")),
        **{"skip_tokenizer_init": False, "disable_log_stats": False, **job["engine"]},
    )
    from vllm import LLM

    llm = LLM(**arguments)
    tokenizer = llm.get_tokenizer()
    prompts = [prompt_of(tokenizer, task["question"]) for task in job["tasks"]]
    own = answers(llm, job, prompts)
    counts = counters(llm)
    most = job["forced"]
    said = {OWN: [(row["prompt"], row["tokens"]) for row in own[:most]], **job["said"]}
    gold = [
        (prompt, list(tokenizer.encode(task["answer"], add_special_tokens=False)))
        for prompt, task in zip(prompts[:most], job["tasks"], strict=False)
    ]
    config = llm.llm_engine.vllm_config
    text_config = config.model_config.hf_text_config.to_dict()
    report = {
        "answers": own,
        "forced": {name: forced(llm, texts) for name, texts in said.items()},
        "gold": forced(llm, gold),
        "counters": counts,
        "replayssm": config.cache_config.use_replayssm,
        "load_format": str(config.load_config.load_format),
        "text_config": {k: v for k, v in text_config.items() if isinstance(v, (int, str, bool))},
    }
    Path(out).write_text(json.dumps(report))
    if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0":
        llm.llm_engine.engine_core.shutdown()  # at exit it would leave shared memory files


if __name__ == "__main__":
    main()
