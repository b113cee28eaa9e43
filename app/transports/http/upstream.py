"""The connections to the endpoints: kept, shared out, and opened when none is idle."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass

from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.fleet.probe import is_ours
from app.transports.http.exchange import DroppedError, EndpointConnection, Response, Timeouts
from app.transports.http.outgoing import OutgoingRequest

__all__ = ("ConnectionLimits", "DroppedError", "OutgoingRequest", "Response", "Timeouts", "Upstream")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds on the connections to one endpoint."""

    connections: int = 0
    """Connections at once, 0 for any number."""
    idle: float = 3.0
    """Seconds an idle connection is kept: less than the 5 s after which uvicorn, under most engines, closes it."""


class Upstream:
    """Sends requests to endpoints."""

    def __init__(
        self, *, patience: Timeouts, limits: ConnectionLimits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is for the endpoints that speak HTTPS."""
        self.tls = tls
        """May be replaced at any time."""
        self.patience = patience
        """May be replaced at any time; exchanges under way keep what they began with."""
        self.limits = limits or ConnectionLimits()
        """May be replaced at any time."""
        self._lanes: dict[tuple[str, bool], _HostPool] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, endpoint: Endpoint, outgoing: OutgoingRequest, *, fresh: bool = False) -> Response:
        """An endpoint's answer that has begun; with `fresh` over a connection that was not used before.

        Raises `UnreachableError`, `DroppedError`, `UpstreamTimeoutError`; `UpstreamError` for what is not an answer.
        """
        lane = self._lanes.get((endpoint.authority, endpoint.tls)) or self._new_lane(endpoint)
        connection = None if fresh else lane.take(self.limits.idle)
        if connection is None:
            connection = await self._open(lane, endpoint, fresh=fresh)
        answer = connection.send(endpoint.name, endpoint.host_header.encode(), outgoing, self.patience)
        try:
            await answer.begun
        except BaseException:
            answer.close()
            raise
        return answer

    async def close(self) -> None:
        """Closes all connections."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for lane in tuple(self._lanes.values()):
            for connection in tuple(lane.connections):
                connection.abort()

    def _new_lane(self, endpoint: Endpoint) -> _HostPool:
        lane = self._lanes[endpoint.authority, endpoint.tls] = _HostPool(self)
        return lane

    async def _open(self, lane: _HostPool, endpoint: Endpoint, *, fresh: bool) -> EndpointConnection:
        try:
            async with asyncio.timeout(self.patience.connect):
                while self.limits.connections and lane.size >= self.limits.connections:
                    if fresh and lane.idle:
                        lane.drop(lane.idle[0])
                        continue
                    await lane.wait()
                    connection = None if fresh else lane.take(self.limits.idle)
                    if connection is not None:
                        return connection
                return await lane.connect(endpoint)
        except TimeoutError as error:
            if self.limits.connections and lane.size >= self.limits.connections:
                raise UpstreamError(endpoint.name, f"all {lane.size} connections to it are in use") from error
            raise UnreachableError(endpoint.name, "no connection to it") from error
        except ssl.SSLError as error:
            raise UpstreamError(endpoint.name, f"no TLS with it: {error.reason or error}") from error
        except UnicodeError as error:
            raise UnreachableError(endpoint.name, f"{endpoint.address} can't be a host name") from error
        except OSError as error:
            if is_ours(error):
                raise UpstreamError(endpoint.name, f"no connection from here: {error.strerror}") from error
            raise UnreachableError(endpoint.name, "no connection to it") from error

    # -- called by lanes

    def sweep_later(self) -> None:
        """Has idle connections looked through after a while."""
        if self._sweep is None and not self._closed:
            self._sweep = asyncio.get_running_loop().call_later(self.limits.idle, self._sweep_now)

    def _sweep_now(self) -> None:
        self._sweep = None
        for key, lane in tuple(self._lanes.items()):
            lane.expire(self.limits.idle)
            if lane.idle:
                self.sweep_later()
            elif lane.is_unused:
                del self._lanes[key]


class _HostPool:
    """The connections to one address."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._loop = asyncio.get_running_loop()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.connections: set[EndpointConnection] = set()
        self.idle: list[EndpointConnection] = []
        """The one used last is at the end, and is taken first: the others may then expire."""

    @property
    def size(self) -> int:
        """Connections that are open, and those that are being opened."""
        return sum(connection.is_open for connection in self.connections) + self._connecting

    @property
    def is_unused(self) -> bool:
        """Whether it has no connection, and nobody waits for one."""
        return not self.connections and not self._connecting and not self._waiting

    def take(self, idle: float) -> EndpointConnection | None:
        """An idle connection that is at most `idle` seconds old."""
        if self.idle:
            oldest = self._loop.time() - idle
            while self.idle:
                connection = self.idle.pop()
                if connection.is_open and connection.idle_since >= oldest:
                    return connection
                self.drop(connection)
        return None

    def drop(self, connection: EndpointConnection) -> None:
        """Ends a connection, which no longer counts."""
        connection.abort()
        self._lost(connection)

    def expire(self, idle: float) -> None:
        """Ends what has been idle for longer than `idle` seconds."""
        oldest = self._loop.time() - idle
        while self.idle and self.idle[0].idle_since < oldest:
            self.drop(self.idle[0])

    async def wait(self) -> None:
        """Returns when a connection is idle or gone."""
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
            tls = (self._upstream.tls or ssl.create_default_context()) if endpoint.tls else None
            if endpoint.socket is not None:
                name = endpoint.host if tls else None
                await self._loop.create_unix_connection(protocol, endpoint.socket, ssl=tls, server_hostname=name)
            else:
                await self._loop.create_connection(protocol, endpoint.address, endpoint.port, ssl=tls)
        except BaseException:
            for connection in self.connections.intersection(made):
                self.drop(connection)  # uvloop tells nobody that it is lost
            self._wake_one()
            self._upstream.sweep_later()
            raise
        finally:
            self._connecting -= 1
        return made[-1]

    def _idle(self, connection: EndpointConnection) -> None:
        self.idle.append(connection)
        self._upstream.sweep_later()
        self._wake_one()

    def _lost(self, connection: EndpointConnection) -> None:
        self.connections.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)
        self._wake_one()
        self._upstream.sweep_later()

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
