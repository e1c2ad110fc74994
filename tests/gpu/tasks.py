"""Tasks done with snapshots and with the window: `python tests/gpu/tasks.py MODEL OUT.json`.

MODEL is a real checkpoint (a folder or a hub id) or the tiny one, --tasks a file of JSON lines with
`question` and `answer`, as GSM8K's (its last number counts); without it the tiny checkpoint's own
sums are asked. Each mode is a process of its own, one after the other.
Compared are

- accuracy, greedy, with a 95 % interval of the paired difference;
- the log-probabilities of tokens as they were decoded with those of the same tokens forced on the
  window's engine as a prompt: both paths' own answers, snapshots as the measure of the window;
- the log-probabilities of the same texts, the given answers, as prompts of both engines.

Exit codes: 0 as good, 1 worse (the report's `failed` says in what) or an engine failed, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "bench"))
sys.path.append(str(HERE.parent))

import geometry
import host
import paired
from tinymodel.tasks import Tasks, docstrings

MODES = ("snapshot", "window")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
SUMS = 200  # tasks made for the tiny checkpoint
# How far the window's decoded tokens may be from a prefill's, in those of snapshots and nats.
TIMES, NATS = 1.25, 1e-3
SAME_NATS = 0.02  # of the same prompts in two engines, whose batches round otherwise
Task = dict[str, Any]


class UsageError(Exception):
    """A file that holds no tasks."""


def number(text: str) -> Decimal | None:
    """The number that an answer comes to: its last."""
    found = NUMBER.findall(text)
    return Decimal(found[-1].replace(",", "")) if found else None


def read(path: Path, limit: int | None) -> list[Task]:
    tasks = []
    for at, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            task = json.loads(line)
            good = number(task["answer"]) is not None and bool(task["question"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}:{at} is no task ({error!r}); correct it.") from None
        if not good:
            raise UsageError(
                f"{path}:{at} has no question, or no number in its answer; correct it."
            )
        tasks.append(task)
    if not tasks:
        raise UsageError(f"{path} holds no task; name a file of JSON lines.")
    return tasks[:limit]


def sums(count: int) -> list[Task]:
    """Chains of sums as the tiny checkpoint has learned them, to be gone on with."""
    tasks = Tasks(4242, docstrings())
    found = []
    for _ in range(count):
        links = tasks.sums(60).split(";")
        question, _, answer = links[5].partition("=")
        found.append({
            "question": ";".join([*links[:5], f"{question}="]), "answer": answer, "stop": ";",
        })  # fmt: skip
    return found


def run(args: argparse.Namespace, tasks: list[Task], scratch: Path) -> dict[str, dict[str, Any]]:
    """Return what each mode said; the window's engine scores the snapshots' answers too."""
    engine: dict[str, Any] = {
        "max_num_seqs": args.max_num_seqs, "max_model_len": args.max_model_len,
        "tensor_parallel_size": args.ranks,
    }  # fmt: skip
    if args.kv_gib:
        engine["kv_cache_memory_bytes"] = int(args.kv_gib * 2**30)
    else:
        engine["gpu_memory_utilization"] = 0.9
    results: dict[str, dict[str, Any]] = {}
    for mode in MODES:
        said = {
            name: [(row["prompt"], row["tokens"]) for row in found["answers"][: args.forced]]
            for name, found in results.items()
        }
        job, out = scratch / f"{mode}.job.json", scratch / f"{mode}.json"
        job.write_text(json.dumps({
            "tasks": tasks, "max_tokens": args.max_tokens, "forced": args.forced, "said": said,
            "engine": engine, "drafts": args.drafts, "interpreted": args.interpreted,
        }))  # fmt: skip
        command = [sys.executable, str(args.engine), args.model, mode, str(job), str(out)]
        with out.with_suffix(".log").open("w") as log:
            code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        if code or not out.exists():
            words = out.with_suffix(".log").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{mode}: exit code {code}\n{words}")
        results[mode] = json.loads(out.read_text())
    return results


def compare(tasks: list[Task], results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """How well the window does what snapshots do."""
    snapshot, window = (results[mode] for mode in MODES)
    wanted = [number(task["answer"]) for task in tasks]
    right = {
        mode: [
            number(row["text"]) == want for row, want in zip(found["answers"], wanted, strict=True)
        ]
        for mode, found in results.items()
    }
    decoded = {
        mode: [row["logprobs"] for row in found["answers"]] for mode, found in results.items()
    }
    forced = {"window": window["forced"]["own"], "snapshot": window["forced"]["snapshot"]}
    distances = {
        f"{mode}, decoded and forced": paired.distances(
            decoded[mode][: len(forced[mode])], forced[mode]
        )
        for mode in MODES
    }
    distances["the same texts, both engines"] = paired.distances(window["gold"], snapshot["gold"])
    tokens = {mode: [row["tokens"] for row in found["answers"]] for mode, found in results.items()}
    report: dict[str, Any] = {
        "accuracy": {
            "tasks": len(tasks),
            **{mode: rounded(paired.wilson(sum(right[mode]), len(tasks))) for mode in MODES},
            "difference": rounded(paired.difference(right["window"], right["snapshot"])),
        },
        "equal_answers": sum(a == b for a, b in zip(*tokens.values(), strict=True)),
        "distances": distances,
        "counters": {mode: found["counters"] for mode, found in results.items()},
    }
    report["failed"] = failed(report, results)
    return report


def failed(report: dict[str, Any], results: dict[str, dict[str, Any]]) -> list[str]:
    own, theirs, same = (
        report["distances"][f"{name}"].get("mean")
        for name in ("window, decoded and forced", "snapshot, decoded and forced",
                     "the same texts, both engines")
    )  # fmt: skip
    wrong = {
        "the modes are not those asked for": [r["replayssm"] for r in results.values()]
        != [False, True],
        "no draft of the window was accepted": not results["window"]["counters"].get(
            "num_accepted_tokens"
        ),
        "the window answers fewer tasks": report["accuracy"]["difference"][2] < 0,
        "no log-probabilities were compared": None in (own, theirs, same),
        "the window's tokens are further from a prefill's": (own or 0)
        > TIMES * (theirs or 0) + NATS,
        "the same texts have other log-probabilities": (same or 0) > SAME_NATS,
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def rounded(interval: paired.Interval) -> list[float]:
    return [round(value, 5) for value in interval]


def checkpoint(model: str, found: dict[str, Any]) -> dict[str, Any]:
    """What was asked: its name, which real geometry it has, and whether weights were loaded."""
    config = found["text_config"]
    names = [
        name
        for name, sizes in geometry.GEOMETRIES.items()
        # Where embeddings are tied is said outside the text's configuration.
        if all(config.get(k) == v for k, v in sizes.items() if k != "tie_word_embeddings")
    ]
    return {
        "name": Path(model).name,
        "geometry": names[0] if names else None,
        "has_weights": "dummy" not in found["load_format"].lower(),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=Path, help="JSON lines of questions and answers")
    parser.add_argument("--limit", type=int, help="ask the first of them alone")
    parser.add_argument("--forced", type=int, default=64, help="tasks whose tokens are scored")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--max-num-seqs", type=int, default=64)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--drafts", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1, help="tensor-parallel ones")
    parser.add_argument("--kv-gib", type=float, help="the cache (default: what memory is left)")
    parser.add_argument("--interpreted", action="store_true", help="on a CPU, see tests/harness")
    parser.add_argument(
        "--engine", type=Path, default=HERE / "tasks_engine.py", help=argparse.SUPPRESS
    )
    args = parser.parse_args(argv)
    try:
        tasks = read(args.tasks, args.limit) if args.tasks else sums(args.limit or SUMS)
    except (OSError, UsageError) as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        try:
            results = run(args, tasks, Path(scratch))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    report = {"checkpoint": checkpoint(args.model, results["window"]), **compare(tasks, results)}
    print(host.write_report(args.out, report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
