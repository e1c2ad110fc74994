"""The ways of serving that the benchmarks and the GPU tests compare."""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mode:
    """Engine arguments and environment of one way of serving."""

    window: bool = False
    drafts: bool = True
    env: dict[str, str] = field(default_factory=dict)
    cudagraph_mode: str = "FULL_AND_PIECEWISE"
    about: str = ""


TRITON = {"VLLM_GDN_DECODE_KERNEL": "triton"}
MODES = {
    "window": Mode(window=True, about="RecoverSSM, FULL graphs"),
    "window-piecewise": Mode(
        window=True, cudagraph_mode="PIECEWISE", about="RecoverSSM, piecewise graphs"
    ),
    "snapshot": Mode(about="upstream's default: fused CUDA kernel, FULL graphs"),
    "snapshot-piecewise": Mode(
        cudagraph_mode="PIECEWISE", about="upstream's fused CUDA kernel, piecewise graphs"
    ),
    "snapshot-triton": Mode(env=TRITON, about="upstream's Triton kernels, FULL graphs"),
    "none": Mode(drafts=False, about="no speculation"),
}


def capture_sizes(most: int, query: int) -> list[int]:
    """Tokens of the graphs to capture: for 1, 2, 4, every 8th and from 64 on every 16th request.

    Much as vLLM spaces its own, but up to `most` requests, which its default may not reach;
    whatever number of requests runs together, its graph is at most 15 rows larger.
    """
    spaced = (1, 2, 4, *range(8, 72, 8), *range(80, most + 16, 16))
    requests = spaced[: 1 + bisect.bisect_left(spaced, most)]
    return sorted({n * width for n in requests for width in {1, query}})


def on_ranks(ranks: int, executor: str) -> dict[str, Any]:
    """Arguments for several tensor-parallel ranks; the executor is mp or ray."""
    if ranks == 1:
        return {}
    return {"tensor_parallel_size": ranks, "distributed_executor_backend": executor}


def engine_arguments(
    mode: Mode,
    model: str,
    *,
    drafts: int,
    capture_sizes: list[int],
    eager: bool = False,
    synthetic_acceptance: float | None = None,
    compiled: bool = False,
    **overrides: Any,
) -> dict[str, Any]:
    """Arguments for vllm.LLM; sets the mode's environment.

    Unless `compiled`, compilation is off (`mode: 0`) on every side, so that an engine starts
    sooner; piecewise graphs then break at the attention operators at capture time.
    """
    breakable = not eager and not compiled
    os.environ.update(mode.env, VLLM_USE_BREAKABLE_CUDAGRAPH=str(int(breakable)))
    speculative: dict[str, Any] | None = None
    if mode.drafts:
        speculative = {"method": "mtp", "num_speculative_tokens": drafts}
        if synthetic_acceptance is not None:
            speculative |= {
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_length": synthetic_acceptance,
            }
    return {
        "model": model,
        "dtype": "bfloat16",
        "skip_tokenizer_init": True,
        "limit_mm_per_prompt": {"image": 0, "video": 0},
        "enable_prefix_caching": False,
        "speculative_config": speculative,
        "use_replayssm": mode.window,
        "enforce_eager": eager,
        "gpu_memory_utilization": 0.1,  # the KV cache is sized by kv_cache_memory_bytes
        "additional_config": {"gdn_prefill_backend": "triton"},
        "compilation_config": {
            **({} if compiled else {"mode": 0}),
            "cudagraph_mode": "NONE" if eager else mode.cudagraph_mode,
            "cudagraph_capture_sizes": [] if eager else capture_sizes,
        },
        **overrides,
    }
