"""Steps with fewer drafts than configured, or none.

In production a grammar cuts drafts this way: in the scheduler, after the drafter proposed them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.hooks import after


def limit_drafts(limits: Mapping[str, Sequence[int]], name_of: Callable[[str], str]) -> None:
    if not limits:
        return
    turn: collections.Counter[str] = collections.Counter()

    @after("vllm.v1.core.sched.scheduler")
    def _(module: Any) -> None:
        original = module.Scheduler.update_draft_token_ids

        def update(scheduler: Any, drafts: Any) -> None:
            original(scheduler, drafts)
            for request_id in drafts.req_ids:
                request = scheduler.requests.get(request_id)
                name = name_of(request_id)
                if request is None or not request.spec_token_ids or name not in limits:
                    continue
                limit = limits[name][turn[name] % len(limits[name])]
                turn[name] += 1
                request.spec_token_ids = request.spec_token_ids[:limit]

        module.Scheduler.update_draft_token_ids = update
