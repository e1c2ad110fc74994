"""One Ray node for an engine without a device.

Upstream's CPU platform names no resource of Ray's (`ray_device_key` is empty), and the executor
refuses such a platform.  Name it the GPU here, and declare one to Ray; nothing else is changed.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from harness.hooks import after

OBJECTS = 80 << 20  # bytes; the engine keeps none there


def install() -> None:
    @after("vllm.platforms.cpu")
    def _(module: Any) -> None:
        assert not module.CpuPlatform.ray_device_key, "upstream's CPU platform has come to Ray"
        module.CpuPlatform.ray_device_key = "GPU"


def start() -> None:
    """Start the node; its workers inherit this process's environment."""
    import ray

    # Ray would compare what is declared with what the variable hides.
    hidden = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    ray.init(
        num_cpus=1,
        num_gpus=1,
        include_dashboard=False,
        object_store_memory=OBJECTS,
        runtime_env={"worker_process_setup_hook": "harness.ray_node.set_up_worker"},
    )
    if hidden is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = hidden


def set_up_worker() -> None:
    """In each worker, before it imports the engine."""
    from harness import drive

    drive.install(json.loads(pathlib.Path(os.environ[drive.SCENARIO]).read_text()))


def describe(worker: Any) -> dict[str, Any]:
    """Run by a worker: what it took from the configuration."""
    import os

    import ray

    from harness import interpreter

    runner = worker.model_runner
    layers = runner.vllm_config.compilation_config.static_forward_context.values()
    records = [getattr(layer, "recoverssm_records", None) for layer in layers]
    return dict(
        process=os.getpid(),
        is_actor=ray.get_runtime_context().get_actor_id() is not None,
        window=runner.cache_config.use_gdn_recoverssm,
        layers_with_windows=sum(found is not None for found in records),
        kernels=interpreter.seconds,
    )
