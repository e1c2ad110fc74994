"""What is read out of an engine's steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from stepwatch import Step, StepWatch


def watch(*steps: tuple[float, int, int, int, int], waiting: tuple[int, ...] = ()) -> StepWatch:
    """Each step: when, running after it, prompt tokens, new tokens, finished."""
    found = StepWatch()
    found.steps = [
        Step(at=at, running=running, waiting=waits, prompt_tokens=prompt, new_tokens=new,
             finished=finished, preempted=0)
        for (at, running, prompt, new, finished), waits in zip(
            steps, (*waiting, *[0] * len(steps)), strict=False
        )
    ]  # fmt: skip
    return found


def test_the_clock_starts_behind_the_first_prefill() -> None:
    found = watch(
        (0.0, 2, 64, 1, 0), (1.0, 4, 64, 3, 0),  # two waves of prompts: a second of prefill
        (1.1, 4, 0, 12, 0), (1.2, 4, 0, 12, 0), (1.3, 0, 0, 12, 4),
    ).summary()  # fmt: skip
    assert found["tokens_per_s"] == pytest.approx(36 / 0.3, rel=1e-3)
    assert found["ms_per_step"] == pytest.approx(100)
    assert (found["running"], found["steps"]) == (4, 3)


def test_the_clock_stops_when_the_batch_gets_smaller() -> None:
    found = watch(
        (0.0, 4, 128, 4, 0), (0.1, 4, 0, 12, 0), (0.2, 3, 0, 12, 1),
        (0.3, 3, 0, 9, 0), (0.35, 0, 0, 9, 3),
    ).summary()  # fmt: skip
    assert found["tokens_per_s"] == pytest.approx(24 / 0.2, rel=1e-3)
    assert (found["running"], found["steps"]) == (4, 2)
    # A place that another takes, and its prefill, belong to it.
    found = watch(
        (0.0, 4, 128, 4, 0), (0.1, 3, 0, 12, 1), (0.5, 4, 32, 10, 0),
        (0.6, 3, 0, 12, 1), (0.65, 0, 0, 9, 3), waiting=(1, 1, 0, 0, 0),
    ).summary()  # fmt: skip
    assert found["tokens_per_s"] == pytest.approx(34 / 0.6, rel=1e-3)


def test_the_last_few_of_too_many_do_not_count_as_the_batch() -> None:
    """Four places, five requests: the fifth runs alone when the others have ended."""
    found = watch(
        (0.0, 4, 128, 4, 0), (0.1, 4, 0, 12, 0), (0.2, 0, 0, 12, 4),
        (0.3, 1, 32, 1, 0), (0.4, 1, 0, 3, 0), (0.5, 0, 0, 3, 1), waiting=(1, 1, 1, 0, 0, 0),
    ).summary()  # fmt: skip
    assert found["tokens_per_s"] == pytest.approx(25 / 0.3, rel=1e-3)
    assert found["ms_per_step"] == pytest.approx(100)


def test_requests_that_wait_for_blocks_cost_their_prefill() -> None:
    found = watch(
        (0.0, 2, 64, 2, 0), (0.1, 2, 0, 2, 0), (0.2, 0, 0, 2, 2),
        (1.2, 2, 64, 2, 0), (1.3, 2, 0, 2, 0), (1.4, 0, 0, 2, 2), waiting=(2, 2, 2, 0, 0, 0),
    ).summary()  # fmt: skip
    assert found["running"] == 2
    assert found["tokens_per_s"] == pytest.approx(10 / 1.4, rel=1e-2)
    # ... but a step's time is that of a step without prompts.
    assert found["ms_per_step"] == pytest.approx(100)


def test_too_little_to_measure_says_nothing() -> None:
    assert watch().summary() == {}
    assert "tokens_per_s" not in watch((0.0, 1, 32, 1, 0)).summary()
    assert "tokens_per_s" not in watch((0.0, 1, 32, 1, 0), (0.1, 1, 32, 1, 1)).summary()


def test_it_listens_without_being_in_the_way() -> None:
    seen = []
    engine = SimpleNamespace(
        logger_manager=SimpleNamespace(record=lambda **values: seen.append(values) or "kept")
    )
    found = StepWatch()
    found.install(engine)
    scheduler = SimpleNamespace(num_running_reqs=3, num_waiting_reqs=1)
    iteration = SimpleNamespace(
        num_prompt_tokens=5, num_generation_tokens=2, finished_requests=[1], num_preempted_reqs=1
    )
    record = engine.logger_manager.record
    assert record(scheduler_stats=scheduler, iteration_stats=iteration, extra=1) == "kept"
    record(scheduler_stats=scheduler, iteration_stats=None)  # a step without outputs
    assert len(seen) == 2
    (step,) = found.steps
    assert (step.running, step.waiting, step.prompt_tokens, step.new_tokens) == (3, 1, 5, 2)
    assert (step.finished, step.preempted) == (1, 1)
