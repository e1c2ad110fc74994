"""NaN in all that a later step must not read: records behind the window, and blocks without an
owner.
"""

from __future__ import annotations

from typing import Any

from harness import records
from harness.hooks import after


def install(blocks: bool = True) -> None:
    """Without `blocks`, records alone: a block without an owner may be cached."""
    poisoned: set[int] = set()

    @after("vllm.v1.worker.gpu.model_runner")
    def _(module: Any) -> None:
        original = module.GPUModelRunner.postprocess_sampled

        def postprocess(runner: Any, *args: Any, **kwargs: Any) -> None:
            original(runner, *args, **kwargs)
            owned = _owned_blocks(runner)
            free = set(range(runner.kv_cache_config.num_blocks)) - owned if blocks else set()
            for group, layer in _window_layers(runner):
                _poison_records(runner, group, layer)
                # All groups share the pool; blocks of full attention are zeroed when they get an
                # owner.
                for block in sorted(free - poisoned):
                    for part in layer.kv_cache:
                        part[block].fill_(float("nan"))
            poisoned.clear()
            poisoned.update(free)

        module.GPUModelRunner.postprocess_sampled = postprocess


def _window_layers(runner: Any) -> list[tuple[int, Any]]:
    layers = runner.vllm_config.compilation_config.static_forward_context
    return [
        (group, layers[name])
        for group, spec in enumerate(runner.kv_cache_config.kv_cache_groups)
        for name in spec.layer_names
        if getattr(layers[name], "recoverssm_records", None) is not None
    ]


def _poison_records(runner: Any, group: int, layer: Any) -> None:
    """All but the windows of living slots."""
    held = layer.recoverssm_records
    live = set(runner.req_states.req_id_to_index.values())
    slots, ring, _ = held.conv_input.shape
    for slot in range(slots):
        count = records.pending(runner, group, slot) if slot in live else 0
        for part in (held.k, held.u, held.g):
            part[slot, count:].fill_(float("nan"))
        # Of the inputs, a history's length is all that counts.
        last = range(max(0, count - layer.conv_kernel_size + 1), count)
        kept = {t % ring for t in last}
        held.conv_input[slot, [t for t in range(ring) if t not in kept]] = float("nan")


def _owned_blocks(runner: Any) -> set[int]:
    tables = runner.block_tables
    owned: set[int] = set()
    for slot in runner.req_states.req_id_to_index.values():
        for group, table in enumerate(tables.block_tables):
            owned.update(table.gpu[slot, : tables.num_blocks.np[group, slot]].tolist())
    return owned
