"""What the window holds back: the recorded tokens that a request's states lack, and the states
with them, from the definition.
"""

from __future__ import annotations

from typing import Any


def builder(runner: Any, group: int) -> Any:
    """The metadata builder of a cache group of the window's layers."""
    (attention,) = runner.attn_groups[group]
    return attention.get_metadata_builder(0)


def pending(runner: Any, group: int, slot: int) -> int:
    """Accepted tokens of the slot's last verify that its states lack."""
    recorded = int(builder(runner, group).recorded_lens[slot])
    return min(recorded, int(runner.model_state.num_accepted_tokens_gpu[slot]))


def advanced(layer: Any, block: int, slot: int, count: int) -> tuple[Any, Any]:
    """History [W - 1, channels] and state [HV, V, K] of a block after `count` recorded tokens."""
    import torch

    records = layer.recoverssm_records
    conv, temporal = layer.kv_cache[:2]
    width = layer.conv_kernel_size - 1
    rows = slice(slot * records.spec_query_len, slot * records.spec_query_len + count)
    history = torch.cat([conv[block, :width], records.conv_input[rows]])[count:]
    state = temporal[block]
    if count:
        decay = records.decay[rows.stop - 1]  # [HV, T + 1], from each token to the last
        update = records.u[rows] * decay[:, :count].T[..., None]
        added = torch.einsum("thv,thk->hvk", update, records.k[rows].float())
        state = (state.float() * decay[:, -1, None, None] + added).to(state.dtype)
    return history, state
