"""The window's kernels against flash-linear-attention's naive gated delta rule, which shares
no line with them, and both references of this project against it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.kernels.mamba.gdn_recoverssm_utils import (
    TOLERANCE,
    Layer,
    Shape,
    commit,
    make_layer,
    next_step,
    random_step,
    reference_recurrence,
    relative_error,
    run_conv,
    run_verify,
)

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import oracle

FP32 = 2e-6  # the naive rule computes in fp32


def naive() -> ModuleType:
    """The module alone: its package would bring kernels of its own."""
    package = importlib.util.find_spec("fla")
    assert package is not None and package.origin is not None, "fla-core is not installed"
    path = Path(package.origin).parent / "ops" / "gated_delta_rule" / "naive.py"
    spec = importlib.util.spec_from_file_location("fla_naive", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_fla(
    layer: Layer, state: torch.Tensor, qkv: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [t, HV, V] and the last state [HV, V, K] of one row."""
    q, k, v = (x.float() for x in layer.shape.split(qkv))
    q, k = (
        (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(
            layer.shape.ratio, dim=2
        )
        for x in (q, k)
    )
    g = -layer.A_log.exp() * torch.nn.functional.softplus(a.float() + layer.dt_bias.float())
    out, last = naive().naive_recurrent_gated_delta_rule(
        q,
        k,
        v,
        beta=b.float().sigmoid()[None],
        g=g[None],
        initial_state=state.float().transpose(-1, -2)[None],
        output_final_state=True,
    )
    return out[0], last[0].transpose(-1, -2)


@pytest.mark.parametrize(
    "shape", [Shape(), Shape(H=1, ratio=3), Shape(H=2, ratio=1, K=64)], ids=str
)
def test_verify_and_commit_agree_with_flash_linear_attention(shape: Shape) -> None:
    """The second step goes off a state that lacks what the first accepted."""
    torch.manual_seed(7)
    layer = make_layer(shape, 5)
    blocks, counts = [4, 9], [[3, 2], [4, 1]]
    states = [layer.state[block].clone() for block in blocks]
    steps = [random_step(layer, [5, 3], blocks)]
    steps.append(next_step(layer, steps[0], counts[0]))
    for step, accepted in zip(steps, counts, strict=True):
        qkv = run_conv(layer, step)[0]
        out = run_verify(layer, step)
        for row, count in enumerate(accepted):
            first, last = step.cu_seqlens[row : row + 2].tolist()
            inputs = [x[first:last] for x in (qkv, step.a, step.b)]
            outputs, _ = by_fla(layer, states[row], *inputs)
            assert relative_error(out[first:last], outputs.double()) < TOLERANCE[layer.dtype]
            _, states[row] = by_fla(layer, states[row], *(x[:count] for x in inputs))
    commit(layer, steps[-1], counts[-1])
    for block, state in zip(blocks, states, strict=True):
        assert relative_error(layer.state[block], state.double()) < FP32


def test_the_references_agree_with_flash_linear_attention() -> None:
    torch.manual_seed(8)
    layer = make_layer(spec_query_len=6)
    step = random_step(layer, [6], [2])
    outputs, states = reference_recurrence(layer, layer.state[2], step.x, step.a, step.b)
    naive_outputs, naive_state = by_fla(layer, layer.state[2], step.x, step.a, step.b)
    assert relative_error(naive_outputs, outputs) < FP32
    assert relative_error(naive_state, states[-1]) < FP32
    q, k, v = (x.double() for x in layer.shape.split(step.x))
    a, b = step.a.double()[None], step.b.double()[None]
    parameters = layer.A_log.double(), layer.dt_bias.double()
    bench_outputs, bench_states = oracle.recurrence(
        layer.state[2].double()[None], q, k, v, a, b, *parameters
    )
    assert relative_error(bench_outputs[0], outputs) < 1e-12
    assert relative_error(bench_states[0], states) < 1e-12
