"""Clients of one server, that stay or go away."""

from __future__ import annotations

import asyncio

import aiohttp
from requests_mix import Answer, Ask


class Client:
    """Asks one server."""

    def __init__(self, model: str, port: int) -> None:
        self.model, self.url = model, f"http://127.0.0.1:{port}/v1/completions"

    async def ask(self, session: aiohttp.ClientSession, ask: Ask, *, stay: bool) -> Answer | None:
        """Return the answer, None to a client that went away."""
        body = ask.body(self.model) | ({"stream": False} if stay else {})
        async with session.post(self.url, json=body) as reply:
            if reply.status != 200:
                raise RuntimeError(f"status {reply.status}: {(await reply.text())[:300]}")
            if not body["stream"]:
                return Answer.of(await reply.json())
            chunks = 0
            async for _ in reply.content:
                chunks += 1
                if chunks > 2 * (ask.leaves_after or 0):  # a blank line follows each chunk
                    reply.close()
                    return None
        return None

    async def all(self, asks: list[Ask], at_once: int, *, stay: bool) -> list[Answer | None]:
        gate = asyncio.Semaphore(at_once)
        timeout = aiohttp.ClientTimeout(total=1800)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

            async def one(ask: Ask) -> Answer | None:
                async with gate:
                    return await self.ask(session, ask, stay=stay)

            return await asyncio.gather(*map(one, asks))
