"""Verify and commit of one GDN layer against upstream's snapshot kernels, on a GPU.

Times are medians over graph replays; each replay walks over input sets whose states
together exceed the L2 cache several times, so every launch finds it cold. Both sides
start after the projection: convolution, gates, recurrence, and the gated RMSNorm where
the fused CUDA kernel does it. Checks outputs and states before timing anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import host
import torch
from oracle import recurrence, relative_error
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
from vllm.model_executor.layers.mamba.ops.gdn_recoverssm.recurrence import (
    gdn_recoverssm_verify,
)
from vllm.third_party.flash_linear_attention.ops import (
    fused_sigmoid_gating_delta_rule_update,
)

DIM = 128
WIDTH = 4
L2_TIMES = 4 * 60 * 2**20
DEVICE = "cuda"


def int32(values: Any) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.int32, device=DEVICE)


class Case:
    """Random inputs of `sets` independent steps of one layer."""

    def __init__(self, h: int, hv: int, batch: int, t: int, state_dtype: torch.dtype) -> None:
        self.h, self.hv, self.batch, self.t = h, hv, batch, t
        self.dim = 2 * h * DIM + hv * DIM
        size = batch * hv * DIM * DIM * state_dtype.itemsize
        self.sets = max(2, min(64, -(-L2_TIMES // size)))
        tokens = batch * t
        self.x = [torch.randn(tokens, self.dim, device=DEVICE).bfloat16() for _ in range(self.sets)]
        self.ba = [torch.randn(tokens, 2 * hv, device=DEVICE).bfloat16() for _ in range(self.sets)]
        self.z = [torch.randn(tokens, hv, DIM, device=DEVICE).bfloat16() for _ in range(self.sets)]
        self.weight = torch.randn(self.dim, WIDTH, device=DEVICE).bfloat16() / 2
        self.norm = torch.rand(DIM, device=DEVICE) + 0.5
        self.A_log = torch.empty(hv, device=DEVICE).uniform_(-4, 2)
        self.dt_bias = torch.randn(hv, device=DEVICE).bfloat16()
        self.cu = int32(range(0, tokens + 1, t))
        self.ones = int32([1] * batch)
        # Row r of set s owns t blocks; the window uses the first alone.
        blocks = 1 + self.sets * batch * t
        self.table = int32(range(1, blocks)).view(self.sets, batch, t)
        self.state = torch.randn(blocks, hv, DIM, DIM, device=DEVICE).to(state_dtype)
        self.conv = torch.randn(blocks, WIDTH - 1 + t - 1, self.dim, device=DEVICE).bfloat16()
        self.history = self.conv[:, : WIDTH - 1].contiguous()
        self.first = [row[:, 0].contiguous() for row in self.table]
        self.verify_table = torch.zeros(self.sets, batch, t + 1, dtype=torch.int32, device=DEVICE)
        self.verify_table[:, :, -1] = self.table[:, :, 0]
        self.verify_count = int32([t + 1] * batch)
        self.records = GDNRecoverSSMRecords.allocate(
            batch, t, self.dim, hv, torch.bfloat16, torch.device(DEVICE)
        )
        self.out = torch.empty(tokens, hv, DIM, device=DEVICE, dtype=torch.bfloat16)
        layer = SimpleNamespace(
            kv_cache=(self.history, self.state),
            recoverssm_records=self.records,
            A_log=self.A_log,
            dt_bias=self.dt_bias,
            conv_kernel_size=WIDTH,
            num_k_heads=h,
            tp_size=1,
        )
        self.context = GDNRecoverSSMCommitContext.create([layer], batch)

    def split(self, qkv: torch.Tensor) -> list[torch.Tensor]:
        parts = qkv.split([self.h * DIM, self.h * DIM, self.hv * DIM], dim=-1)
        return [p.reshape(1, qkv.shape[0], -1, DIM).contiguous() for p in parts]

    def gates(self, s: int) -> tuple[torch.Tensor, torch.Tensor]:
        b, a = self.ba[s].chunk(2, dim=-1)
        return a, b

    def fused(self, qkv: torch.Tensor, s: int, table: torch.Tensor, count: torch.Tensor) -> None:
        a, b = self.gates(s)
        ops.fused_gdn_decode_post_conv_mtp(
            mixed_qkv=qkv,
            a=a,
            b=b,
            A_log=self.A_log,
            dt_bias=self.dt_bias,
            state_indices=table,
            cu_seqlens=self.cu,
            num_accepted_tokens=count,
            state=self.state,
            output_gate=self.z[s],
            norm_weight=self.norm,
            out=self.out,
            scale=DIM**-0.5,
            norm_eps=1e-6,
            output_gate_activation="silu",
        )

    def native_conv(self, s: int) -> torch.Tensor:
        return causal_conv1d_update(
            self.x[s],
            self.conv.transpose(-1, -2),
            self.weight,
            None,
            "silu",
            conv_state_indices=self.table[s, :, 0],
            num_accepted_tokens=self.ones,
            query_start_loc=self.cu,
            max_query_len=self.t,
            out=self.records.mixed_qkv[: self.x[s].shape[0]],
        )

    def window_conv(self, s: int) -> torch.Tensor:
        a, b = self.gates(s)
        return gdn_recoverssm_conv_verify(
            self.x[s],
            a,
            b,
            self.history.transpose(-1, -2),
            self.weight,
            None,
            "silu",
            self.first[s],
            self.cu,
            self.records,
        )

    # What is timed -------------------------------------------------------------

    def snapshot_cuda(self, s: int) -> None:
        self.fused(self.native_conv(s), s, self.table[s], self.ones)

    def snapshot_triton(self, s: int) -> torch.Tensor:
        a, b = self.gates(s)
        q, k, v = self.split(self.native_conv(s))
        return fused_sigmoid_gating_delta_rule_update(
            A_log=self.A_log,
            a=a,
            b=b,
            dt_bias=self.dt_bias,
            q=q,
            k=k,
            v=v,
            initial_state=self.state,
            inplace_final_state=True,
            cu_seqlens=self.cu,
            ssm_state_indices=self.table[s],
            num_accepted_tokens=self.ones,
            use_qk_l2norm_in_kernel=True,
        )[0][0]

    def window_cuda(self, s: int) -> None:
        self.fused(self.window_conv(s), s, self.verify_table[s], self.verify_count)

    def window_triton(self, s: int) -> torch.Tensor:
        self.window_conv(s)
        return gdn_recoverssm_verify(
            self.A_log,
            self.dt_bias,
            self.records,
            self.state,
            self.first[s],
            self.cu,
            self.h,
            self.out,
        )

    def commit(self, s: int, count: torch.Tensor | None = None) -> None:
        count = self.verify_count if count is None else count
        self.context.commit(count, self.first[s], self.cu)


def check(case: Case) -> dict[str, Any]:
    """Bit-equality of outputs, and state errors against fp64, on set 0."""
    before_state, before_conv = case.state.clone(), case.conv.clone()
    first = case.table[0, :, 0].long()
    count = int32([1 + i % case.t for i in range(case.batch)])
    found: dict[str, Any] = {}

    case.snapshot_cuda(0)
    out_cuda = case.out.clone()
    qkv = case.records.mixed_qkv[: case.x[0].shape[0]].clone()
    picked = case.table[0].gather(1, (count - 1)[:, None].long())[:, 0].long()
    cuda_state = case.state[picked].clone()
    case.state.copy_(before_state)
    case.conv.copy_(before_conv)
    out_triton = case.snapshot_triton(0).clone()
    triton_state = case.state[picked].clone()
    case.state.copy_(before_state)

    case.out.fill_(float("nan"))
    case.window_cuda(0)
    found["cuda_outputs_bit_equal"] = torch.equal(case.out, out_cuda)
    found["convolution_bit_equal"] = torch.equal(case.records.mixed_qkv[: qkv.shape[0]], qkv)
    found["verify_writes_no_state"] = torch.equal(case.state, before_state)
    case.out.fill_(float("nan"))
    found["triton_outputs_bit_equal"] = torch.equal(case.window_triton(0), out_triton)
    case.commit(0, count)
    found["committed_state_equals_triton_snapshot"] = torch.equal(case.state[first], triton_state)
    a, b = case.gates(0)
    q, k, v = (x[0].double().view(case.batch, case.t, -1, DIM) for x in case.split(qkv))
    _, states = recurrence(
        before_state[first].double(),
        q,
        k,
        v,
        a.double().view(case.batch, case.t, -1),
        b.double().view(case.batch, case.t, -1),
        case.A_log.double(),
        case.dt_bias.double(),
    )
    reference = states[torch.arange(case.batch), (count - 1).long()]
    found["state_error"] = {
        "window": relative_error(case.state[first], reference),
        "snapshot_cuda": relative_error(cuda_state, reference),
        "snapshot_triton": relative_error(triton_state, reference),
    }
    return found


def time_us(case: Case, name: str, replays: int = 20) -> float:
    """Median microseconds of one launch over all sets, cold, by graph replay."""
    run = getattr(case, name)
    for s in range(min(3, case.sets)):
        run(s)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for s in range(case.sets):
            run(s)
    times = []
    for _ in range(replays):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end) / case.sets)
    return round(statistics.median(times[3:]), 2)


NAMES = ("snapshot_cuda", "snapshot_triton", "window_cuda", "window_triton", "commit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--heads", nargs="+", default=["16/16", "16/32", "16/48"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--tokens", type=int, nargs="+", default=[2, 5, 7])
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = []
    for heads in args.heads:
        h, hv = map(int, heads.split("/"))
        for dtype in (torch.float32, torch.bfloat16):
            for batch in args.batches:
                for t in args.tokens:
                    case = Case(h, hv, batch, t, dtype)
                    row: dict[str, Any] = {
                        "H": h, "HV": hv, "batch": batch, "T": t, "state": str(dtype)[6:],
                    }  # fmt: skip
                    row["check"] = check(case)
                    row["us"] = {name: time_us(case, name) for name in NAMES}
                    rows.append(row)
                    print(json.dumps(row), flush=True)
                    del case
                    torch.cuda.empty_cache()
    result = {"host": host.facts(), "command": " ".join(["python", *sys.argv]), "rows": rows}
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
