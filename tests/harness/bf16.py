"""bfloat16 for Triton's interpreter.

The interpreter keeps bfloat16 values as uint16 bit patterns and applies + - * / max exp dot ... to
those integers: silently wrong results.  It also truncates fp32 to bfloat16 where the device rounds
to nearest even.  Here every such operation widens its operands to fp32 and rounds its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

Handle = interpreter.TensorHandle
Builder = interpreter.InterpreterBuilder


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits to fp32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """fp32 to bfloat16 bits, to nearest even."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _is_bf16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def _fp32(handle: Any) -> Any:
    return Handle(widen(handle.data), tl.float32) if _is_bf16(handle) else handle


def _typed_as(result: Any, operand: Any) -> Any:
    if _is_bf16(operand) and result.data.dtype != np.bool_:
        return Handle(narrow(result.data), tl.bfloat16)
    return result


def _patch_operation(name: str, typed_by: int) -> None:
    """Widen the operands of builder method `name`; its result has the type of operand
    `typed_by`.
    """
    original = getattr(Builder, name)

    def operation(self: Any, *args: Any) -> Any:
        if not any(isinstance(a, Handle) and _is_bf16(a) for a in args):
            return original(self, *args)
        wide = [_fp32(a) if isinstance(a, Handle) else a for a in args]
        return _typed_as(original(self, *wide), args[typed_by])

    setattr(Builder, name, operation)


def _patch_ternary() -> None:
    original = Builder.ternary_op

    def ternary_op(self: Any, a: Any, b: Any, c: Any, op: Any) -> Any:
        if op is np.where or not _is_bf16(c):  # a select works on bit patterns
            return original(self, a, b, c, op)
        return _typed_as(original(self, _fp32(a), _fp32(b), _fp32(c), op), c)

    Builder.ternary_op = ternary_op


def _patch_casts() -> None:
    cast, fp_to_fp = Builder.cast_impl, Builder.create_fp_to_fp

    def cast_impl(self: Any, source: Any, to: Any) -> Any:
        old, new = source.dtype.scalar, to.scalar
        if old == new or tl.bfloat16 not in (old, new):
            return cast(self, source, to)
        if old == tl.bfloat16:
            return cast(self, Handle(widen(source.data), tl.float32), to)
        return Handle(narrow(source.data.astype(np.float32)), tl.bfloat16)

    def create_fp_to_fp(self: Any, source: Any, to: Any, rounding: Any) -> Any:
        if {source.dtype.scalar, to.scalar} == {tl.bfloat16, tl.float32}:
            return cast_impl(self, source, to)
        return fp_to_fp(self, source, to, rounding)

    Builder.cast_impl = cast_impl
    Builder.create_fp_to_fp = create_fp_to_fp


def _patch_dot() -> None:
    original = Builder.create_dot
    Builder.create_dot = lambda self, a, b, d, *rest: original(self, _fp32(a), _fp32(b), d, *rest)


def _patch_reductions() -> None:
    original = interpreter.ReduceOps.apply_impl

    def tensor(like: Any, dtype: Any, data: np.ndarray) -> Any:
        kind = tl.block_type(dtype, like.shape) if like.type.is_block() else dtype
        return tl.core.tensor(Handle(data, dtype), kind)

    def apply_impl(self: Any, inputs: Any) -> Any:
        bf16 = [t.dtype.scalar == tl.bfloat16 for t in inputs]
        if not any(bf16):
            return original(self, inputs)
        result = original(
            self,
            tuple(
                tensor(t, tl.float32, widen(t.handle.data)) if b else t
                for t, b in zip(inputs, bf16, strict=True)
            ),
        )
        many = isinstance(result, (list, tuple))
        typed = tuple(
            tensor(r, tl.bfloat16, narrow(r.handle.data))
            if b and r.dtype.scalar == tl.float32
            else r
            for r, b in zip(result if many else [result], bf16, strict=False)
        )
        return typed if many else typed[0]

    interpreter.ReduceOps.apply_impl = apply_impl


def patch() -> None:
    for name in ("binary_op", "unary_op", "create_rsqrt", "create_erf"):
        _patch_operation(name, typed_by=0)
    _patch_operation("create_fma", typed_by=2)
    _patch_ternary()
    _patch_casts()
    _patch_dot()
    _patch_reductions()
