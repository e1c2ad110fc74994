"""Window against snapshot on the trained tiny checkpoint, in the real engine on a GPU.

`python tests/gpu/parity.py MODEL OUT.json` runs every mode in a process of its own, all at once,
and compares answers of 160 and of 4,096 tokens, and of prompts found in the prefix cache with the
same ones computed (not with --no-cache, where the series refuses that). With `--executors mp ray`
it compares vLLM's executors with one process, `--ranks 2` on two GPUs. Exit code 1 if a mode fails
or a comparison that must hold does not.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "bench"))

import host

RUNS = {
    "none": ["none", "--eager"],
    "window eager": ["window", "--eager"],
    "window piecewise": ["window-piecewise"],
    "window full": ["window"],
    "snapshot eager": ["snapshot", "--eager"],
    "window cached": ["window", "--cached"],
    "snapshot cached": ["snapshot", "--cached"],
}
# Pairs whose tokens may part only where the two best tokens nearly tie.
TIES = [
    ("window piecewise", "window eager"),
    ("window full", "window eager"),
    ("window eager", "none"),
    ("window full", "none"),
    ("window eager", "snapshot eager"),
]
TIE_NATS = 0.07  # one bf16 step of a logit near 10
DRIFT_NATS = 0.2  # of log-probabilities before answers part; 0.06 was the most seen
ANSWERS = {"rows": "", "long": ", long"}
# For each executor; one process beside them.
ALONE = {"window": ["window"], "window cached": ["window", "--cached"]}
EXECUTED = {
    "{} window": ["window"],
    "{} window eager": ["window", "--eager"],
    "{} window cached": ["window", "--cached"],
    "{} snapshot": ["snapshot"],
    "{} none": ["none"],
}
EXECUTED_TIES = [
    ("{} window", "window"),
    ("{} window", "{} window eager"),
    ("{} window", "{} snapshot"),
    ("{} window", "{} none"),
]


def executed(
    ranks: int, executors: list[str]
) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """What to run and to compare with vLLM's executors."""
    runs, ties = dict(ALONE), []
    for executor in executors:
        label = f"{executor} x{ranks}"
        where = ["--ranks", str(ranks), "--executor", executor]
        runs |= {name.format(label): [*words, *where] for name, words in EXECUTED.items()}
        ties += [(a.format(label), b.format(label)) for a, b in EXECUTED_TIES]
    return runs, ties


def run_all(model: str, scratch: Path, runs: dict[str, list[str]]) -> dict[str, Any]:
    jobs = {}
    for name, arguments in runs.items():
        out = scratch / f"{name.replace(' ', '-')}.json"
        command = [sys.executable, str(HERE / "tiny_engine.py"), model, arguments[0], str(out)]
        with out.with_suffix(".log").open("w") as log:
            jobs[name] = (
                out,
                subprocess.Popen(command + arguments[1:], stdout=log, stderr=subprocess.STDOUT),
            )
    results = {}
    for name, (out, job) in jobs.items():
        if job.wait():
            print(f"{name}: exit {job.returncode}\n{out.with_suffix('.log').read_text()[-3000:]}")
        else:
            results[name] = json.loads(out.read_text())
    return results


def beyond_ties(margins: Iterable[float]) -> list[float]:
    """Return the margins that are no near ties; one that is not a number is none."""
    return [margin for margin in margins if not margin <= TIE_NATS]


def compare(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> dict[str, Any]:
    """How two runs agree: equal requests, the worst tie at which they part, drift."""
    equal, parted, drift = 0, [], 0.0
    for x, y in zip(a, b, strict=True):
        pairs = list(zip(x["tokens"], y["tokens"], strict=True))
        at = next((i for i, (s, t) in enumerate(pairs) if s != t), len(pairs))
        equal += at == len(pairs)
        if not all(map(math.isfinite, x["logprobs"] + y["logprobs"])):
            parted.append(math.nan)
        elif at < len(pairs):
            parted.append(min(x["margins"][at], y["margins"][at]))
        drift = max(
            [
                drift,
                *(abs(p - q) for p, q in zip(x["logprobs"][:at], y["logprobs"][:at], strict=True)),
            ]
        )
    return {
        "requests": len(a),
        "tokens": len(a[0]["tokens"]),
        "equal": equal,
        "margins_where_parted": [round(m, 4) for m in parted],
        "max_logprob_difference_before": round(drift, 5),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--ranks", type=int, default=1, help="tensor-parallel, a GPU each")
    parser.add_argument("--executors", nargs="+", default=[], choices=["mp", "ray"])
    args = parser.parse_args()
    runs, ties = RUNS, TIES
    if args.ranks > 1 or args.executors:
        runs, ties = executed(args.ranks, args.executors or ["mp"])
    if args.no_cache:
        runs = {name: words for name, words in runs.items() if "--cached" not in words}
    with tempfile.TemporaryDirectory() as scratch:
        results = run_all(args.model, Path(scratch), runs)
    comparisons: dict[str, dict[str, Any]] = {}
    bad = [name for name in runs if name not in results]
    for a, b in ties:
        if a in results and b in results:
            for answers, label in ANSWERS.items():
                found = compare(results[a][answers], results[b][answers])
                comparisons[f"{a} / {b}{label}"] = found
    for name in results:
        if name.endswith(" cached"):
            run = results[name]
            cached = [row["cached"] for row in run["warm"]]
            comparisons[f"{name}, warm / cold"] = compare(run["warm"], run["cold"]) | {
                "cached_tokens": cached
            }
            if any(n != run["block"] for n in cached):
                bad.append(f"{name}: prefixes were not found")
            alone = results.get("window cached")
            if alone and name.endswith("window cached") and run is not alone:
                comparisons[f"{name} / window cached, cold"] = compare(run["cold"], alone["cold"])
    for name, found in comparisons.items():
        drift = found["max_logprob_difference_before"]
        if beyond_ties(found["margins_where_parted"]) or drift > DRIFT_NATS:
            bad.append(name)
    report = {
        "accepted_counts": {n: r["accepted_counts"] for n, r in results.items()},
        "comparisons": comparisons,
        "failed": bad,
    }
    print(host.write_report(args.out, report))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
