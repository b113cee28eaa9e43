"""The application in this process, on free ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from app.settings.layers import Sources
from containers.application import ApplicationContainer
from containers.assembly import check

FREE_PORTS = """
transports:
  http: {bind: 127.0.0.1, port: 0}
  admin: {bind: 127.0.0.1, port: 0}
observability: {logging: {level: error}}
"""


@dataclass(frozen=True)
class Running:
    """A running application and a client for it."""

    container: ApplicationContainer
    client: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.container.http_server().port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.container.admin_server().port}"

    def chat(self, content: str = "hi", **fields: object) -> aiohttp.client._RequestContextManager:
        """A chat request, to be entered with `async with`."""
        body = {"model": "demo", "messages": [{"role": "user", "content": content}], **fields}
        return self.client.post(f"{self.url}/v1/chat/completions", json=body)


@asynccontextmanager
async def running(*layers: str, ports: Sequence[int] = (), sets: Sequence[str] = ()) -> AsyncIterator[Running]:
    """`builtin:default`, the files `layers` over it, `ports` as endpoints `e0`, `e1`, …, and `sets`."""
    endpoints = ", ".join(f"{{name: e{i}, address: 127.0.0.1, port: {port}}}" for i, port in enumerate(ports))
    text = FREE_PORTS + f"\npool: {{endpoints: [{endpoints}], scrape: {{interval: 50ms}}}}\n"
    container = check(Sources(("builtin:default", *layers), text, {}, sets)).container()
    lifecycle = container.lifecycle()
    try:
        async with asyncio.timeout(20):
            await lifecycle.start()
        async with aiohttp.ClientSession(auto_decompress=False) as client:
            yield Running(container, client)
    finally:
        await lifecycle.stop()


async def until(condition: Callable[[], object], within: float = 10.0) -> None:
    """Waits until `condition()` holds; a test that waits too long fails."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)
