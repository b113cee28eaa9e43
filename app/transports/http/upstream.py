"""The connection to the endpoints: sends a request, tells failures before the answer from those within."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from types import SimpleNamespace

import aiohttp
from yarl import URL

from app.domain.endpoint import Endpoint
from app.domain.errors import UpstreamError, UpstreamTimeoutError
from app.fleet.probe import is_ours

IDLE_CONNECTION = 3.0
"""Seconds an idle connection is kept: less than the 5 s after which uvicorn, under most engines, closes it."""

LARGE_BODY = 512 * 1024
"""Bytes from which a body is not handed over in one piece."""


class UnreachableError(UpstreamError):
    """Nothing answers at the endpoint's address."""


class DroppedError(UpstreamError):
    """The endpoint closed the connection without an answer. `reused`: it had been idle in our pool before."""

    def __init__(self, endpoint: str, cause: str, *, reused: bool) -> None:
        super().__init__(endpoint, cause)
        self.reused = reused


class Upstream:
    """Keeps connections to all endpoints."""

    def __init__(self, *, connect_timeout: float, response_timeout: float, idle_timeout: float) -> None:
        """Timeouts in seconds: for a connection, for the head of an answer, for the next piece of its body."""
        self.wait_for(connect=connect_timeout, response=response_timeout, idle=idle_timeout)
        self._session: aiohttp.ClientSession | None = None

    def wait_for(self, *, connect: float, response: float, idle: float) -> None:
        """Other timeouts from now on, in seconds."""
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect)
        self._response_timeout, self._idle_timeout = response, idle

    async def send(
        self, endpoint: Endpoint, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        """The head of the endpoint's answer; the body is yet to be read, as it is on the wire.

        Raises `UnreachableError`, `DroppedError` or `UpstreamTimeoutError`.
        """
        url = URL(f"http://{endpoint.authority}{path}", encoded=True)
        seen = {"reused": False}
        try:
            async with asyncio.timeout(self._response_timeout):
                return await self._open_session().request(
                    method,
                    url,
                    headers=headers,
                    data=_payload(body),
                    allow_redirects=False,
                    timeout=self._timeout,
                    trace_request_ctx=seen,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            if isinstance(error, aiohttp.ClientConnectorError) and is_ours(error.os_error):
                raise UpstreamError(endpoint.name, f"no connection from here: {error.os_error.strerror}") from error
            raise UnreachableError(endpoint.name, "no connection to it") from error
        except TimeoutError as error:
            cause = f"no answer within {self._response_timeout:g} s"
            raise UpstreamTimeoutError(endpoint.name, cause) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DroppedError(endpoint.name, "it closed the connection", reused=seen["reused"]) from error

    async def body(self, endpoint: Endpoint, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The pieces of the answer's body as they come in. Raises `UpstreamError` when it breaks off or stalls."""
        while True:
            try:
                async with asyncio.timeout(self._idle_timeout):
                    piece = await answer.content.readany()
            except TimeoutError as error:
                raise UpstreamError(endpoint.name, f"no more for {self._idle_timeout:g} s") from error
            except (aiohttp.ClientError, OSError) as error:
                raise UpstreamError(endpoint.name, "it broke off its answer") from error
            if not piece:
                return
            yield piece

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig(trace_config_ctx_factory=_Seen)
            trace.on_connection_reuseconn.append(_reused)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION, ttl_dns_cache=10),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                trace_configs=[trace],
                max_line_size=65536,
                max_field_size=65536,
            )
        return self._session


def _payload(body: bytes) -> bytes | BytesIO | None:
    """A large body as a file, which aiohttp sends piece by piece."""
    return BytesIO(body) if len(body) > LARGE_BODY else body or None


class _Seen(SimpleNamespace):
    """What a request's trace writes to: the mapping that came with the request."""

    trace_request_ctx: dict[str, bool]


async def _reused(_: aiohttp.ClientSession, seen: SimpleNamespace, __: object) -> None:
    seen.trace_request_ctx["reused"] = True
