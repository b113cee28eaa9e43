"""The application in this process, on free ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from app.settings.layers import Sources
from app.transports.listening import ADMIN, HTTP
from containers.application import Application, load
from containers.generation import GenerationContainer
from containers.process import ProcessContainer

FREE_PORTS = """
transports:
  http: {bind: 127.0.0.1, port: 0}
  admin: {bind: 127.0.0.1, port: 0}
observability: {logging: {level: error}}
"""


@dataclass(frozen=True)
class Running:
    """A running application and a client for it."""

    application: Application
    client: aiohttp.ClientSession

    @property
    def process(self) -> ProcessContainer:
        return self.application.process

    @property
    def generation(self) -> GenerationContainer:
        """The container of the current generation."""
        return self.application.generation

    @property
    def port(self) -> int:
        return self.process.sockets().port(HTTP)

    @property
    def admin_port(self) -> int:
        return self.process.sockets().port(ADMIN)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109
        """Stops the HTTP server as the process does when it shuts down."""
        self.process.http_server().admission.draining = True
        self.process.sockets().close(HTTP)
        await self.process.http_server().drain(timeout)

    def chat(self, content: str = "hi", **fields: object) -> aiohttp.client._RequestContextManager:
        """A chat request, for `async with`."""
        body = {"model": "demo", "messages": [{"role": "user", "content": content}], **fields}
        return self.client.post(f"{self.url}/v1/chat/completions", json=body)


@asynccontextmanager
async def running(*layers: str, ports: Sequence[int] = (), sets: Sequence[str] = ()) -> AsyncIterator[Running]:
    """`builtin:default`, overridden by the files `layers`, with `ports` as the endpoints `e0`, `e1`, …, and with `sets`."""
    endpoints = ", ".join(f"{{name: e{i}, address: 127.0.0.1, port: {port}}}" for i, port in enumerate(ports))
    text = FREE_PORTS + f"\npool: {{endpoints: [{endpoints}], scrape: {{interval: 50ms}}}}\n"
    application = Application(load(Sources(("builtin:default", *layers), text, {}, sets)))
    async with serving(application) as app:
        yield app


@asynccontextmanager
async def serving(application: Application) -> AsyncIterator[Running]:
    """`application`, started, with a client."""
    runner = application.runner()
    try:
        async with asyncio.timeout(20):
            await runner.start()
        async with aiohttp.ClientSession(auto_decompress=False) as client:
            yield Running(application, client)
    finally:
        await runner.stop()


async def until(condition: Callable[[], object], within: float = 10.0) -> None:
    """Waits until `condition()` is true. Raises `TimeoutError` after `within` seconds."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)
