"""The window in a worker of Ray's, which the configuration reaches by pickling."""

from __future__ import annotations

from result import Result


def test_the_switch_reaches_the_worker(ray: Result, half_window: Result) -> None:
    (worker,) = ray.facts["workers"]
    assert worker["is_actor"] and worker["process"] != ray.facts["process"]
    assert worker["window"] and worker["layers_with_windows"] > 0
    assert "gdn_recoverssm_verify_kernel" in worker["kernels"]
    launches = {name: count for name, (count, _) in worker["kernels"].items()}
    assert launches == {name: count for name, (count, _) in half_window.facts["kernels"].items()}
    # None in this process: it only schedules.
    assert not ray.facts["kernels"]


def test_ray_says_what_one_process_says(ray: Result, half_window: Result) -> None:
    assert ray.said == half_window.said
    assert ray.steps == half_window.steps


def test_ray_s_worker_counts_the_same_commits(ray: Result, half_window: Result) -> None:
    assert ray.facts["metrics"] == half_window.facts["metrics"]
