"""The connections to endpoints, one pool per host: kept, shared out, and closed when they were idle for too long.

They outlive configurations. A pool is found by its address and by the TLS that its connections were opened with, so
that no request goes over a connection that was verified by other rules than its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from functools import cached_property

from app.domain.endpoint import Endpoint
from app.transports.http.exchange import EndpointConnection
from app.transports.tls import ClientTls, client_context

_Key = tuple[str, ssl.SSLContext | None]


class HostPools:
    """All connections to endpoints."""

    def __init__(self) -> None:
        self._pools: dict[_Key, HostPool] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @cached_property
    def default_tls(self) -> ssl.SSLContext:
        """For endpoints that speak HTTPS where nothing else is configured: the system's authorities."""
        return client_context(ClientTls())

    def of(self, endpoint: Endpoint, tls: ssl.SSLContext | None) -> HostPool:
        """The pool of an endpoint's host. `tls` counts only if the endpoint speaks HTTPS; None is `default_tls`."""
        context = (tls or self.default_tls) if endpoint.tls else None
        key = (endpoint.authority, context)
        found = self._pools.get(key)
        if found is None:
            found = self._pools[key] = HostPool(self, context)
        return found

    async def close(self) -> None:
        """Closes all connections."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for pool in tuple(self._pools.values()):
            for connection in tuple(pool.connections):
                connection.abort()

    # -- called by pools

    def sweep_later(self, seconds: float) -> None:
        """Closes expired connections after `seconds`."""
        if self._sweep is None and not self._closed:
            self._sweep = asyncio.get_running_loop().call_later(seconds, self._sweep_now)

    def _sweep_now(self) -> None:
        self._sweep = None
        for key, pool in tuple(self._pools.items()):
            pool.expire()
            if pool.idle:
                self.sweep_later(pool.keep_alive)
            elif pool.is_unused:
                del self._pools[key]


class HostPool:
    """The connections to one host."""

    def __init__(self, pools: HostPools, tls: ssl.SSLContext | None) -> None:
        self._pools = pools
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.connections: set[EndpointConnection] = set()
        self.idle: list[EndpointConnection] = []
        """The one used last is at the end and is taken first, so that the others may expire."""
        self.keep_alive = 0.0
        """Seconds an idle connection is kept, as of the last request."""

    @property
    def size(self) -> int:
        """Connections that are open or being opened."""
        return sum(connection.is_open for connection in self.connections) + self._connecting

    @property
    def is_unused(self) -> bool:
        """Whether it has no connection and nobody waits for one."""
        return not self.connections and not self._connecting and not self._waiting

    def take(self) -> EndpointConnection | None:
        """An idle connection that has not expired."""
        if self.idle:
            oldest = self._loop.time() - self.keep_alive
            while self.idle:
                connection = self.idle.pop()
                if connection.is_open and connection.idle_since >= oldest:
                    return connection
                self.drop(connection)
        return None

    def drop(self, connection: EndpointConnection) -> None:
        """Closes a connection, which no longer counts."""
        connection.abort()
        self._lost(connection)

    def expire(self) -> None:
        """Closes the connections that were idle for too long."""
        oldest = self._loop.time() - self.keep_alive
        while self.idle and self.idle[0].idle_since < oldest:
            self.drop(self.idle[0])

    async def wait(self) -> None:
        """Returns when a connection is idle or closed."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # it was this one's turn
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    async def connect(self, endpoint: Endpoint) -> EndpointConnection:
        """A new connection. Raises `OSError`."""
        made: list[EndpointConnection] = []

        def protocol() -> EndpointConnection:
            connection = EndpointConnection(self._loop, self.connections.add, self._idle, self._lost)
            made.append(connection)
            return connection

        self._connecting += 1
        try:
            tls = self._tls
            if endpoint.socket is not None:
                name = endpoint.host if tls else None
                await self._loop.create_unix_connection(protocol, endpoint.socket, ssl=tls, server_hostname=name)
            else:
                await self._loop.create_connection(protocol, endpoint.address, endpoint.port, ssl=tls)
        except BaseException:
            for connection in self.connections.intersection(made):
                self.drop(connection)  # uvloop does not report that it is lost
            self._wake_one()
            self._pools.sweep_later(self.keep_alive)
            raise
        finally:
            self._connecting -= 1
        return made[-1]

    def _idle(self, connection: EndpointConnection) -> None:
        self.idle.append(connection)
        self._pools.sweep_later(self.keep_alive)
        self._wake_one()

    def _lost(self, connection: EndpointConnection) -> None:
        self.connections.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)
        self._wake_one()
        self._pools.sweep_later(self.keep_alive)

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
