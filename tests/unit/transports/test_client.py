"""Short requests over loopback, and the probe of an address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from app.fleet.probe import connect
from app.transports.http import client as http_client
from app.transports.http.client import BufferedResponse, PooledHttpClient
from pointsman.testing import make_endpoint

BAD_HOSTS = [pytest.param("gpu..local", id="empty label"), pytest.param("x" * 64 + ".local", id="label too long")]


@asynccontextmanager
async def serving(*pieces: bytes, hangs: bool = False) -> AsyncIterator[str]:
    """A server that writes `pieces` once it has read a request's head, then closes or hangs; its address."""
    ended = asyncio.Event()
    tasks: list[asyncio.Task[None] | None] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.writelines(pieces)
            if hangs:
                await ended.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    finally:
        server.close()  # without waiting: from Python 3.12 on that waits for connections that hang on purpose
        ended.set()
    await asyncio.gather(*filter(None, tasks))


@pytest.fixture
async def client() -> AsyncIterator[PooledHttpClient]:
    """A client that is closed at the end."""
    client = PooledHttpClient()
    yield client
    await client.close()


def unused_port() -> int:
    """A port of loopback at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def whole(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param(whole(b"load 1\n"), BufferedResponse(200, b"load 1\n"), id="page"),
        pytest.param(whole(b""), BufferedResponse(200, b""), id="empty page"),
        pytest.param(whole(b"gone", "404 Not Found"), BufferedResponse(404, b"gone"), id="not found"),
        pytest.param(
            whole(b"", "302 Found", "Location: /x"), BufferedResponse(302, b""), id="redirect is not followed"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            BufferedResponse(200, b"abc"),
            id="in chunks",
        ),
    ],
)
async def test_a_response_is_read_whole(client: PooledHttpClient, response: bytes, expected: BufferedResponse) -> None:
    async with serving(response) as url:
        assert await client.get(url, timeout=10) == expected


async def test_a_response_that_arrives_in_pieces_is_read_whole(client: PooledHttpClient) -> None:
    body = bytes(range(256)) * 8000
    async with serving(whole(body)) as url:
        assert (await client.get(url, timeout=10)).body == body


async def test_a_client_may_be_used_again(client: PooledHttpClient) -> None:
    async with serving(whole(b"load 1\n", "200 OK", "Connection: close")) as url:
        assert await client.get(url, timeout=10) == await client.get(url, timeout=10)


async def test_an_address_where_nothing_listens_is_a_connection_error(client: PooledHttpClient) -> None:
    with pytest.raises(ConnectionError, match=r".+"):
        await client.get(f"http://127.0.0.1:{unused_port()}/", timeout=10)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="no head"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"], id="half a body"),
    ],
)
async def test_a_response_that_takes_too_long_is_a_timeout(client: PooledHttpClient, pieces: list[bytes]) -> None:
    async with serving(*pieces, hangs=True) as url:
        with pytest.raises(TimeoutError):
            await client.get(url, timeout=0.05)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="no response"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"], id="half a body"),
        pytest.param([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"], id="half a chunk"),
        pytest.param([b"220 mail.example.org ESMTP\r\n\r\n"], id="not HTTP"),
    ],
)
async def test_a_response_that_is_incomplete_is_an_os_error(client: PooledHttpClient, pieces: list[bytes]) -> None:
    async with serving(*pieces) as url:
        with pytest.raises(OSError, match=r".+") as caught:
            await client.get(url, timeout=10)
    assert not isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize(("size", "fits"), [pytest.param(10, True, id="limit"), pytest.param(11, False, id="over it")])
async def test_a_response_over_the_limit_is_an_os_error(
    client: PooledHttpClient, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
) -> None:
    monkeypatch.setattr(http_client, "READ_LIMIT", 10)
    async with serving(whole(b"x" * size)) as url:
        if fits:
            assert await client.get(url, timeout=10) == BufferedResponse(200, b"x" * size)
        else:
            with pytest.raises(OSError, match="larger than 10 bytes"):
                await client.get(url, timeout=10)


@pytest.mark.parametrize("host", BAD_HOSTS)
async def test_a_invalid_host_name_is_an_os_error(client: PooledHttpClient, host: str) -> None:
    with pytest.raises(OSError, match=r".+"):
        await client.get(f"http://{host}:80/", timeout=10)


async def test_a_client_that_was_not_used_can_be_closed() -> None:
    client = PooledHttpClient()
    await client.close()
    assert not client._pools._pools


# -- the probe


async def test_a_probe_of_an_address_that_listens_succeeds() -> None:
    async with serving() as url:
        await connect(make_endpoint(port=int(url.split(":")[2].split("/")[0])), 10)


async def test_a_probe_of_an_address_where_nothing_listens_is_refused() -> None:
    with pytest.raises(ConnectionRefusedError):
        await connect(make_endpoint(port=unused_port()), 10)


async def test_a_probe_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", hang)
    with pytest.raises(TimeoutError):
        await connect(make_endpoint(), 0.001)


@pytest.mark.parametrize("host", BAD_HOSTS)
async def test_a_probe_of_a_invalid_host_name_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError, match=r".+"):
        await connect(make_endpoint(address=host), 10)
