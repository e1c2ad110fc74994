"""The gated delta rule and the gated norm behind it from their definitions, in fp64."""

from __future__ import annotations

import torch


def recurrence(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [B, T, HV, V] and the state after each token [B, T, HV, V, K].

    Everything is float64. state [B, HV, V, K]; q, k [B, T, H, K] not yet normalised;
    v [B, T, HV, V]; a, b [B, T, HV]; A_log, dt_bias [HV].
    """
    ratio = v.shape[2] // q.shape[2]
    q, k = (
        (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(ratio, dim=2)
        for x in (q, k)
    )
    q = q * q.shape[-1] ** -0.5
    decay = (-A_log.exp() * torch.nn.functional.softplus(a + dt_bias)).exp()
    beta = b.sigmoid()
    outputs, states = [], []
    for t in range(q.shape[1]):
        state = state * decay[:, t, :, None, None]
        u = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t]))
        state = state + u[..., :, None] * k[:, t, :, None, :]
        outputs.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]))
        states.append(state)
    return torch.stack(outputs, 1), torch.stack(states, 1)


def gated_norm(o: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last dimension times silu(z), all in float64."""
    normed = o * (o.square().mean(-1, keepdim=True) + eps).rsqrt()
    return normed * weight * z * z.sigmoid()


def relative_error(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Frobenius norm of the difference over that of the reference."""
    return ((value.double() - reference).norm() / reference.norm()).item()
