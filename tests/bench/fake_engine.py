"""Stands for bench/engine.py: answers at once, with numbers that say which engine it is.

FAKE_BROKEN names modes that do not start, FAKE_SLOW modes that take a minute to, FAKE_DIES
"mode:n" one that dies at request n.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

geometry, mode = sys.argv[1:3]
reply = int(sys.argv[sys.argv.index("--reply-fd") + 1])
trace = Path(os.environ["FAKE_TRACE"])
SPEED = {"none": 500.0, "snapshot": 1000.0, "window": 1500.0}


def note(text: str) -> None:
    with trace.open("a") as stream:
        stream.write(f"{mode} {text}\n")


note("start")
if mode in os.environ.get("FAKE_BROKEN", "").split():
    print("loading\nValueError: no room for the cache\nbye")
    sys.exit(3)
if mode in os.environ.get("FAKE_SLOW", "").split():
    time.sleep(60)
dies, _, at = os.environ.get("FAKE_DIES", "").partition(":")
with os.fdopen(reply, "w") as replies:
    print(json.dumps({"advertised": 12.5, "kv_cache_gib": 1}), file=replies, flush=True)
    for n, line in enumerate(sys.stdin):
        request = json.loads(line)
        note(f"{request['batch']} {request['acceptance']} {request['seed']}")
        if mode == dies and n == int(at):
            os._exit(9)
        answer = {
            "running": min(request["batch"], 100 if mode == "snapshot" else 999),
            "tokens_per_s": SPEED[mode] * request["batch"],
            "with_prefill_tokens_per_s": SPEED[mode] * request["batch"] / 2,
            "full_steps": 9,
            "ms_per_step": 2.5,
        }
        print(json.dumps(answer), file=replies, flush=True)
note("end")
