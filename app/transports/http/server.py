"""Listens, and drains when told to stop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from contextlib import suppress

from app.transports.admission import Admission
from app.transports.http.connection import ClientConnection, Serve
from app.transports.http.incoming import IncomingRequest
from app.transports.http.limits import HttpLimits
from app.transports.http.response_writer import ResponseWriter
from app.transports.listening import Address, Listener, Opened, opened

BACKLOG = 1024
"""Connections that may wait to be accepted."""

FLUSH = 1.0
"""Seconds that connections have to get rid of what was answered, once all is answered."""


class HttpServer:
    """An HTTP server whose requests all go to `handler`, but those for the model list."""

    def __init__(
        self,
        *,
        listen: Address,
        admission: Admission[HttpLimits],
        handler: Serve,
        models: Serve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._admission = admission
        self._handler = handler
        self._models = models
        self.tls = tls
        """What clients are met with; certificates that are loaded into it count from then on."""
        self._connections: set[ClientConnection] = set()
        self.listener = Listener(listen, self._open)
        """What moves it to another address."""

    @property
    def port(self) -> int:
        """The port in use, once started."""
        return self.listener.port

    async def start(self) -> None:
        """Opens the port. Raises `OSError` if it can't."""
        await self.listener.start()

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Closes the listener, lets requests end for `timeout` seconds, then breaks them off."""
        self._admission.draining = True
        await self.listener.close()
        for connection in tuple(self._connections):
            connection.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._admission.ended(), timeout)
            await self._gone(FLUSH)
        for connection in tuple(self._connections):
            connection.abort()
        await self._gone(FLUSH)

    async def _gone(self, seconds: float) -> None:
        open_ones = [connection.closed for connection in self._connections]
        if open_ones:
            await asyncio.wait(open_ones, timeout=seconds)

    async def _open(self, address: Address) -> Opened:
        loop = asyncio.get_running_loop()

        def connection() -> ClientConnection:
            return ClientConnection(
                loop=loop, serve=self._serve, admission=self._admission, connections=self._connections
            )

        if address.socket is not None:
            server: asyncio.AbstractServer = await loop.create_unix_server(
                connection, address.socket, backlog=BACKLOG, ssl=self.tls
            )
        else:
            server = await loop.create_server(connection, address.bind, address.port, backlog=BACKLOG, ssl=self.tls)
        return opened(server, address)

    def _serve(self, incoming: IncomingRequest, writer: ResponseWriter) -> Awaitable[None]:
        head = incoming.head
        if head is not None and head.method == "GET" and incoming.error is None and _is_model_list(head.target):
            return self._models(incoming, writer)
        return self._handler(incoming, writer)


def _is_model_list(target: str) -> bool:
    return target.partition("?")[0] == "/v1/models"
