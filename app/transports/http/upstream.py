"""Sends requests to endpoints over pooled connections."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.fleet.probe import is_ours
from app.transports.http.exchange import EndpointConnection
from app.transports.http.host_pools import HostPool, HostPools
from app.transports.http.outgoing import OutgoingRequest
from app.transports.http.response import DroppedError, OnHead, Response, Timeouts

__all__ = ("ConnectionLimits", "DroppedError", "OutgoingRequest", "Response", "Timeouts", "Upstream")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds on the connections to one endpoint."""

    connections: int = 0
    """Concurrent connections, 0 for no limit."""
    keep_alive: float = 3.0
    """Seconds an idle connection is kept: less than the 5 s after which uvicorn, under most engines, closes it."""


class Upstream:
    """Sends requests under one configuration's timeouts, limits and TLS."""

    def __init__(
        self,
        *,
        pools: HostPools,
        timeouts: Timeouts,
        limits: ConnectionLimits | None = None,
        tls: ssl.SSLContext | None = None,
        hold_stream_head: bool = False,
    ) -> None:
        """`tls` is for the endpoints that speak HTTPS. With `hold_stream_head`, `send` returns an event stream at the
        first bytes of its body, and not at its head."""
        self.timeouts = timeouts
        self.limits = limits or ConnectionLimits()
        self._pools = pools
        self._tls = tls
        self._hold_stream_head = hold_stream_head

    async def send(
        self, endpoint: Endpoint, outgoing: OutgoingRequest, *, fresh: bool = False, on_head: OnHead | None = None
    ) -> Response:
        """An endpoint's response whose head has arrived; with `fresh` over a connection that was not used before.

        `on_head` is called with the status when the head arrives.

        Raises `UnreachableError`, `DroppedError`, `UpstreamTimeoutError`; `UpstreamError` for an invalid response.
        """
        pool = self._pools.of(endpoint, self._tls)
        pool.keep_alive = self.limits.keep_alive
        connection = None if fresh else pool.take()
        if connection is None:
            connection = await self._open(pool, endpoint, fresh=fresh)
        response = connection.send(
            endpoint.name,
            endpoint.host_header.encode(),
            outgoing,
            self.timeouts,
            on_head=on_head,
            hold_stream_head=self._hold_stream_head,
        )
        try:
            await response.begun
        except BaseException:
            response.close()
            raise
        return response

    async def _open(self, pool: HostPool, endpoint: Endpoint, *, fresh: bool) -> EndpointConnection:
        most = self.limits.connections
        try:
            async with asyncio.timeout(self.timeouts.connect):
                while most and pool.size >= most:
                    if fresh and pool.idle:
                        pool.drop(pool.idle[0])
                        continue
                    await pool.wait()
                    connection = None if fresh else pool.take()
                    if connection is not None:
                        return connection
                return await pool.connect(endpoint)
        except TimeoutError as error:
            if most and pool.size >= most:
                raise UpstreamError(endpoint.name, f"all {pool.size} connections to it are in use") from error
            raise UnreachableError(endpoint.name, "no connection to it") from error
        except ssl.SSLError as error:
            raise UpstreamError(endpoint.name, f"TLS failed: {error.reason or error}") from error
        except UnicodeError as error:
            raise UnreachableError(endpoint.name, f"{endpoint.address} can't be a host name") from error
        except OSError as error:
            if is_ours(error):
                raise UpstreamError(endpoint.name, f"no connection from here: {error.strerror}") from error
            raise UnreachableError(endpoint.name, "no connection to it") from error
