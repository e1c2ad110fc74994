"""Sleep mode on a GPU: an engine of the trained tiny checkpoint wakes and says the same.

`python tests/gpu/sleep.py MODEL OUT.json` asks an engine before any sleep and then after it slept
at each level, idle, with its requests aborted, and with them kept in the midst of their answers.
States are lost each time, windows at level 2 (not on a CPU, whose worker only pauses). Exit code 1
if an answer differs by more than a near tie, a lost state was found by its prefix, the cache was
not given back, or no request was under way or aborted where all should have been.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[1]))

import host
import modes
from engine import process_memory_gib
from parity import beyond_ties, compare
from tiny_engine import DRAFTS, PROMPTS, rows_of
from tinymodel.tasks import Tasks, docstrings

STEPS = 12  # tokens of an answer before a sleep
KV_GIB = 1


class Engine:
    """An engine with its front end, which sleeps."""

    def __init__(self, args: argparse.Namespace) -> None:
        if args.interpreted:
            import harness

            harness.install("kernels")
        self.interpreted = args.interpreted
        self.prompts = [list(prompt) for prompt in PROMPTS[: args.requests]]
        arguments = modes.engine_arguments(
            modes.MODES[args.mode],
            args.model,
            drafts=DRAFTS,
            capture_sizes=[1, 2, 4, 8, 16, 32],
            eager=args.interpreted,
            max_model_len=1024,
            max_num_seqs=len(self.prompts) + 1,
            kv_cache_memory_bytes=(KV_GIB << 30) // (16 if args.interpreted else 1),
            enable_sleep_mode=not args.interpreted,
            enable_prefix_caching=True,
        )
        from vllm import LLM, SamplingParams

        self.llm = LLM(**arguments)
        if not args.interpreted:  # one that the prefix cache would find again
            block = self.llm.llm_engine.vllm_config.cache_config.block_size
            self.prompts.append(Tasks(7, docstrings()).document("text", block + 40))
        self.sampling = SamplingParams(
            temperature=0, max_tokens=args.tokens, ignore_eos=True, detokenize=False, logprobs=2
        )
        self.asked = 0

    def ask(self) -> None:
        for prompt in self.prompts:
            self.llm.llm_engine.add_request(
                str(self.asked), {"prompt_token_ids": prompt}, self.sampling
            )
            self.asked += 1

    def answers(self) -> list[dict[str, Any]]:
        """Of what was asked last, once all are finished."""
        done = {int(output.request_id): output for output in self.finished()}
        return rows_of([done[number] for number in self.last()])

    def last(self) -> range:
        """Numbers of the requests that were asked last."""
        return range(self.asked - len(self.prompts), self.asked)

    def finished(self) -> list[Any]:
        """Go on until no request is under way; all that finish."""
        done: list[Any] = []
        while self.llm.llm_engine.has_unfinished_requests():
            done += [output for output in self.llm.llm_engine.step() if output.finished]
        return done

    def under_way(self) -> int:
        """Ask, and go on until all answers have begun; tokens of the longest."""
        self.ask()
        begun: dict[str, int] = {}
        while len(begun) < len(self.prompts) or max(begun.values()) < STEPS:
            for output in self.llm.llm_engine.step():
                begun[output.request_id] = len(output.outputs[0].token_ids)
        return max(begun.values())

    def wake(self, level: int) -> None:
        if level < 2:
            self.llm.wake_up()
            return
        self.llm.wake_up(tags=["weights"])
        self.llm.collective_rpc("reload_weights")
        self.llm.wake_up(tags=["kv_cache"])


def idle(engine: Engine, level: int) -> dict[str, Any]:
    """Asleep with nothing to do; GPU memory by then."""
    before = process_memory_gib()
    engine.llm.sleep(level=level)
    found = {"awake_gib": before, "asleep_gib": process_memory_gib()}
    engine.wake(level)
    engine.ask()
    return found


def aborted(engine: Engine, level: int) -> dict[str, Any]:
    found: dict[str, Any] = {"tokens_before": engine.under_way()}
    engine.llm.sleep(level=level, mode="abort")
    engine.wake(level)
    if engine.interpreted:
        # A front end within the engine's process is not told.
        engine.llm.llm_engine.abort_request([str(number) for number in engine.last()])
    else:
        ends = [output.outputs[0].finish_reason for output in engine.finished()]
        found["aborted"] = ends.count("abort")
    engine.ask()
    return found


def kept(engine: Engine, level: int) -> dict[str, Any]:
    """The answers are those that had begun."""
    found = {"tokens_before": engine.under_way()}
    engine.llm.sleep(level=level, mode="keep")
    engine.wake(level)
    return found


CASES: tuple[Callable[[Engine, int], dict[str, Any]], ...] = (idle, aborted, kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=sorted(modes.MODES), default="window")
    parser.add_argument("--requests", type=int, default=len(PROMPTS), help="of the prompts")
    parser.add_argument("--tokens", type=int, default=160, help="of an answer")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2], choices=[1, 2])
    parser.add_argument("--interpreted", action="store_true", help="on a CPU, see tests/harness")
    args = parser.parse_args()
    engine = Engine(args)
    engine.ask()
    first = engine.answers()
    bad = []
    if not args.interpreted:
        engine.ask()
        if not any(row["cached"] for row in engine.answers()):
            bad.append("awake: no prefix was found in the cache")
    cases: dict[str, dict[str, Any]] = {}
    for level, case in itertools.product(args.levels, CASES):
        name = f"{case.__name__}, level {level}"
        found = case(engine, level)
        rows = engine.answers()
        found |= compare(rows, first)
        if case is not kept and any(row["cached"] for row in rows):
            bad.append(f"{name}: a prefix was found whose state was lost")
        cases[name] = found
        print(name, found, flush=True)
        if beyond_ties(found["margins_where_parted"]):
            bad.append(f"{name}: parted")
        if found.get("aborted", found["requests"]) != found["requests"]:
            bad.append(f"{name}: not all that were under way were aborted")
        if "awake_gib" in found and not args.interpreted:
            given = (found["awake_gib"] or 0) - (found["asleep_gib"] or 0)
            if given < KV_GIB * 0.9:
                bad.append(f"{name}: {given:.2f} GiB were given back, of a cache of {KV_GIB}")
        if not STEPS <= found.get("tokens_before", STEPS) < args.tokens:
            bad.append(f"{name}: answers were not under way")
    report = {"mode": args.mode, "cases": cases, "failed": bad}
    print(host.write_report(args.out, report))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
