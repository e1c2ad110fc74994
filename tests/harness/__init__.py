"""The engine's CUDA code path for Gated DeltaNet hybrids, run on the CPU.  See README.md in
this folder.
"""

from __future__ import annotations

import gc
import os
import tempfile
from types import SimpleNamespace
from typing import Any

from harness import gdn, interpreter
from harness.hooks import after

MODES = ("kernels", "plain")


def install(mode: str, *, engine: bool = True) -> None:
    """Prepare this process for `mode`, before it imports triton or the engine.

    kernels  the V2 model runner and the layer's CUDA path, with every Triton kernel interpreted
    plain    what the engine itself does on a CPU: the V1 model runner and C++ kernels

    Without `engine`, the gate and the blocks of the kernels stay as they are (gdn.install).
    """
    assert mode in MODES, mode
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(mode == "kernels"))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["TORCHDYNAMO_DISABLE"] = (
        "1"  # parts of the CPU backend are compiled: 20 s of each start
    )
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = (
        "0"  # the engine in this process, where the hooks are
    )
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ["HUMMING_DISABLE_PARALLEL_BUILD"] = (
        "1"  # or its import starts two processes that build CUDA code
    )
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    # The default one is shared by all versions, which overwrite each other's entries: then every
    # start imports the engine in a second process, 15 to 60 s.
    os.environ.setdefault("VLLM_CACHE_ROOT", tempfile.gettempdir() + "/gdnwindow-vllm-cache")
    if mode == "kernels":
        _install_triton()
        if engine:
            _keep_async_scheduling()
        gdn.install(engine=engine)

    @after("vllm.entrypoints.llm")
    def _(module: Any) -> None:
        # The engine collects garbage six times at start: spare it the heap of the imports.
        gc.freeze()


def _keep_async_scheduling() -> None:
    """A CPU gains nothing by it, so the engine turns it off there."""

    @after("vllm.platforms.cpu")
    def _(module: Any) -> None:
        original = module.CpuPlatform.check_and_update_config

        def check_and_update_config(vllm_config: Any) -> None:
            wanted = vllm_config.scheduler_config.async_scheduling
            original(vllm_config)
            vllm_config.scheduler_config.async_scheduling = wanted

        module.CpuPlatform.check_and_update_config = staticmethod(check_and_update_config)


def _install_triton() -> None:
    interpreter.setup()

    @after("triton.backends")
    def _(module: Any) -> None:  # the engine looks for an active backend or one named cpu
        driver = SimpleNamespace(is_active=lambda: False)
        module.backends["cpu"] = SimpleNamespace(driver=driver, compiler=None)

    @after("vllm.triton_utils")
    def _(module: Any) -> None:
        assert module.HAS_TRITON, "the engine disabled Triton"
        interpreter.patch()
