"""A rank that counts otherwise than the others."""

from __future__ import annotations

from typing import Any

from harness.hooks import after


def install(step: int) -> None:
    """In that step of postprocessing, the second rank takes one accepted token away from each
    request that has two.
    """

    @after("vllm.v1.worker.gpu.model_runner")
    def _(module: Any) -> None:
        original = module.GPUModelRunner.postprocess_sampled
        steps = 0

        def postprocess(
            runner: Any, idx_mapping: Any, tokens: Any, num_sampled: Any, *args: Any
        ) -> None:
            nonlocal steps
            from vllm.distributed.parallel_state import get_tp_group

            steps += 1
            if steps == step and get_tp_group().rank_in_group == 1:
                num_sampled = num_sampled - (num_sampled > 1).int()
            original(runner, idx_mapping, tokens, num_sampled, *args)

        module.GPUModelRunner.postprocess_sampled = postprocess


def install_series(series: str) -> None:
    """The second rank's installation is of another series, or with "" upstream's, which has no
    such module.
    """

    @after("vllm.series_provenance")
    def _(module: Any) -> None:
        own = module.series_id
        del module.series_id

        def lookup(name: str) -> Any:
            from vllm.distributed.parallel_state import (
                get_tp_group,
                model_parallel_is_initialized,
            )

            is_foreign = model_parallel_is_initialized() and get_tp_group().rank_in_group == 1
            if name != "series_id" or (is_foreign and not series):
                raise AttributeError(name)  # the import fails
            return (lambda: series) if is_foreign else own

        module.__getattr__ = lookup
