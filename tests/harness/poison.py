"""NaN in all that a later step must not read: the window's records after their commit, and
blocks without an owner.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from harness.hooks import after


def install() -> None:
    poisoned: set[int] = set()

    @after("vllm.v1.worker.gpu.model_runner")
    def _(module: Any) -> None:
        original = module.GPUModelRunner.postprocess_sampled

        def postprocess(runner: Any, *args: Any, **kwargs: Any) -> None:
            original(runner, *args, **kwargs)
            layers = [
                layer
                for layer in runner.vllm_config.compilation_config.static_forward_context.values()
                if getattr(layer, "recoverssm_records", None) is not None
            ]
            for layer in layers:
                for field in dataclasses.fields(layer.recoverssm_records):
                    getattr(layer.recoverssm_records, field.name).fill_(float("nan"))
            owned = _owned_blocks(runner)
            free = set(range(runner.kv_cache_config.num_blocks)) - owned
            # All groups share the pool; blocks of full attention are zeroed when they get an owner.
            for block in sorted(free - poisoned):
                for layer in layers:
                    for part in layer.kv_cache:
                        part[block].fill_(float("nan"))
            poisoned.clear()
            poisoned.update(free)

        module.GPUModelRunner.postprocess_sampled = postprocess


def _owned_blocks(runner: Any) -> set[int]:
    tables = runner.block_tables
    owned: set[int] = set()
    for slot in runner.req_states.req_id_to_index.values():
        for group, table in enumerate(tables.block_tables):
            owned.update(table.gpu[slot, : tables.num_blocks.np[group, slot]].tolist())
    return owned
