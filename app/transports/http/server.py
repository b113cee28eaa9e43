"""Listens, and drains when told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from app.domain.errors import ShuttingDownError
from app.transports.http.handler import refuse, request_id_of
from app.transports.listening import Listener

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Listen:
    """Where and how to listen."""

    bind: str
    port: int
    header_bytes: int
    """Longest header or request line."""
    keep_alive: float
    """Seconds that an idle connection is kept."""


class HttpServer:
    """An HTTP server whose requests all go to `handler`, but those for the model list."""

    def __init__(self, *, listen: Listen, handler: Handle, models: Handle) -> None:
        self._listen = listen
        self._handler = handler
        self._models = models
        self._runner: web.AppRunner | None = None
        self.listener = Listener(listen.bind, listen.port)
        """What moves it to another address."""
        self._serving = 0
        self._idle = asyncio.Event()
        self._draining = False

    @property
    def port(self) -> int:
        """The port in use, once started."""
        return self.listener.port

    async def start(self) -> None:
        """Opens the port. Raises `OSError` if it can't."""
        app = web.Application(client_max_size=0)
        app.router.add_get("/v1/models", self._tracked(self._models), allow_head=False)
        app.router.add_route("*", "/{path:.*}", self._tracked(self._handler))
        self._runner = web.AppRunner(
            app,
            handle_signals=False,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            keepalive_timeout=self._listen.keep_alive,
            max_line_size=self._listen.header_bytes,
            max_field_size=self._listen.header_bytes,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        await self.listener.start(self._runner)

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Closes the listener, lets requests end for `timeout` seconds, then breaks them off."""
        self._draining = True
        await self.listener.close()
        if self._serving:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout)
        if self._runner is not None:
            await self._runner.cleanup()

    def _tracked(self, handle: Handle) -> Handle:
        async def tracked(request: web.Request) -> web.StreamResponse:
            if self._draining:  # on a connection that was open before
                refusal = refuse(ShuttingDownError(), request_id_of(request))
                refusal.force_close()
                return refusal
            self._serving += 1
            self._idle.clear()
            try:
                response = await handle(request)
                if self._draining:
                    response.force_close()
                return response
            finally:
                self._serving -= 1
                if not self._serving:
                    self._idle.set()

        return tracked
