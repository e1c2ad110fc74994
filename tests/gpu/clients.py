"""What the OpenAI client asks of a server, and what the answers must be."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openai import OpenAI

sys.path.append(str(Path(__file__).resolve().parents[1] / "soak"))

from server import Server

PROMPT = "the quick brown fox jumps over the lazy dog. the quick brown"
REGEX = "[a-z]{3,8}( [a-z]{3,6}){1,2}"
# Prometheus metrics that tell how drafts fare, and how windows do.
DRAFTED = ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_total")
WINDOWS = "vllm:gdn_recoverssm_"


class Asking:
    """One client of one server. Answers are greedy and ignore their end, unless told otherwise."""

    def __init__(self, server: Server, model: str, tokens: int) -> None:
        self.model, self.tokens = model, tokens
        self.client = OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")

    def complete(self, **options: Any) -> Any:
        extra = {"ignore_eos": True} | options.pop("extra_body", {})
        settings = {"temperature": 0, "max_tokens": self.tokens, "prompt": PROMPT} | options
        return self.client.completions.create(model=self.model, extra_body=extra, **settings)

    def text(self, **options: Any) -> str:
        return str(self.complete(**options).choices[0].text)

    def stream(self) -> list[str]:
        chunks = self.complete(stream=True)
        return [chunk.choices[0].text for chunk in chunks if chunk.choices]

    def leave(self) -> None:
        """Go away after the second chunk."""
        chunks = self.complete(stream=True, max_tokens=20 * self.tokens)
        for _, _ in zip(chunks, range(2), strict=False):
            pass
        chunks.close()

    def likelihoods(self) -> tuple[str, list[float]]:
        found = self.complete(logprobs=2).choices[0]
        return str(found.text), list(found.logprobs.token_logprobs)

    def prompt_likelihoods(self) -> list[Any]:
        found = self.complete(max_tokens=4, extra_body={"prompt_logprobs": 1})
        return list(found.choices[0].prompt_logprobs)


def ask_everything(server: Server, model: str, tokens: int, at_once: int) -> dict[str, Any]:
    """Return what was found; `failed` names what is not as it must be.

    Batches of another size round otherwise, so of concurrent answers it only counts the equal.
    """
    asking = Asking(server, model, tokens)
    plain = asking.text()
    pieces = asking.stream()
    with ThreadPoolExecutor(at_once) as pool:
        concurrent = list(pool.map(lambda _: asking.text(), range(at_once)))
    likely, logprobs = asking.likelihoods()
    several = [c.text for c in asking.complete(n=3, temperature=0.8, seed=7).choices]
    structured = asking.text(
        extra_body={"structured_outputs": {"regex": REGEX}, "ignore_eos": False}
    )
    stop = plain[len(plain) // 2 :][:4]
    stopped = asking.text(stop=[stop])
    prompt = asking.prompt_likelihoods()
    asking.leave()
    idle = server.until(server.is_idle, 60)
    metrics = server.metrics()
    ours = {
        name: value
        for name, value in metrics.items()
        if name.startswith(WINDOWS) and "_created" not in name
    }
    checks = {
        "the streamed answer differs": "".join(pieces) != plain,
        "the stream was one piece": len(pieces) < 2,
        "an answer is empty": not all([plain, *concurrent]),
        "log-probabilities change the answer": likely != plain,
        "log-probabilities are missing": len(logprobs) != tokens or max(logprobs) > 0,
        "n=3 gave other than three answers": len(several) != 3 or not all(several),
        "n=3 gave one answer thrice": len(set(several)) == 1,
        "the structured answer is none": not re.fullmatch(REGEX, structured),
        "a stop string did not stop": stopped != plain[: plain.index(stop)],
        "prompt log-probabilities are missing": (
            len(prompt) < 2 or prompt[0] is not None or None in prompt[1:]
        ),
        "a client that left is still served": not idle,
        "/health is not": not server.is_healthy(),
        "no draft was accepted": not all(metrics.get(name) for name in DRAFTED),
    }
    return {
        "text": plain,
        "streamed_pieces": len(pieces),
        "concurrent": len(concurrent),
        "concurrent_equal": sum(text == plain for text in concurrent),
        "structured": structured,
        "metrics": {name: metrics.get(name) for name in DRAFTED} | ours,
        "failed": [name for name, bad in checks.items() if bad],
    }
