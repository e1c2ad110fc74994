"""The engine runs that the tests share.  Each is one process; several tests look at one run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tinymodel.tasks import Tasks, docstrings

Scenario = dict[str, Any]

DRAFTS = 3
WIDTH = 1 + DRAFTS  # tokens of a full verify row
SPECULATION: dict[str, dict[str, Any] | None] = {
    "none": None,
    "ngram": dict(
        method="ngram", num_speculative_tokens=DRAFTS, prompt_lookup_min=1, prompt_lookup_max=3
    ),
    "mtp": dict(method="mtp", num_speculative_tokens=DRAFTS),
}
# Request -> task, prompt length, new tokens.  Lengths differ, so that rows end at different steps
# and others take their places.
REQUESTS = dict(
    text=("text", 44, 30),
    copy=("copy", 50, 32),
    count=("count", 41, 24),
    walk=("walk", 36, 24),
    brackets=("brackets", 47, 30),
    sums=("sums", 30, 28),
    long_sums=("sums", 18, 44),
    long_brackets=("brackets", 18, 44),
    chunked=("count", 13, 10),
    short=("brackets", WIDTH, 16),
)
ONE_TOKEN = dict(letter=b"A", angle=b"<")  # prompts of one token
MIX = ("text", "copy", "count", "walk", "brackets", "sums")
# The n-gram drafter is always right or always wrong about other texts.
REPETITIVE = ("copy", "count", "brackets", "sums")
WATCHED = ("copy", "sums")
MODEL_LEN = 60  # of the run whose requests reach it
DRAFT_LIMITS = dict(
    copy=(3, 3, 0, 3, 1), count=(3, 2, 3, 0), brackets=(3, 0, 3, 2, 3), sums=(3, 1, 3, 3, 0)
)


@functools.cache
def documents() -> dict[str, list[int]]:
    """One long document of each task."""
    tasks = Tasks(12345, docstrings())
    return {name: tasks.document(name, 160) for name in tasks.makers}


def request(name: str, step: int = 0) -> dict[str, Any]:
    if name in ONE_TOKEN:
        return dict(prompt=list(ONE_TOKEN[name]), max_tokens=12, step=step)
    task, length, tokens = REQUESTS[name]
    return dict(prompt=documents()[task][:length], max_tokens=tokens, step=step)


def scenario(
    speculation: str, names: Iterable[str], window: bool = False, **engine: Any
) -> Scenario:
    settings = (
        dict(
            speculative_config=SPECULATION[speculation], max_num_seqs=4, max_num_batched_tokens=256
        )
        | engine
    )
    if window:
        settings["use_replayssm"] = True
    requests = {name: request(name) for name in names}
    return dict(mode="kernels", engine=settings, requests=requests, watch=WATCHED, poison=window)


def reference() -> Scenario:
    """Every request of the other runs, without speculation."""
    return scenario("none", [*REQUESTS, *ONE_TOKEN])


def mtp(window: bool) -> Scenario:
    return scenario("mtp", MIX, window)


def ngram(window: bool) -> Scenario:
    """Rows with all, some and no drafts in one batch.

    A prompt as long as a verify row is put between the rows with drafts and those without, so
    that it parts the verify rows of the batch.
    """
    run = scenario("ngram", REPETITIVE, window, max_num_seqs=5) | dict(drafts=DRAFT_LIMITS)
    run["requests"]["short"] = request("short", step=4)
    return run


def one_token_chunks(window: bool) -> Scenario:
    """Two verify rows leave one token of the budget: the third prompt runs one token at a
    time beside them, and goes on in one chunk when one of them is aborted.
    """
    run = scenario(
        "mtp", ["long_sums", "long_brackets"], window, max_num_batched_tokens=2 * WIDTH + 1
    )
    run["requests"]["chunked"] = request("chunked", step=5)
    return run | dict(aborts={"long_sums": 12})


def half_state(window: bool) -> Scenario:
    """The recurrent state in bfloat16."""
    return scenario("mtp", ("copy", "sums", "walk"), window, mamba_ssm_cache_dtype="bfloat16")


def churn() -> Scenario:
    """More requests than rows, one-token prompts among them; one is aborted, later all preempted.

    The blocks are just enough for the rows, so a new request gets those of the one that made
    room for it.
    """
    names = ("text", "copy", "count", "brackets", *ONE_TOKEN)
    rows, groups, null_block = 3, 3, 1
    run = scenario(
        "mtp",
        names,
        window=True,
        max_num_seqs=rows,
        num_gpu_blocks_override=rows * groups + null_block,
    )
    return run | dict(aborts={"copy": 5}, preempt=12)


def limit() -> Scenario:
    """Two requests end at the model's length, where their drafts are cut; the third before it."""
    return scenario("mtp", ("text", "copy", "sums"), window=True, max_model_len=MODEL_LEN)


def overlap() -> Scenario:
    """A step is scheduled before the tokens of the last are known, so a request that has ended
    runs once more; its blocks then go to one that waited.

    What the steps say was computed is a step ahead.
    """
    rows, groups, null_block = 2, 3, 1
    return scenario(
        "mtp",
        ("copy", "count", "brackets", "sums"),
        window=True,
        max_num_seqs=rows,
        num_gpu_blocks_override=rows * groups + null_block,
        async_scheduling=True,
    )


# A block of the cache groups, which the checkpoint's state makes so large.
BLOCK = 640
LONG = dict(text=BLOCK - 3, copy=BLOCK - 10, sums=BLOCK - 5)


@functools.cache
def long_documents() -> dict[str, list[int]]:
    tasks = Tasks(777, docstrings())
    return {name: tasks.document(name, BLOCK + 160) for name in LONG}


def prefix_cache(
    window: bool, speculation: str = "mtp", cached: bool = True, **engine: Any
) -> Scenario:
    """Requests come over a block's end while they decode; others go on from what they said, two of
    them from the same block at once.

    Every boundary's state is kept, not only what a repeated prompt would use.
    """
    run = scenario(
        speculation, [], window, enable_prefix_caching=cached, max_model_len=1024,
        max_num_batched_tokens=2048, **engine,
    )  # fmt: skip
    if cached:
        run["engine"]["prefix_cache_retention_interval"] = None
    requests = run["requests"]
    for name, length in LONG.items():
        requests[name] = dict(prompt=long_documents()[name][:length], max_tokens=40)
    for name, said in (("copy", 25), ("sums", 20), ("text", 12)):
        requests[f"{name}_again"] = dict(prompt=[], continues=[name, said], max_tokens=20)
    requests["copy_too"] = dict(prompt=[10], continues=["copy", 25], max_tokens=20)
    return run | dict(watch=[], poison="records" if window else False)


def two_ranks(run: Scenario, **more: Any) -> Scenario:
    """The same on two tensor-parallel ranks, whose states are not looked at."""
    return run | dict(engine=run["engine"] | dict(tensor_parallel_size=2), watch=[]) | more


def with_ray(run: Scenario) -> Scenario:
    """The same in a worker of Ray's."""
    return run | dict(engine=run["engine"] | dict(distributed_executor_backend="ray"), watch=[])


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "none": reference,
    "ngram_window": lambda: ngram(window=True),
    "mtp_window": lambda: mtp(window=True),
    "chunks_window": lambda: one_token_chunks(window=True),
    "half_window": lambda: half_state(window=True),
    "churn": churn,
    "limit": limit,
    "overlap": overlap,
    "ngram_snapshot": lambda: ngram(window=False),
    "mtp_snapshot": lambda: mtp(window=False),
    "chunks_snapshot": lambda: one_token_chunks(window=False),
    "half_snapshot": lambda: half_state(window=False),
    "cache_window": lambda: prefix_cache(window=True),
    "cache_snapshot": lambda: prefix_cache(window=False),
    "cache_ngram": lambda: prefix_cache(window=True, speculation="ngram"),
    "cache_async": lambda: prefix_cache(window=True, async_scheduling=True),
    "cache_cold": lambda: prefix_cache(window=False, speculation="none", cached=False),
    "ranks_chunks": lambda: two_ranks(one_token_chunks(window=True)),
    "ranks_cache": lambda: two_ranks(prefix_cache(window=True)),
    "ranks_foreign": lambda: two_ranks(half_state(window=True), foreign="0" * 64),
    "ranks_upstream": lambda: two_ranks(half_state(window=True), foreign="", engine_process=True),
    "ray": lambda: with_ray(half_state(window=True)),
    "ranks_disagree": lambda: two_ranks(half_state(window=True), disagree=4),
    "plain": lambda: reference() | dict(mode="plain"),
}
