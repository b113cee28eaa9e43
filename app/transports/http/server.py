"""The HTTP server of the process: its open connections, which outlive configurations, and how it drains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from app.transports.admission import Admission
from app.transports.http.connection import ClientConnection
from app.transports.http.service import HttpService

FLUSH = 1.0
"""Seconds for connections to send what is left of their responses."""


class HttpServer:
    """Serves each request by the configuration that is current when it arrives."""

    def __init__(self, service: Callable[[], HttpService]) -> None:
        """`service` gives the current one."""
        self._service = service
        self._connections: set[ClientConnection] = set()
        self.admission = Admission()

    def connection(self) -> ClientConnection:
        """The protocol of a new connection."""
        return ClientConnection(
            loop=asyncio.get_running_loop(),
            service=self._service,
            admission=self.admission,
            connections=self._connections,
        )

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Lets requests finish for `timeout` seconds, then aborts them. Stop listening first."""
        self.admission.draining = True
        for connection in tuple(self._connections):
            connection.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.admission.ended(), timeout)
            await self._closed(FLUSH)
        for connection in tuple(self._connections):
            connection.abort()
        await self._closed(FLUSH)

    async def _closed(self, seconds: float) -> None:
        open_ones = [connection.closed for connection in self._connections]
        if open_ones:
            await asyncio.wait(open_ones, timeout=seconds)
