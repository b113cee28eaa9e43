"""Short requests to model servers, over the connection code that the router itself uses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import urlsplit

from app.domain.addresses import UNIX
from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.transports.http.codec.events import End
from app.transports.http.host_pools import HostPools
from app.transports.http.response_writer import Source
from app.transports.http.upstream import (
    ConnectionLimits,
    DroppedError,
    OutgoingRequest,
    Response,
    Timeouts,
    Upstream,
)
from app.transports.tls import ClientTls, client_context

READ_LIMIT = 16 * 1024 * 1024
"""Most bytes of a response."""

CONNECTIONS = 2
"""Connections to one server at once."""

IDLE = 15.0
"""Seconds an idle connection is kept: longer than the usual time between two reads of a metrics page."""

_LONG = 3600.0
_TIMEOUTS = Timeouts(_LONG, _LONG, _LONG)
_LIMITS = ConnectionLimits(CONNECTIONS, IDLE)
_HEADERS = [(b"accept", b"*/*"), (b"user-agent", b"pointsman")]


@dataclass(frozen=True, slots=True)
class BufferedResponse:
    """A response that was read completely."""

    status: int
    body: bytes


class PooledHttpClient:
    """`HttpClient` over connections that are kept."""

    def __init__(self) -> None:
        self._pools = HostPools()

    async def get(
        self,
        url: str,
        *,
        timeout: float,  # noqa: ASYNC109
        tls: ssl.SSLContext | bool = True,
        socket: str | None = None,
    ) -> BufferedResponse:
        """Reads `url` whole, redirects not followed; over the Unix socket of that path if one is given.

        Raises `ConnectionError` when nothing accepts the connection, `TimeoutError` after `timeout` seconds, `OSError`
        when the response is incomplete or larger than `READ_LIMIT`.
        """
        server, target = _split(url, socket)
        context = tls if isinstance(tls, ssl.SSLContext) else None if tls else self._unverified
        upstream = Upstream(pools=self._pools, timeouts=_TIMEOUTS, limits=_LIMITS, tls=context)
        try:
            async with asyncio.timeout(timeout):
                return await self._get(upstream, server, target)
        except UnreachableError as error:
            cause = error.__cause__
            raise ConnectionError(getattr(cause, "strerror", None) or str(cause) or error.cause) from error
        except UpstreamError as error:
            raise OSError(error.cause) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._pools.close()

    @cached_property
    def _unverified(self) -> ssl.SSLContext:
        return client_context(ClientTls(insecure_skip_verify=True))

    @staticmethod
    async def _get(upstream: Upstream, server: Endpoint, target: str) -> BufferedResponse:
        request = OutgoingRequest("GET", target, _HEADERS, b"", says_length=False)
        try:
            response = await upstream.send(server, request)
        except DroppedError as dropped:
            if not dropped.reused:
                raise
            response = await upstream.send(server, request, fresh=True)
        try:
            return BufferedResponse(response.head.status, await _Collector().body_of(response))
        finally:
            response.close()


class _Collector:
    """Collects a response body."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._response: Response | None = None

    async def body_of(self, response: Response) -> bytes:
        """The whole body. Raises `OSError` if it is too large, `UpstreamError` if it is incomplete."""
        self._response = response
        rest = response.pass_on(self)
        if rest is not None:
            await rest
        if self._size > READ_LIMIT:
            raise OSError(f"the response is larger than {READ_LIMIT} bytes")
        return b"".join(self._pieces)

    def write(self, pieces: Sequence[bytes], end: End | None = None) -> None:
        """More of the body."""
        self._pieces += pieces
        self._size += sum(map(len, pieces))
        if self._size > READ_LIMIT and self._response is not None:
            self._pieces.clear()
            self._response.fail(OSError(f"the response is larger than {READ_LIMIT} bytes"))

    def attach(self, source: Source) -> None:
        """It takes all there is, at once."""


@lru_cache(maxsize=4096)
def _split(url: str, socket: str | None) -> tuple[Endpoint, str]:
    """The server that a URL names, and the target there."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    target = parts.path or "/"
    if parts.query:
        target = f"{target}?{parts.query}"
    if socket is not None:
        return Endpoint(url, f"{UNIX}{socket}", 0, tls=tls), target
    return Endpoint(url, parts.hostname or "", parts.port or (443 if tls else 80), tls=tls), target
