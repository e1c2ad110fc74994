"""The CUDA code path of the engine's Gated DeltaNet layer, on CPU tensors."""

from __future__ import annotations

import ast
import inspect
import itertools
from typing import Any

from harness.hooks import after

GATE = "vllm.config.gdn_recoverssm"
LAYER = "vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn"
CONVOLUTION = "vllm.model_executor.layers.mamba.ops.causal_conv1d"
UPSTREAM = "vllm.third_party.flash_linear_attention.ops"
WINDOW = "vllm.model_executor.layers.mamba.ops.gdn_recoverssm"
# Host functions that take BV = min(V, 32): snapshots and no speculation.
RECURRENCES = (f"{UPSTREAM}.fused_sigmoid_gating", f"{UPSTREAM}.fused_recurrent")


class AllChannels:
    """A convolution kernel launched with all channels in one block.

    The number of program instances is what costs time here, and channels do not depend on each
    other.
    """

    CHANNELS = 1024

    def __init__(self, kernel: Any, block: str, axis: int | None = None, programs: int = 1) -> None:
        self.kernel, self.block, self.axis, self.programs = kernel, block, axis, programs

    def __getitem__(self, grid: Any) -> Any:
        if self.axis is not None:  # else the grid is a function of the block
            grid = tuple(
                self.programs if axis == self.axis else size for axis, size in enumerate(grid)
            )
        return lambda *args, **kwargs: self.kernel[grid](
            *args, **{**kwargs, self.block: self.CHANNELS}
        )


def install(*, engine: bool) -> None:
    """For the engine, with the gate open and wide blocks, or for the patches' own tests, which
    look at both.
    """
    _take_cuda_path()
    _keep_convolution_weight()
    _restore_triton_convolution(wide=engine)
    if engine:
        _open_gate()
        _widen_window_convolution()
        _widen_recurrences()


def _open_gate() -> None:
    """Admit the CPU to the window: drop the rules about the device, and only those."""

    @after(GATE)
    def _(module: Any) -> None:
        rules = module.GDN_RECOVERSSM_REFUSALS
        device = {"platform", "compute_capability"}
        kept = tuple(rule for rule in rules if rule.name not in device)
        assert len(kept) == len(rules) - len(device), f"the gate has no rule each of {device}"
        module.GDN_RECOVERSSM_REFUSALS = kept


def _take_cuda_path() -> None:
    @after(LAYER)
    def _(module: Any) -> None:
        layer = module.QwenGatedDeltaNetAttention
        layer.forward_cpu = layer.forward_cuda
        layer._warmup_prefill_kernels = lambda self, *args: None
        # The chunked prefill kernels take seconds for each prompt here, and are not what is tested.
        module.fla_chunk_gated_delta_rule = gated_delta_rule


def _keep_convolution_weight() -> None:
    """On hosts with AMX the engine repacks the convolution's weight in place at load time."""

    @after("vllm.model_executor.layers.utils")
    def _(module: Any) -> None:
        original = module.dispatch_cpu_unquantized_gemm

        def dispatch(layer: Any, remove_weight: bool) -> None:
            if layer.weight.ndim == 2 or layer.weight.is_meta:
                original(layer, remove_weight)

        module.dispatch_cpu_unquantized_gemm = dispatch


def _restore_triton_convolution(*, wide: bool) -> None:
    """On the CPU the module rebinds its two functions to others that ignore accepted counts:
    define them again.
    """

    @after(CONVOLUTION)
    def _(module: Any) -> None:
        names = ("causal_conv1d_fn", "causal_conv1d_update")
        tree = ast.parse(inspect.getsource(module))
        definitions: list[ast.stmt] = [
            n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names
        ]
        exec(compile(ast.Module(definitions, []), str(module.__file__), "exec"), module.__dict__)
        for name in ("_causal_conv1d_update_kernel", "_causal_conv1d_fwd_kernel") * wide:
            setattr(module, name, AllChannels(getattr(module, name), "BLOCK_N"))


def _widen_window_convolution() -> None:
    """The window's other kernels have one program instance for each head of a row as they are."""

    @after(f"{WINDOW}.conv")
    def _(module: Any) -> None:
        name = "gdn_recoverssm_conv_verify_kernel"
        # One program for the channels, one for the gates.
        setattr(module, name, AllChannels(getattr(module, name), "BD", axis=0, programs=2))


def _widen_recurrences() -> None:
    """All of V at once needs a quarter of the program instances; rows of V do not depend on
    each other.
    """
    for module_name in RECURRENCES:

        @after(module_name)
        def _(module: Any) -> None:
            module.min = lambda a, b: a


def gated_delta_rule(
    q: Any,
    k: Any,
    v: Any,
    g: Any,
    beta: Any,
    initial_state: Any,
    output_final_state: bool = True,
    cu_seqlens: Any = None,
    **_: Any,
) -> tuple[Any, Any]:
    """The prefill recurrence, token by token.

    q, k [1, T, H, K] already normalised; v [1, T, HV, V]; g log decay; states [N, HV, V, K].  In
    numpy: on a busy machine small torch operations cost ten times more, in the synchronisation
    of threads.
    """
    import numpy as np
    import torch

    group = v.shape[2] // q.shape[2]
    queries = (q[0].float() * q.shape[-1] ** -0.5).repeat_interleave(group, 1).numpy()
    keys = k[0].float().repeat_interleave(group, 1).numpy()
    values, decay, rate = v[0].float().numpy(), g[0].float().exp().numpy(), beta[0].float().numpy()
    out, final = np.empty_like(values), []
    bounds = cu_seqlens.tolist()
    for row, (start, stop) in enumerate(itertools.pairwise(bounds)):
        state = initial_state[row].float().numpy().copy()
        for t in range(start, stop):
            state *= decay[t][:, None, None]
            update = (values[t] - (state @ keys[t][:, :, None])[..., 0]) * rate[t][:, None]
            state += update[:, :, None] * keys[t][:, None]
            out[t] = (state @ queries[t][:, :, None])[..., 0]
        final.append(state)
    return torch.from_numpy(out).to(v.dtype)[None], torch.from_numpy(np.stack(final))
