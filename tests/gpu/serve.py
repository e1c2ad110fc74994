"""A real server of the installed wheel under the OpenAI client.

`python tests/gpu/serve.py MODEL OUT.json [ARGUMENTS]` starts `vllm serve` with --use-replayssm and
MTP, asks it for completions (plain, streamed, concurrent) and reads its metrics. Exit
code 1 unless every answer comes and the streamed one repeats the plain one; batches of another
size round otherwise, so of the concurrent ones it only counts those. Nor may a kernel of the
window be compiled while it serves, which upstream's monitor would log. The server is started as
the README starts it, compiled and with FULL graphs, and with ARGUMENTS.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import host

PORT = 8731
README = [
    "--use-replayssm",
    "--speculative-config",
    '{"method": "mtp", "num_speculative_tokens": 3}',
]
HOST = [
    # FlashInfer's prefill and the vision tower's kernels do not travel in the bundle.
    "--additional-config",
    '{"gdn_prefill_backend": "triton"}',
    "--limit-mm-per-prompt",
    '{"image": 0, "video": 0}',
    "--dtype", "bfloat16",
    "--host", "127.0.0.1",
    "--port", str(PORT),
]  # fmt: skip
# Lines of the server's log that go into the report.
KEEP = ("GPU KV cache size", "Available KV cache", "Graph capturing finished", "took")
COMPILED = re.compile(r"(\S+) compilation during inference: (\w+)")
PROMPT = "the quick brown fox jumps over the lazy dog. the quick brown"


def get(path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def wait_until_healthy(server: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with exit code {server.returncode}")
        try:
            get("/health")
        except OSError:
            time.sleep(1)
        else:
            return
    raise RuntimeError(f"the server was not healthy after {seconds} s")


def ask(model: str) -> dict[str, object]:
    from openai import OpenAI

    client = OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none")

    def complete() -> str:
        answer = client.completions.create(
            model=model,
            prompt=PROMPT,
            max_tokens=64,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
        return answer.choices[0].text

    plain = complete()
    stream = client.completions.create(
        model=model, prompt=PROMPT, max_tokens=64, temperature=0, stream=True,
        extra_body={"ignore_eos": True},
    )  # fmt: skip
    streamed = "".join(chunk.choices[0].text for chunk in stream if chunk.choices)
    with ThreadPoolExecutor(8) as pool:
        concurrent = list(pool.map(lambda _: complete(), range(16)))
    metrics = {
        line.split("{")[0]: float(line.rsplit(" ", 1)[1])
        for line in get("/metrics").splitlines()
        if line.startswith("vllm:spec_decode_num_")
        and "per_pos" not in line
        and "created" not in line
    }
    return {
        "text": plain,
        "streamed_equal": streamed == plain,
        "concurrent_equal": sum(text == plain for text in concurrent),
        "concurrent": len(concurrent),
        "metrics": metrics,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    args, more = parser.parse_known_args()  # more goes to the server
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", args.model]
    command += [*README, *HOST, *more]
    log = args.out.with_suffix(".log")
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until_healthy(server, 450)
            found = ask(args.model)
        except Exception as error:
            print(f"{error}\n{log.read_text(errors='replace')[-4000:]}")
            return 1
        finally:
            server.terminate()
            server.wait(60)
    written = log.read_text(errors="replace")
    lines = written.splitlines()
    found["log"] = [x.split("] ", 1)[-1] for x in lines if any(word in x for word in KEEP)]
    found["compiled_while_serving"] = sorted({name for _, name in COMPILED.findall(written)})
    late = [name for name in found["compiled_while_serving"] if "recoverssm" in name]
    said = " ".join(["MODEL" if x == args.model else x for x in command[1:]])
    report = {"host": host.facts(), "command": said, **found}
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    good = found["streamed_equal"] and found["text"] and found["metrics"] and not late
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
