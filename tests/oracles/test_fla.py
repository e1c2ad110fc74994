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
    DEVICE,
    TOLERANCE,
    Layer,
    Shape,
    make_layer,
    random_step,
    reference_recurrence,
    relative_error,
    run_conv,
    run_verify,
)
from vllm.model_executor.layers.mamba.ops.gdn_recoverssm.commit import (
    GDNRecoverSSMCommitContext,
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
    torch.manual_seed(7)
    layer = make_layer(shape, 5)
    step = random_step(layer, [5, 3], [4, 9])
    before = layer.state.clone()
    qkv = run_conv(layer, step)[0]
    out = run_verify(layer, step)
    counts = torch.tensor([3, 2], dtype=torch.int32, device=DEVICE)
    context = GDNRecoverSSMCommitContext.create([layer])
    context.commit(step.state_indices, step.record_indices, counts)
    for row, (bos, length) in enumerate(((0, 5), (5, 3))):
        block, count = int(step.state_indices[row]), int(counts[row])
        window = slice(bos, bos + length), slice(bos, bos + count)
        outputs, _ = by_fla(layer, before[block], *(x[window[0]] for x in (qkv, step.a, step.b)))
        _, state = by_fla(layer, before[block], *(x[window[1]] for x in (qkv, step.a, step.b)))
        assert relative_error(out[window[0]], outputs.double()) < TOLERANCE[layer.dtype]
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
