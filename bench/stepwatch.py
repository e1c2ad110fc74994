"""What an engine's steps were like: when each came, how many requests ran, what it yielded."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step, as the engine's front end learned of it."""

    at: float
    running: int
    waiting: int
    prompt_tokens: int
    new_tokens: int
    finished: int
    preempted: int


class StepWatch:
    """Keeps the steps of one measurement; installed on an engine's recorder of statistics."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def install(self, engine: Any) -> None:
        manager = engine.logger_manager
        record = manager.record

        def recording(*args: Any, **kwargs: Any) -> Any:
            self.note(kwargs.get("scheduler_stats"), kwargs.get("iteration_stats"))
            return record(*args, **kwargs)

        manager.record = recording

    def note(self, scheduler: Any, iteration: Any) -> None:
        if scheduler is None or iteration is None:
            return
        self.steps.append(
            Step(
                at=time.perf_counter(),
                running=scheduler.num_running_reqs,
                waiting=scheduler.num_waiting_reqs,
                prompt_tokens=iteration.num_prompt_tokens,
                new_tokens=iteration.num_generation_tokens,
                finished=len(iteration.finished_requests),
                preempted=iteration.num_preempted_reqs,
            )
        )

    def first_wave(self) -> int:
        """Return the step with the last prompt before a request ended."""
        first_end = next((i for i, s in enumerate(self.steps) if s.finished), len(self.steps) - 1)
        return max((i for i, s in enumerate(self.steps[:first_end]) if s.prompt_tokens), default=0)

    def summary(self) -> dict[str, Any]:
        """Decode rate and step time behind the first prefill, and the most requests at once.

        The clock starts with the last prompt of the first wave and stops where fewer requests
        run and none waits: from then on the batch is smaller. Where state blocks run out, later
        prompts take the places of requests that end: their prefill counts, being the price. The
        step's time is of steps with the most requests and no prompt.
        """
        if not self.steps:
            return {}
        start = self.first_wave()
        most = max(step.running for step in self.steps)
        # What runs is counted after a step, whose tokens are those of all who ran in it.
        end = next(
            (
                i
                for i, s in enumerate(self.steps)
                if i > start and s.running < most and not s.waiting
            ),
            len(self.steps) - 1,
        )
        decode = self.steps[start : end + 1]
        seconds = decode[-1].at - decode[0].at
        gaps = [
            1e3 * (b.at - a.at)
            for a, b in itertools.pairwise(decode)
            if b.new_tokens and not b.prompt_tokens and a.running == most
        ]
        found: dict[str, Any] = {
            "running": most,
            "preempted": sum(step.preempted for step in self.steps),
            "steps": len(decode) - 1,
        }
        if seconds > 0 and gaps:
            found["tokens_per_s"] = round(sum(s.new_tokens for s in decode[1:]) / seconds, 1)
            found["ms_per_step"] = round(statistics.median(gaps), 3)
            found["full_steps"] = len(gaps)
        return found
