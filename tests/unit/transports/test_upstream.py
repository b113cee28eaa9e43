"""The connection to endpoints: which failure is which."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from app.domain.errors import UpstreamError, UpstreamTimeoutError
from app.transports.http.upstream import LARGE_BODY, DroppedError, UnreachableError, Upstream
from pointsman.testing import make_endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from app.domain.endpoint import Endpoint

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


@asynccontextmanager
async def endpoint(serve: Serve) -> AsyncIterator[Endpoint]:
    """An endpoint that does `serve` with each connection and closes it."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        async with asyncio.timeout(20):
            yield make_endpoint("e", port=server.sockets[0].getsockname()[1])
    finally:
        server.close()  # without waiting: from Python 3.12 on that waits for connections that hang on purpose


@asynccontextmanager
async def upstream(*, response: float = 20.0, idle: float = 20.0) -> AsyncIterator[Upstream]:
    made = Upstream(connect_timeout=20.0, response_timeout=response, idle_timeout=idle)
    try:
        yield made
    finally:
        await made.close()


async def answer(one: Upstream, to: Endpoint, body: bytes = b"") -> bytes:
    response = await one.send(to, "POST", "/v1/x?y=%2F", {"host": "h"}, body)
    try:
        return b"".join([piece async for piece in one.body(to, response)])
    finally:
        response.close()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def hang(reader: asyncio.StreamReader) -> None:
    await reader.read()


async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(HEAD + b"done")
    await writer.drain()
    await hang(reader)


async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await hang(reader)


async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
    await writer.drain()


async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(HEAD + b"do")
    await writer.drain()


async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(HEAD + b"do")
    await writer.drain()
    await hang(reader)


async def test_an_answer_comes_whole() -> None:
    async with endpoint(whole) as to, upstream() as one:
        assert await answer(one, to) == b"done"


async def test_a_request_is_sent_as_it_came() -> None:
    heads: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await head_of(reader))
        writer.write(HEAD + b"done")
        await writer.drain()

    async with endpoint(record) as to, upstream() as one:
        await answer(one, to)
    assert heads[0].lower() == b"post /v1/x?y=%2f http/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "size",
    [pytest.param(5, id="small"), pytest.param(LARGE_BODY, id="just small"), pytest.param(3_000_000, id="large")],
)
async def test_a_body_is_sent_whole_with_its_length(size: int) -> None:
    received = asyncio.get_running_loop().create_future()

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await head_of(reader)
        received.set_result((b"content-length: %d" % size in head.lower(), await reader.readexactly(size)))
        writer.write(HEAD + b"done")
        await writer.drain()

    async with endpoint(record) as to, upstream() as one:
        await answer(one, to, b"x" * size)
    assert await received == (True, b"x" * size)


async def test_where_nothing_listens_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        to = make_endpoint("e", port=taken.getsockname()[1])
        async with upstream() as one:
            with pytest.raises(UnreachableError):
                await answer(one, to)


@pytest.mark.parametrize("serve", [pytest.param(close_at_once, id="closed"), pytest.param(no_http, id="no HTTP")])
async def test_without_an_answer_the_request_is_dropped(serve: Serve) -> None:
    async with endpoint(serve) as to, upstream() as one:
        with pytest.raises(DroppedError) as caught:
            await answer(one, to)
    assert (caught.value.endpoint, caught.value.reused) == ("e", False)


async def test_a_request_dropped_on_an_idle_connection_says_so() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(HEAD + b"done")
        await writer.drain()
        await head_of(reader)

    async with endpoint(once) as to, upstream() as one:
        await answer(one, to)
        with pytest.raises(DroppedError) as caught:
            await answer(one, to)
    assert caught.value.reused


async def test_an_answer_that_does_not_begin_is_a_timeout() -> None:
    async with endpoint(say_nothing) as to, upstream(response=0.05) as one:
        with pytest.raises(UpstreamTimeoutError, match=r"0\.05 s"):
            await answer(one, to)


async def test_an_answer_that_breaks_off_is_a_failure() -> None:
    async with endpoint(break_off) as to, upstream() as one:
        with pytest.raises(UpstreamError, match="broke off"):
            await answer(one, to)


async def test_an_answer_that_stalls_is_a_failure() -> None:
    async with endpoint(stall) as to, upstream(idle=0.05) as one:
        with pytest.raises(UpstreamError, match=r"no more for 0\.05 s"):
            await answer(one, to)


async def test_an_upstream_that_was_not_used_can_be_closed() -> None:
    async with upstream() as one:
        assert one._session is None


async def test_a_want_of_something_here_is_not_the_endpoints_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_more(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", no_more)
    async with upstream() as one:
        with pytest.raises(UpstreamError, match="no connection from here: Too many open files") as caught:
            await answer(one, make_endpoint())
    assert not isinstance(caught.value, UnreachableError)
