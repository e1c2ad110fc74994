"""Run one scenario in one engine: python -m harness.drive SCENARIO.json RESULT.json

mode      "kernels" or "plain", see install()
model     folder of the checkpoint
engine    keyword arguments of the engine
watch     requests whose recurrent state is kept, in RESULT.npz
drafts    name -> the most drafts of its first, second, ... step with any, over and over
          (see drafts.py)
requests  name -> {prompt, max_tokens, step}: added before that step (default 0); with `continues`,
          [name, n], the prompt follows that request's prompt and the first n tokens it has said
poison    whether to write NaN over all that no later step may read, or "records", with a prefix
          cache (see poison.py)
aborts    name -> step before which it is aborted
preempt   step before which all running requests are preempted
foreign   series of the second rank's installation, "" for upstream's
engine_process  whether the engine runs in a process of its own, as that of a server does
disagree  step in which the second rank takes one token less of each request for accepted
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from typing import Any

import harness
from harness import hooks, interpreter, poison, ranks, ray_node
from harness.drafts import limit_drafts
from harness.observe import Observer

START = time.monotonic()
SCENARIO = "GDNWINDOW_SCENARIO"  # its file, for ranks in processes of their own
DEFAULTS: dict[str, Any] = dict(
    skip_tokenizer_init=True,
    enforce_eager=True,
    dtype="bfloat16",
    async_scheduling=False,
    max_model_len=256,
    enable_prefix_caching=False,
    disable_log_stats=False,
    kv_cache_memory_bytes=64 << 20,
    limit_mm_per_prompt={"image": 0, "video": 0},
)


class Player:
    """Adds, steps and aborts as a scenario says, and keeps what the requests said."""

    def __init__(self, engine: Any, ids: dict[str, str]) -> None:
        self.engine, self.ids = engine, ids
        self.outputs: dict[str, Any] = {}

    def play(self, scenario: dict[str, Any]) -> None:
        waiting, aborts = dict(scenario["requests"]), dict(scenario.get("aborts", {}))
        step = 0
        while waiting or self.engine.has_unfinished_requests():
            for name in [n for n, request in waiting.items() if self._is_due(request, step)]:
                request = waiting.pop(name)
                if "continues" in request:
                    first, said = request["continues"]
                    before = self.outputs[first].outputs[0].token_ids[:said]
                    prompt = [*scenario["requests"][first]["prompt"], *before, *request["prompt"]]
                    request = request | {"prompt": prompt}
                self._add(name, request)
            stopped = [name for name, at in aborts.items() if at <= step]
            if stopped:
                self.engine.abort_request(stopped)
            for name in stopped:
                del aborts[name]
            if step == scenario.get("preempt"):
                self.engine.reset_prefix_cache(reset_running_requests=True)
            for output in self.engine.step():
                self.outputs[output.request_id] = output
            step += 1
        assert not aborts, f"requests ended before their abort: {sorted(aborts)}"

    def _is_due(self, request: dict[str, Any], step: int) -> bool:
        first = self.outputs.get(request.get("continues", [None])[0])
        is_said = "continues" not in request or (first is not None and first.finished)
        return request.get("step", 0) <= step and is_said

    def _add(self, name: str, request: dict[str, Any]) -> None:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        params = SamplingParams(
            temperature=0,
            max_tokens=request["max_tokens"],
            ignore_eos=True,
            detokenize=False,
            logprobs=2,
        )
        internal = self.engine.add_request(
            name, TokensPrompt(prompt_token_ids=request["prompt"]), params
        )
        self.ids[internal] = name

    def said(self) -> dict[str, dict[str, Any]]:
        """Tokens of each request, their log-probabilities, and the gap between the two
        likeliest tokens.
        """
        result = {}
        for name, output in self.outputs.items():
            completion = output.outputs[0]
            logprobs, margins = [], []
            for token, entry in zip(completion.token_ids, completion.logprobs, strict=True):
                best = sorted((candidate.logprob for candidate in entry.values()), reverse=True)
                logprobs.append(entry[token].logprob)
                margins.append(best[0] - best[1])
            result[name] = dict(
                tokens=list(completion.token_ids),
                logprobs=logprobs,
                margins=margins,
                cached=output.num_cached_tokens,
            )
        return result


def metrics(llm: Any) -> dict[str, float]:
    """What the window's metrics say, if the engine keeps any."""
    if not llm.llm_engine.log_stats:
        return {}
    return {
        metric.name: metric.value
        for metric in llm.get_metrics()
        if metric.name.startswith("vllm:gdn_recoverssm")
    }


def install(scenario: dict[str, Any]) -> None:
    """What a process that runs the model needs."""
    harness.install(scenario["mode"])
    if scenario.get("poison"):
        poison.install(blocks=scenario["poison"] != "records")
    if "disagree" in scenario:
        ranks.install(scenario["disagree"])
    if "foreign" in scenario:
        ranks.install_series(scenario["foreign"])
    if _uses_ray(scenario):
        ray_node.install()


def _uses_ray(scenario: dict[str, Any]) -> bool:
    return scenario["engine"].get("distributed_executor_backend") == "ray"


def run(scenario: dict[str, Any], result: pathlib.Path) -> None:
    install(scenario)
    ids: dict[str, str] = {}
    observer = Observer(lambda request_id: ids[request_id], scenario.get("watch", ()))
    if scenario.get("engine_process"):
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    if _uses_ray(scenario):
        ray_node.start()
    is_here = scenario["engine"].get("tensor_parallel_size", 1) == 1 and not _uses_ray(scenario)
    observer.install(runner=scenario["mode"] == "kernels" and is_here)
    limit_drafts(scenario.get("drafts", {}), lambda request_id: ids[request_id])
    from vllm import LLM

    llm = LLM(model=scenario["model"], **{**DEFAULTS, **scenario["engine"]})
    started = time.monotonic()
    config = llm.llm_engine.vllm_config
    player = Player(llm.llm_engine, ids)
    player.play(scenario)
    done = time.monotonic()
    workers = llm.collective_rpc(ray_node.describe) if _uses_ray(scenario) else []
    if observer.states:
        import numpy as np

        np.savez(result.with_suffix(".npz"), **observer.states)
    result.write_text(
        json.dumps(
            dict(
                requests=player.said(),
                steps=observer.steps,
                draft_margins=observer.draft_margins,
                blocks=observer.blocks,
                late=observer.late,
                v2=config.use_v2_model_runner,
                replayssm=config.cache_config.use_replayssm,
                metrics=metrics(llm),
                commits=observer.commits,
                request_bytes=observer.request_bytes,
                process=os.getpid(),
                workers=workers,
                mamba_block_size=config.cache_config.mamba_block_size,
                unused_hooks=hooks.unused(),
                seconds=dict(start=started - START, play=done - started),
                kernels=interpreter.seconds,
            )
        )
    )
    llm.llm_engine.engine_core.shutdown()  # at exit it would leave shared memory files


if __name__ == "__mp_main__":
    install(json.loads(pathlib.Path(os.environ[SCENARIO]).read_text()))
elif __name__ == "__main__":
    os.environ[SCENARIO] = sys.argv[1]
    run(json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2]))
