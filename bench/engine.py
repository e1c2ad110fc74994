"""One engine that measures what it is asked to: started by bench/engines.py.

`python bench/engine.py GEOMETRY MODE --reply-fd N` starts the engine, writes one line of JSON
about it to the descriptor N, and then one line for each request line on its standard input:
{"batch": 32, "tokens": 120, "acceptance": 3.0, "seed": 0}. Weights are random, except those
of `tiny`, the trained checkpoint that --tiny names. With random weights drafts are accepted by
chance at the mean length asked for (synthetic rejection sampling), so all modes do the same
work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import geometry
import modes
from stepwatch import StepWatch

MAX_LEN = 1024
PROMPT = 32
VOCABULARY = 200000


def process_memory_gib() -> float | None:
    """GPU memory of this process and its children, as the driver counts it."""
    import psutil

    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        # NVML counts all GPUs of the host, whichever this process sees.
        devices = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        running = [p for d in devices for p in pynvml.nvmlDeviceGetComputeRunningProcesses(d)]
    except pynvml.NVMLError:
        return None
    mine = {os.getpid(), *(c.pid for c in psutil.Process().children(recursive=True))}
    return round(sum(p.usedGpuMemory or 0 for p in running if p.pid in mine) / 2**30, 2)


def set_acceptance(worker: Any, length: float) -> None:
    """Runs in the worker: the mean tokens a step of synthetic acceptance, from now on."""
    import torch
    from vllm.config.speculative import SpeculativeConfig
    from vllm.v1.spec_decode.utils import unconditional_to_conditional_rates

    kept = worker.model_runner.rejection_sampler.synthetic_conditional_rates
    rates = SpeculativeConfig._acceptance_length_to_rates(length, kept.numel())
    # In place: a captured graph may hold its address.
    kept.copy_(torch.tensor(unconditional_to_conditional_rates(rates), dtype=kept.dtype))


def is_synthetic(args: argparse.Namespace) -> bool:
    """Whether drafts are accepted by chance, at the mean length that is set."""
    return modes.MODES[args.mode].drafts and args.geometry != "tiny"


class Engine:
    """An engine, and what it was told before."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.mode = args, modes.MODES[args.mode]
        self.synthetic = is_synthetic(args)
        self.acceptance: float | None = None
        self.seen: set[int] = set()
        self.watch = StepWatch()
        self.begun = 0.0  # when the load of the last measurement was handed over
        query = 1 + args.drafts if self.mode.drafts else 1
        sizes = modes.capture_sizes(max(args.batches), query)
        # Engines set the acceptance length between measurements by a function sent to the worker.
        os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            if args.geometry == "tiny":
                model, load = str(args.tiny), "auto"
            else:
                model, load = str(geometry.write(args.geometry, Path(scratch))), "dummy"
            arguments = modes.engine_arguments(
                self.mode, model,
                drafts=args.drafts, capture_sizes=sizes, eager=args.eager,
                synthetic_acceptance=1.0 if self.synthetic else None, compiled=args.compiled,
                load_format=load, max_model_len=MAX_LEN, max_num_seqs=max(args.batches),
                max_num_batched_tokens=args.budget, kv_cache_memory_bytes=int(args.kv_gib * 2**30),
                **modes.on_ranks(args.ranks, args.executor),
                disable_log_stats=False, seed=0,
            )  # fmt: skip
            from vllm import LLM

            self.llm = LLM(**arguments)
        self.started = time.perf_counter() - started
        self.watch.install(self.llm.llm_engine)

    def about(self) -> dict[str, Any]:
        cache = self.llm.llm_engine.vllm_config.cache_config
        return {
            "about": self.mode.about, "start_s": round(self.started, 1),
            "kv_cache_gib": self.args.kv_gib, "kv_cache_tokens": cache.kv_cache_size_tokens,
            "advertised": cache.kv_cache_max_concurrency, "max_model_len": MAX_LEN,
            "max_num_seqs": max(self.args.batches), "gpu_memory_gib": process_memory_gib(),
        }  # fmt: skip

    def prompts(self, batch: int, seed: int) -> list[list[int]]:
        """Random tokens, or for the trained checkpoint what it was trained on."""
        if self.args.geometry == "tiny":
            sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
            from tinymodel.tasks import Tasks, docstrings

            return Tasks(seed, docstrings()).batch(batch, PROMPT)[1]
        draw = random.Random(seed)
        return [draw.choices(range(VOCABULARY), k=PROMPT) for _ in range(batch)]

    def counter(self, name: str) -> float:
        name = f"vllm:spec_decode_num_{name}"
        return float(sum(m.value for m in self.llm.get_metrics() if m.name == name))

    def generate(self, batch: int, tokens: int, seed: int) -> dict[str, Any]:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        sampling = SamplingParams(
            temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False
        )
        prompts = [TokensPrompt(prompt_token_ids=p) for p in self.prompts(batch, seed)]
        self.watch.steps.clear()
        drafts, accepted = self.counter("drafts"), self.counter("accepted_tokens")
        start = self.begun = time.perf_counter()
        outputs = self.llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - start
        drafts, accepted = (
            self.counter("drafts") - drafts,
            self.counter("accepted_tokens") - accepted,
        )
        produced = sum(len(output.outputs[0].token_ids) for output in outputs)
        return {
            **self.watch.summary(),
            "with_prefill_tokens_per_s": round(produced / seconds, 1),
            "tokens_a_step": round(1 + accepted / drafts, 3) if drafts else 1.0,
        }

    def measure(self, request: dict[str, Any]) -> dict[str, Any]:
        acceptance = request["acceptance"]
        if self.synthetic and acceptance != self.acceptance:
            self.llm.collective_rpc(set_acceptance, args=(acceptance,))
            self.acceptance = acceptance
        if request["batch"] not in self.seen:  # prefill kernels tune themselves to a size
            self.generate(request["batch"], 8, 1000)
            self.seen.add(request["batch"])
        return self.generate(request["batch"], request["tokens"], request["seed"])


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("geometry", choices=sorted(geometry.WEIGHTS_GIB))
    found.add_argument("mode", choices=sorted(modes.MODES))
    found.add_argument("--reply-fd", type=int, default=1)
    found.add_argument("--tiny", type=Path, help="folder of the trained checkpoint")
    found.add_argument("--drafts", type=int, default=4)
    found.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128])
    found.add_argument("--kv-gib", type=float, default=16)
    found.add_argument("--budget", type=int, default=8192, help="most tokens of a step")
    found.add_argument("--ranks", type=int, default=1, help="tensor-parallel")
    found.add_argument("--executor", choices=["mp", "ray"], default="mp", help="of several ranks")
    found.add_argument("--compiled", action="store_true", help="torch.compile, as vLLM's default")
    found.add_argument("--eager", action="store_true", help="no CUDA graphs (a CPU has none)")
    return found


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    engine = Engine(args)
    with os.fdopen(args.reply_fd, "w", closefd=args.reply_fd > 2) as replies:
        print(json.dumps(engine.about()), file=replies, flush=True)
        for line in sys.stdin:
            print(json.dumps(engine.measure(json.loads(line))), file=replies, flush=True)
    engine.llm.llm_engine.engine_core.shutdown()


if __name__ == "__main__":
    main()
    # A leftover thread must not hold the GPU memory that another engine waits for.
    sys.stdout.flush()
    os._exit(0)
