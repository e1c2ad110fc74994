"""Make Triton 3.8's interpreter usable as a test oracle, and fast enough for a whole engine.

`setup()` before anything imports triton, `patch()` any time after.  Nothing here knows the engine.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

seconds: dict[str, list[float]] = {}  # kernel name -> [launches, seconds]
_patched = False


def setup() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # autotuned kernels take their first configuration: there is no device to measure on
    os.environ["VLLM_TRITON_FORCE_FIRST_CONFIG"] = "1"


def patch() -> None:
    global _patched
    if _patched:
        return
    _patched = True
    from harness import bf16

    bf16.patch()
    _patch_language_once_per_launch()
    _drop_overflow_checks()
    _convert_loop_variables()
    _convert_grid_metadata()
    _time_launches()


def _patch_language_once_per_launch() -> None:
    """Two problems with the interpreter's patching of triton.language.

    Speed: it patches again for every call of a nested kernel function (tl.sum, tl.zeros, tl.cdiv
    are such), about 1 ms each; once per launch is enough.  Aliases: `exp = tl.exp` in a module
    escapes the patching.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    original = interpreter._patch_lang
    semantic = interpreter.TritonSemantic(interpreter.interpreter_builder)
    seen: set[int] = set()
    depth = 0

    def bound(member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return member(*args, **{**kwargs, "_semantic": semantic})

        return call

    class Nested:
        def restore(self) -> None:
            pass

    class Outermost:
        def __init__(self, function: Any) -> None:
            nonlocal depth
            # `function` sees triton.language; the functions of tl.standard see tl.core
            self.scopes = [original(function), original(tl.standard.cdiv.fn)]
            depth += 1

        def restore(self) -> None:
            nonlocal depth
            for scope in reversed(self.scopes):
                scope.restore()
            depth -= 1

    def patch_lang(function: Any) -> Any:
        names = function.__globals__
        if id(names) not in seen and not names["__name__"].startswith("triton."):
            seen.add(id(names))
            for name, value in list(names.items()):
                if callable(value) and tl.core.is_builtin(value):
                    names[name] = bound(value)
        return Nested() if depth else Outermost(function)

    interpreter._patch_lang = patch_lang


def _drop_overflow_checks() -> None:
    """Checks of every integer operation take a third of the time; dtype look-ups are cached too."""
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    original, cache = interpreter._get_np_dtype, {}

    def get_np_dtype(dtype: Any) -> Any:
        key = dtype.name
        if key not in cache:
            cache[key] = original(dtype)
        return cache[key]

    interpreter._get_np_dtype = get_np_dtype


def _convert_loop_variables() -> None:
    """Loop variables are plain ints, so `i.to(tl.int64)` fails: rewrite it to
    to_tensor(i).to(tl.int64).
    """
    from triton.runtime import interpreter

    class To(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.Call:
            self.generic_visit(node)
            function = node.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr == "to"
                and isinstance(function.value, ast.Name)
            ):
                converted = ast.parse("interpreter_semantic.to_tensor(x, False)", mode="eval").body
                assert isinstance(converted, ast.Call)
                converted.args[0] = function.value
                function.value = converted
            return node

    class Chain:
        def __init__(self, then: Any) -> None:
            self.then = then

        def visit(self, tree: ast.AST) -> Any:
            return self.then.visit(To().visit(tree))

    interpreter.FunctionRewriter.ast_transformer = Chain(
        interpreter.FunctionRewriter.ast_transformer
    )


def _convert_grid_metadata() -> None:
    """A grid function may store a torch tensor in its META argument: give the interpreter a
    handle of it.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    original = interpreter.GridExecutor.__init__

    def init(self: Any, fn: Any, arg_names: Any, grid: Any, *rest: Any) -> None:
        if not callable(grid):
            original(self, fn, arg_names, grid, *rest)
            return

        def converting(meta: dict[str, Any]) -> Any:
            size = grid(meta)
            for name, value in meta.items():
                if hasattr(value, "data_ptr") and not isinstance(value, tl.core.tensor):
                    meta[name] = interpreter._implicit_cvt(value)
            return size

        original(self, fn, arg_names, converting, *rest)

    interpreter.GridExecutor.__init__ = init


def _time_launches() -> None:
    from triton.runtime import interpreter

    original = interpreter.InterpretedFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return original(self, *args, **kwargs)
        finally:
            entry = seconds.setdefault(self.fn.__name__, [0, 0.0])
            entry[0] += 1
            entry[1] += time.perf_counter() - start

    interpreter.InterpretedFunction.run = run
