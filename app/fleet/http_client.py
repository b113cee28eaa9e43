"""Short requests to model servers: metrics pages and model lists."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from ssl import SSLContext

import aiohttp

READ_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer that are read at most."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes


class AioHttpClient:
    """`HttpClient` over aiohttp. The session is opened at first use, inside the running loop."""

    def __init__(self, *, connections_per_host: int = 2) -> None:
        self._connections_per_host = connections_per_host
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self,
        url: str,
        *,
        timeout: float,  # noqa: ASYNC109
        tls: SSLContext | bool = True,
        socket: str | None = None,
    ) -> Response:
        """Reads `url` whole, redirects not followed; over the Unix socket of that path if one is given.

        Raises `ConnectionError` when nothing answered there, `TimeoutError` when the answer took over `timeout`
        seconds, `OSError` when it broke off or is larger than `READ_LIMIT`.
        """
        try:
            async with asyncio.timeout(timeout):
                if socket is None:
                    return await _read(self._open_session(), url, tls)
                async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket)) as session:
                    return await _read(session, url, tls)
        except aiohttp.ClientConnectorError as error:
            raise ConnectionError(str(error.os_error.strerror or error.os_error)) from error
        except (aiohttp.ClientError, UnicodeError) as error:  # a host name that can't be one is a UnicodeError
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=self._connections_per_host, keepalive_timeout=15)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


async def _read(session: aiohttp.ClientSession, url: str, tls: SSLContext | bool) -> Response:
    async with session.get(url, ssl=tls, allow_redirects=False) as response:
        body = await response.content.read(READ_LIMIT + 1)
        while len(body) <= READ_LIMIT and (more := await response.content.read(READ_LIMIT)):
            body += more
        if len(body) > READ_LIMIT:
            raise OSError(f"the answer is larger than {READ_LIMIT} bytes")
        return Response(response.status, body)
