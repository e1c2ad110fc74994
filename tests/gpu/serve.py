"""A real server of the installed wheel under the OpenAI client.

`python tests/gpu/serve.py MODEL OUT.json [ARGUMENTS]` starts `vllm serve` with --use-replayssm and
MTP, as the README starts it, compiled and with FULL graphs, and with ARGUMENTS; asks it for what
clients.py lists, and reads its metrics. Exit code 1 unless every answer is what it must be. Nor
may a kernel of the window be compiled while it serves, which upstream's monitor would log.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "soak"))

import host
from clients import ask_everything
from server import add_arguments, command, serving

PORT = 8731
STARTS_IN_S = 900
# Lines of the server's log that go into the report.
KEEP = ("GPU KV cache size", "Available KV cache", "Graph capturing finished", "took")
COMPILED = re.compile(r"(\S+) compilation during inference: (\w+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokens", type=int, default=64, help="of an answer")
    parser.add_argument("--asking", type=int, default=16, help="clients at once")
    add_arguments(parser, PORT)
    args, more = parser.parse_known_args()  # more goes to the server
    args.out.unlink(missing_ok=True)
    words = command(args.model, args.port, more, interpreted=args.interpreted)
    with serving(words, args.port, args.out.with_suffix(".log")) as server:
        try:
            if not server.until(server.is_healthy, STARTS_IN_S):
                raise RuntimeError("the server did not start")
            found = ask_everything(server, args.model, args.tokens, args.asking)
        except Exception as error:
            print(f"{error}\n{server.said()}")
            return 1
        written = server.log.read_text(errors="replace")
    lines = written.splitlines()
    found["log"] = [x.split("] ", 1)[-1] for x in lines if any(word in x for word in KEEP)]
    found["compiled_while_serving"] = sorted({name for _, name in COMPILED.findall(written)})
    found["failed"] += [
        f"{name} was compiled while it served"
        for name in found["compiled_while_serving"]
        if "recoverssm" in name
    ]
    said = " ".join(["MODEL" if x == args.model else x for x in words[1:]])
    print(host.write_report(args.out, found, said))
    return bool(found["failed"])


if __name__ == "__main__":
    sys.exit(main())
