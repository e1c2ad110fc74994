"""What the window holds back: the tokens that a request's states lack, and the states with them,
from the definition.
"""

from __future__ import annotations

from typing import Any


def builder(runner: Any, group: int) -> Any:
    """The metadata builder of a cache group of the window's layers."""
    (attention,) = runner.attn_groups[group]
    return attention.get_metadata_builder(0)


def pending(runner: Any, group: int, slot: int) -> int:
    """Accepted tokens in the slot's window: those that its states lack."""
    before, recorded = builder(runner, group).windows[:, slot].tolist()
    accepted = int(runner.model_state.num_accepted_tokens_gpu[slot])
    return 0 if accepted < 0 else before + min(recorded, accepted)


def advanced(layer: Any, block: int, slot: int, count: int) -> tuple[Any, Any]:
    """History [W - 1, channels] and state [HV, V, K] of a block after its slot's window of
    `count` tokens.
    """
    import torch

    records = layer.recoverssm_records
    conv, temporal = layer.kv_cache[:2]
    width = layer.conv_kernel_size - 1
    inputs = [
        records.conv_input[slot, t % records.conv_input.shape[1]]
        if t >= 0
        else conv[block, width + t]
        for t in range(count - width, count)
    ]
    state = temporal[block]
    if count:
        log_decay = records.g[slot, :count].double()
        after = (log_decay.sum(0) - log_decay.cumsum(0)).exp()  # [count, HV], each token's
        key = records.k[slot, :count].double()
        key = key.repeat_interleave(after.shape[1] // key.shape[1], dim=1)
        update = records.u[slot, :count].double() * after[..., None]
        added = torch.einsum("thv,thk->hvk", update, key)
        decay = log_decay.sum(0).exp()[:, None, None]
        state = (state.double() * decay + added).to(state.dtype)
    return torch.stack(inputs), state


def request_bytes(runner: Any) -> int:
    """Bytes of a request's block and window, of all layers with windows."""
    total = 0
    for layer in runner.vllm_config.compilation_config.static_forward_context.values():
        records = getattr(layer, "recoverssm_records", None)
        if records is None:
            continue
        state = layer.kv_cache[1]
        total += state.stride(0) * state.element_size()
        windows = (records.conv_input, records.k, records.u, records.g)
        total += sum(window.nbytes for window in windows) // len(records.k)
    return total
