"""What happens to a real server when things go wrong: `python tests/soak/faults.py MODEL OUT.json`.

Hundreds of clients go away at once, one never reads, a process of the server is killed at work, the
start runs out of memory, the disk is full. Asked for is what upstream does, at least: a client is
answered or told, a server that cannot serve ends or says so by /health, a new one starts on
the same port, and whoever is answered has the tokens of the undisturbed server. What follows goes
to the server. Exit code 1 unless all of it holds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from client import Client
from requests_mix import Answer, Ask, draw, parted
from server import Server, add_arguments, command, serving

sys.path.append(str(Path(__file__).resolve().parents[1] / "gpu"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import host
from parity import beyond_ties

PORT = 8761  # and the next
STARTS_IN_S, ENDS_IN_S, IDLE_IN_S = 600, 60, 60
TOO_MUCH = 1 << 50  # bytes of cache that no machine has
PROMPTS = 6
Found = dict[str, Any]


class Case:
    """The faults of one command line, and what came of them."""

    def __init__(self, args: argparse.Namespace, more: list[str]) -> None:
        self.args, self.more = args, more
        self.client = Client(args.model, args.port)
        self.calm: list[Answer | None] = []
        self.asks: list[Ask] = []
        self.found: Found = {}
        self.failed: list[str] = []

    def words(self, *extra: str, port: int | None = None) -> list[str]:
        return command(
            self.args.model, port or self.args.port, [*self.more, *extra],
            interpreted=self.args.interpreted,
        )  # fmt: skip

    def log(self, name: str) -> Path:
        return Path(self.args.out).with_suffix(f".{name}.log")

    def note(self, name: str, *, good: bool, **facts: Any) -> None:
        self.found[name] = facts | {"good": good}
        print(f"{name}: {self.found[name]}", flush=True)
        if not good:
            self.failed.append(name)

    def started(self, server: Server) -> None:
        if not server.until(server.is_healthy, STARTS_IN_S):
            raise RuntimeError(f"the server did not start\n{server.said()}")

    def same(self) -> bool:
        """Whether the server, asked again, says what it said at first."""
        answers = asyncio.run(self.client.all(self.asks, 2, stay=True))
        margins = [parted(a, b) for a, b in zip(self.calm, answers, strict=True) if a and b]
        ties = [margin for margin in margins if margin is not None]
        return len(margins) == len(self.asks) and not beyond_ties(ties)

    def learn(self, server: Server) -> None:
        asks = draw(self.args.seed, 40, most_tokens=24, block=server.block_size())
        stay = [a for a in asks if a.leaves_after is None and a.regex is None and a.max_tokens > 8]
        self.asks = stay[:PROMPTS]
        self.calm = asyncio.run(self.client.all(self.asks, 2, stay=True))

    # ---- of a server that must live on -------------------------------------------------------

    def gone_at_once(self, server: Server) -> None:
        """Open many streams and drop them all within a second."""
        url, body = self.client.url, self.asks[0].body(self.args.model)
        body |= {"stream": True, "max_tokens": 200, "ignore_eos": True}

        statuses: list[int] = []

        async def stay(session: aiohttp.ClientSession, all_are_open: asyncio.Event) -> None:
            async with session.post(url, json=body) as reply:
                statuses.append(reply.status)
                if len(statuses) == self.args.leaving:
                    all_are_open.set()
                await asyncio.Event().wait()

        async def all_at_once() -> tuple[list[Any], float]:
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector) as session:
                go = asyncio.Event()
                tasks = [asyncio.create_task(stay(session, go)) for _ in range(self.args.leaving)]
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(go.wait(), self.args.leave_after)
                begun = time.monotonic()
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                return ends, time.monotonic() - begun

        ends, seconds = asyncio.run(all_at_once())
        lost = [x for x in ends if not isinstance(x, asyncio.CancelledError)]
        idle = server.until(server.is_idle, IDLE_IN_S)
        opened = statuses.count(200)
        self.note(
            f"{self.args.leaving} clients go away at once",
            good=opened == len(ends) and not lost and seconds < 1 and idle and self.same(),
            streams_open=opened, lost=len(lost), seconds=round(seconds, 2), idle_after=idle,
        )  # fmt: skip

    def never_reads(self, server: Server) -> None:
        """Ask for a stream and leave it in the socket while others are answered."""
        body = self.asks[0].body(self.args.model) | {"stream": True, "max_tokens": 300}
        raw = json.dumps(body | {"logprobs": 5, "ignore_eos": True}).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect(("127.0.0.1", self.args.port))
            silent.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
            others = self.same()
            idle_beside = server.until(server.is_idle, IDLE_IN_S)
        idle = server.until(server.is_idle, IDLE_IN_S)
        self.note(
            "a client never reads", good=others and idle, answered_others=others,
            ran_to_its_end=idle_beside, idle_after=idle,
        )  # fmt: skip

    # ---- of a server that ends ---------------------------------------------------------------

    def killed(self, server: Server, name: str, title: str) -> None:
        """Kill -9 a process of the server while it works for several clients."""
        (process, *_) = server.processes(title)[-1:]

        async def clients() -> list[Any]:
            asks = [Ask(a.prompt, self.args.long) for a in self.asks]
            bodies = [a.body(self.args.model) for a in asks]
            timeout = aiohttp.ClientTimeout(total=ENDS_IN_S)
            async with aiohttp.ClientSession(timeout=timeout) as session:

                async def one(body: Found) -> int | str:
                    try:
                        async with session.post(self.client.url, json=body) as reply:
                            await reply.read()
                            return reply.status
                    except aiohttp.ClientError:
                        return "disconnected"

                tasks = [asyncio.create_task(one(body)) for body in bodies]
                await asyncio.sleep(1)
                process.send_signal(signal.SIGKILL)
                return await asyncio.gather(*tasks, return_exceptions=True)

        begun = time.monotonic()
        told = asyncio.run(clients())
        hung = sum(isinstance(x, BaseException) for x in told)
        try:
            code: int | None = server.process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            code = None
        self.note(
            name, good=not hung and 200 not in told and code is not None,
            clients_were_told=[str(x) for x in told], server_exit_code=code,
            seconds=round(time.monotonic() - begun, 1),
        )  # fmt: skip

    def refuses_to_start(self, name: str, env: dict[str, str], sign: str, *extra: str) -> None:
        """Start what cannot work: it must end by itself, with a reason in its log."""
        log = self.log(name.replace(" ", "-"))
        port = self.args.port + 1
        begun = time.monotonic()
        with serving(self.words(*extra, port=port), port, log, os.environ | env) as server:
            try:
                code: int | None = server.process.wait(STARTS_IN_S)
            except subprocess.TimeoutExpired:
                code = None
            said = sign in server.log.read_text(errors="replace")
        self.note(
            name, good=bool(code) and said, exit_code=code, says_why=said,
            seconds=round(time.monotonic() - begun, 1),
        )  # fmt: skip

    def full_disk(self) -> None:
        """Caches of compiled kernels on a file system that has no room."""
        name = "the disk of the compile cache is full"
        with tempfile.TemporaryDirectory() as folder:
            mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
            if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
                self.found[name] = {"not_run": "mounting a small file system needs root"}
                return
            try:
                caches = ("TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR")
                env = {cache: f"{folder}/{cache.lower()}" for cache in caches}
                self.refuses_to_start(name, env, "No space left on device")
            finally:
                subprocess.run(["umount", "-l", folder], check=False)


def run(case: Case) -> None:
    args = case.args
    with serving(case.words(), args.port, case.log("first")) as server:
        case.started(server)
        case.learn(server)
        case.gone_at_once(server)
        case.never_reads(server)
        case.killed(server, "the engine is killed", "VLLM::EngineCore")
    if args.ranks > 1:
        with serving(case.words(), args.port, case.log("second")) as server:
            case.started(server)
            case.note("a new server says the same", good=case.same())
            case.killed(server, "a rank is killed", "VLLM::Worker")
    with serving(case.words(), args.port, case.log("last")) as server:
        case.started(server)
        case.note("the last server says the same", good=case.same())
    sign = "out of memory" if not args.interpreted else "memory"
    case.refuses_to_start(
        "no memory at the start", {}, sign, "--kv-cache-memory-bytes", str(TOO_MUCH)
    )
    if not args.interpreted:  # nothing is compiled there
        case.full_disk()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--leaving", type=int, default=500, help="clients that go at once")
    parser.add_argument("--leave-after", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--long", type=int, default=4000, help="tokens of those cut off")
    parser.add_argument("--ranks", type=int, default=1, help="tensor-parallel")
    add_arguments(parser, PORT)
    args, more = parser.parse_known_args()  # more goes to the server
    if args.ranks > 1:
        more += ["--tensor-parallel-size", str(args.ranks)]
    case = Case(args, more)
    args.out.unlink(missing_ok=True)
    try:
        run(case)
    except Exception as error:
        print(error, file=sys.stderr)
        case.failed.append(str(error).splitlines()[0])
    host.write_report(args.out, {**case.found, "failed": case.failed})
    print(json.dumps(case.failed))
    return 1 if case.failed else 0


if __name__ == "__main__":
    sys.exit(main())
