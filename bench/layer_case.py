"""One GDN layer's speculative step, native and with the window.

This is the only place where the benchmarks call kernels.

All sides do the same work: convolution, gates, recurrence, gated RMSNorm. The native
snapshots write the state after each token. With the window a verify only reads the state, and a
commit, launched once a step for many layers, folds the windows that are full.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from oracle import gated_norm, recurrence, relative_error
from vllm import _custom_ops as ops
from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_update
from vllm.model_executor.layers.mamba.ops.gdn_recoverssm.commit import (
    GDNRecoverSSMCommitContext,
)
from vllm.model_executor.layers.mamba.ops.gdn_recoverssm.conv import (
    gdn_recoverssm_conv_verify,
)
from vllm.model_executor.layers.mamba.ops.gdn_recoverssm.records import (
    GDNRecoverSSMRecords,
)
from vllm.model_executor.layers.mamba.ops.gdn_recoverssm.verify import (
    gdn_recoverssm_verify,
)
from vllm.third_party.flash_linear_attention.ops import (
    fused_sigmoid_gating_delta_rule_update,
)
from vllm.third_party.flash_linear_attention.ops.layernorm_guard import rmsnorm_fn

DIM = 128  # K = V
WIDTH = 4
EPS = 1e-6
COLD_BYTES = 4 * 60 * 2**20  # several times the L2 cache
LAYERS = 8, 48  # fewest and most that a commit launch covers
CHECKED_ROWS = 16
BUFFER = 16  # tokens of a window: vLLM's default


@dataclass(frozen=True)
class Shape:
    """Key heads, value heads, requests, tokens a request, dtype of the state."""

    H: int
    HV: int
    batch: int
    T: int
    state: str

    @property
    def dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.state)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def state_bytes(self) -> int:
        """Of one recurrent state of one request."""
        return self.HV * DIM * DIM * self.dtype.itemsize


class Case:
    """Random inputs of `sets` independent steps, each of a layer of its own."""

    def __init__(self, shape: Shape, device: str = "cuda", layers: int | None = None) -> None:
        self.shape, self.device = shape, torch.device(device)
        h, hv, batch, t = shape.H, shape.HV, shape.batch, shape.T
        sets = -(-COLD_BYTES // (batch * shape.state_bytes))
        self.layers = layers or min(max(LAYERS[0], sets), LAYERS[1])
        self.sets = self.layers if layers else -(-sets // self.layers) * self.layers
        self.dim, tokens, n = 2 * h * DIM + hv * DIM, batch * t, self.sets
        bf16 = torch.bfloat16
        self.x = self.normal(n, tokens, self.dim)
        self.ba = self.normal(n, tokens, 2 * hv)
        self.z = self.normal(n, tokens, hv, DIM)
        self.weight = self.normal(self.dim, WIDTH) / 2
        self.norm = torch.rand(DIM, device=device) + 0.5
        self.A_log = torch.empty(hv, device=device).uniform_(-4, 2)
        self.dt_bias = self.normal(hv)
        self.cu = self.int32(range(0, tokens + 1, t))
        self.buffer = max(BUFFER, t)
        self.lens = [self.int32([n] * batch) for n in range(self.buffer + 1)]
        self.ones = self.lens[1]
        self.slots = self.int32(range(batch))
        # Request r of a set owns T consecutive blocks; the window uses the first alone.
        self.state = self.normal(n * tokens + 1, hv, DIM, DIM, dtype=shape.dtype)
        self.conv = self.normal(n * batch + 1, WIDTH - 1 + t - 1, self.dim)
        self.history = self.normal(n * tokens + 1, WIDTH - 1, self.dim)
        self.table = self.int32(range(1, n * tokens + 1)).view(n, batch, t)
        self.conv_rows = self.int32(range(1, n * batch + 1)).view(n, batch)
        self.first = self.table[0, :, 0].contiguous()  # of each layer's own view
        self.qkv = self.normal(tokens, self.dim)
        self.out = torch.empty(tokens, hv, DIM, device=device, dtype=bf16)
        self.has_fused = self.device.type == "cuda" and hasattr(
            torch.ops._C, "fused_gdn_decode_post_conv_mtp"
        )
        self.prepare_window()

    def normal(self, *size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(*size, device=self.device, dtype=dtype).normal_()

    def int32(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.int32, device=self.device)

    # Native -----------------------------------------------------------------------------

    def native_conv(self, s: int, count: torch.Tensor) -> torch.Tensor:
        return causal_conv1d_update(
            self.x[s], self.conv.transpose(-1, -2), self.weight, None, "silu",
            conv_state_indices=self.conv_rows[s], num_accepted_tokens=count,
            query_start_loc=self.cu, max_query_len=self.shape.T, out=self.qkv,
        )  # fmt: skip

    def fused(self, qkv: torch.Tensor, s: int, table: torch.Tensor, count: torch.Tensor) -> Any:
        b, a = self.ba[s].chunk(2, dim=-1)
        return ops.fused_gdn_decode_post_conv_mtp(
            mixed_qkv=qkv, a=a, b=b, A_log=self.A_log, dt_bias=self.dt_bias,
            state_indices=table, cu_seqlens=self.cu, num_accepted_tokens=count,
            state=self.state, output_gate=self.z[s], norm_weight=self.norm, out=self.out,
            scale=DIM**-0.5, norm_eps=EPS, output_gate_activation="silu",
        )  # fmt: skip

    def split(self, qkv: torch.Tensor) -> list[torch.Tensor]:
        h, hv = self.shape.H, self.shape.HV
        parts = qkv.split([h * DIM, h * DIM, hv * DIM], dim=-1)
        return [p.reshape(1, qkv.shape[0], -1, DIM).contiguous() for p in parts]

    def gated_norm(self, o: torch.Tensor, s: int) -> torch.Tensor:
        return rmsnorm_fn(
            o.view(-1, DIM), self.norm, None, z=self.z[s].view(-1, DIM), eps=EPS,
            group_size=None, norm_before_gate=True, activation="silu",
        ).view(self.out.shape)  # fmt: skip

    def snapshot_cuda(self, s: int, count: torch.Tensor | None = None) -> torch.Tensor:
        """Start from the snapshot that `count` accepted tokens name, by default the first."""
        count = self.ones if count is None else count
        self.fused(self.native_conv(s, count), s, self.table[s], count)
        return self.out

    def snapshot_triton(self, s: int, count: torch.Tensor | None = None) -> torch.Tensor:
        count = self.ones if count is None else count
        b, a = self.ba[s].chunk(2, dim=-1)
        q, k, v = self.split(self.native_conv(s, count))
        out, _ = fused_sigmoid_gating_delta_rule_update(
            A_log=self.A_log, a=a, b=b, dt_bias=self.dt_bias, q=q, k=k, v=v,
            initial_state=self.state, inplace_final_state=True, cu_seqlens=self.cu,
            ssm_state_indices=self.table[s], num_accepted_tokens=count,
            use_qk_l2norm_in_kernel=True,
        )  # fmt: skip
        return self.gated_norm(out[0], s)

    # Window: everything that knows the series' kernels ------------------------------------

    def prepare_window(self) -> None:
        """Layers with states, windows and commit contexts, as the engine makes them."""
        batch, t, tokens = self.shape.batch, self.shape.T, self.shape.batch * self.shape.T
        self.window_layers = [
            SimpleNamespace(
                kv_cache=(
                    self.history[s * tokens : (s + 1) * tokens + 1],
                    self.state[s * tokens : (s + 1) * tokens + 1],
                ),
                recoverssm_records=GDNRecoverSSMRecords.allocate(
                    batch, t, self.buffer, self.shape.H, self.shape.HV, DIM, DIM, WIDTH,
                    torch.bfloat16, self.device,
                ),
                conv_kernel_size=WIDTH,
            )
            for s in range(self.sets)
        ]  # fmt: skip
        self.contexts = [
            GDNRecoverSSMCommitContext.create(self.window_layers[i : i + self.layers])
            for i in range(0, self.sets, self.layers)
        ]
        self.beta = torch.rand(tokens, self.shape.HV, device=self.device)

    def window_conv(self, s: int, window_lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, a = self.ba[s].chunk(2, dim=-1)
        layer = self.window_layers[s]
        return gdn_recoverssm_conv_verify(
            x=self.x[s], a=a, b=b, conv_state=layer.kv_cache[0].transpose(-1, -2),
            weight=self.weight, bias=None, activation="silu", A_log=self.A_log,
            dt_bias=self.dt_bias, state_indices=self.first, record_indices=self.slots,
            window_lens=window_lens, cu_seqlens=self.cu, records=layer.recoverssm_records,
        )  # fmt: skip

    def window_recurrence(
        self, s: int, window_lens: torch.Tensor, qkv: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        layer = self.window_layers[s]
        return gdn_recoverssm_verify(
            mixed_qkv=qkv, beta=beta, state=layer.kv_cache[1], state_indices=self.first,
            record_indices=self.slots, window_lens=window_lens, cu_seqlens=self.cu,
            records=layer.recoverssm_records, out=self.out, output_gate=self.z[s],
            norm_weight=self.norm, norm_eps=EPS,
        )  # fmt: skip

    def verify(self, s: int, window_lens: torch.Tensor | None = None) -> torch.Tensor:
        """Verify T tokens behind a window, by default an empty one. States are only read."""
        lens = self.lens[0] if window_lens is None else window_lens
        return self.window_recurrence(s, lens, *self.window_conv(s, lens))

    def verify_longest(self, s: int) -> torch.Tensor:
        """Behind as many tokens as leave room for T."""
        return self.verify(s, self.lens[self.buffer - self.shape.T])

    def verify_convolved(self, s: int) -> torch.Tensor:
        """After the convolution, as the fused CUDA kernel starts."""
        return self.window_recurrence(s, self.lens[0], self.qkv, self.beta)

    @property
    def cycle(self) -> int:
        """Steps from commit to commit, all T tokens accepted in each."""
        return self.buffer // self.shape.T

    def step(self, i: int) -> None:
        """Call `i` of a cycle: in each step the commit's launch, then each layer's verify."""
        place, call = divmod(i, len(self.contexts) + self.sets)
        if call < len(self.contexts):
            return self.commit(call, self.lens[0 if place else self.cycle * self.shape.T])
        self.verify(call - len(self.contexts), self.lens[place * self.shape.T])
        return None

    def snapshot_cuda_convolved(self, s: int) -> torch.Tensor:
        self.fused(self.qkv, s, self.table[s], self.ones)
        return self.out

    def commit(self, context: int, count: torch.Tensor | None = None) -> None:
        """Advance all layers of a context in one launch, by default by a cycle's tokens."""
        count = self.lens[self.cycle * self.shape.T] if count is None else count
        self.contexts[context].commit(self.first, self.slots, count)

    def window_bytes(self) -> int:
        """Memory of one request's window in one layer."""
        records = vars(self.window_layers[0].recoverssm_records).values()
        return sum(r[0].numel() * r.element_size() for r in records if torch.is_tensor(r))

    # What is timed and checked ------------------------------------------------------------

    def fill_windows(self) -> None:
        """Record what a longer window reads and a commit folds."""
        for place in range(self.cycle):
            for s in range(self.sets):
                self.verify(s, self.lens[place * self.shape.T])

    def timed(self) -> dict[str, tuple[Any, int, int]]:
        """Return name -> (function, calls, layers' steps that all calls make)."""
        self.fill_windows()
        sets = self.sets
        found = {"snapshot_triton": (self.snapshot_triton, sets, sets)}
        if self.has_fused:
            found["snapshot_cuda"] = (self.snapshot_cuda, sets, sets)
            found["snapshot_cuda_convolved"] = (self.snapshot_cuda_convolved, sets, sets)
        found["verify"] = (self.verify, sets, sets)
        found["verify_longest"] = (self.verify_longest, sets, sets)
        found["verify_convolved"] = (self.verify_convolved, sets, sets)
        calls = self.cycle * (sets + len(self.contexts))
        found["step"] = (self.step, calls, self.cycle * sets)
        found["commit"] = (self.commit, len(self.contexts), sets)
        return found

    def memory(self) -> dict[str, int]:
        """Bytes of one request in one layer: its block, its window, a block of snapshots."""
        history = self.history[0].numel() * self.history.element_size()
        snapshot = self.conv[0].numel() * self.conv.element_size()
        return {
            "state": self.shape.state_bytes + history,
            "window": self.window_bytes(),
            "snapshot": self.shape.state_bytes + snapshot,
        }

    def check(self) -> dict[str, Any]:
        """Errors against fp64 on the first set: two steps, mixed counts accepted of the first.

        Outputs are those of both steps, states those that the second starts from; histories of
        the convolution must be exact. `window` verifies the second step behind a window and
        commits after it, `commit` commits ahead of it.
        """
        batch, t = self.shape.batch, self.shape.T
        rows, first = min(batch, CHECKED_ROWS), self.first.long()
        count = self.int32([1 + i % t for i in range(batch)])
        picked = self.table[0].gather(1, (count - 1)[:, None].long())[:rows, 0].long()
        self.conv[1 : batch + 1, : WIDTH - 1] = self.history[first]
        settled = self.state[: batch * t + 1], self.history[: batch * t + 1]
        caches = *settled, self.conv[: batch + 1]
        before = [cache.clone() for cache in caches]
        inputs = self.x[0], self.ba[0], self.z[0]
        steps = [[x.clone() for x in inputs], [torch.randn_like(x) for x in inputs]]

        def put(targets: Iterable[torch.Tensor], values: Iterable[torch.Tensor]) -> None:
            for target, value in zip(targets, values, strict=True):
                target.copy_(value)

        outputs, states, qkv = {}, {}, []
        for name in ["snapshot_triton", *["snapshot_cuda"] * self.has_fused]:
            run = getattr(self, name)
            put(caches, before)
            put(inputs, steps[0])
            outputs[name] = [run(0).clone()]
            states[name] = self.state[picked].clone()
            qkv = [self.qkv.clone()]
            put(inputs, steps[1])
            outputs[name].append(run(0, count).clone())
            qkv.append(self.qkv.clone())
        position = (count[:, None] + self.int32(range(WIDTH - 1)))[..., None].long()
        seen = torch.cat([before[1][first], steps[0][0].view(batch, t, -1)], 1)
        history = seen.gather(1, position.expand(-1, -1, self.dim))
        untouched = exact = True
        for name in ("window", "commit"):
            put(caches, before)
            put(inputs, steps[0])
            for s in range(1, self.layers):
                self.verify(s)
            outputs[name] = [self.verify(0).clone()]
            untouched &= all(map(torch.equal, settled, before))
            put(inputs, steps[1])
            if name == "commit":
                self.commit(0, count)
                outputs[name].append(self.verify(0).clone())
            else:
                outputs[name].append(self.verify(0, count).clone())
                untouched &= all(map(torch.equal, settled, before))
                self.commit(0, count)
            states[name] = self.state[first[:rows]].clone()
            exact &= torch.equal(self.history[first], history)
        put((*caches, *inputs), (*before, *steps[0]))

        def of(x: torch.Tensor) -> torch.Tensor:
            return x.view(batch, t, -1, DIM)[:rows].double()

        state, want = before[0][first[:rows]].double(), []
        for i, (_, ba, z) in enumerate(steps):
            b, a = ba.view(batch, t, -1)[:rows].double().chunk(2, -1)
            out, after = recurrence(
                state, *(of(x[0]) for x in self.split(qkv[i])), a, b,
                self.A_log.double(), self.dt_bias.double(),
            )  # fmt: skip
            want.append(gated_norm(out, of(z), self.norm.double(), EPS))
            if i == 0:
                state = after[torch.arange(rows), (count[:rows] - 1).long()]
        return {
            "verify_writes_no_state": untouched,
            "history_exact": exact,
            "output_error": {
                name: relative_error(torch.stack([of(o) for o in out]), torch.stack(want))
                for name, out in outputs.items()
            },
            "state_error": {name: relative_error(s, state) for name, s in states.items()},
        }
