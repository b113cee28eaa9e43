"""Model servers with scripted responses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request as the engine received it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeEngine:
    """A model server that responds with `answer` to everything except requests for its metrics and model list."""

    answer: Handle
    models: tuple[str, ...] = ("demo",)
    port: int = 0
    metrics_hang: bool = False
    seen: list[Seen] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.method, request.raw_path, headers, body))
        return await self.answer(request)

    async def list_models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})

    async def metrics(self, _: web.Request) -> web.Response:
        if self.metrics_hang:
            await asyncio.Event().wait()
        return web.Response(status=404)


@asynccontextmanager
async def fake_engine(answer: Handle, *models: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeEngine]:
    """A running `FakeEngine`, on any free port."""
    engine = FakeEngine(answer, models or ("demo",))
    app = web.Application(client_max_size=0)
    app.router.add_get("/v1/models", engine.list_models, allow_head=False)
    app.router.add_get("/metrics", engine.metrics)
    app.router.add_route("*", "/{path:.*}", engine.handle)
    runner = web.AppRunner(app, handler_cancellation=True, auto_decompress=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    engine.port = runner.addresses[0][1]
    try:
        yield engine
    finally:
        await runner.cleanup()


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_engine(talk: Talk) -> AsyncIterator[int]:
    """A server whose POST requests are handled by `talk`, on raw bytes. It has no metrics and no models. Yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET "):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            else:
                await talk(reader, writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def says(text: str = "hello", *, status: int = 200, **headers: str) -> Handle:
    """Responds with a fixed text."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status, headers=headers)

    return answer
