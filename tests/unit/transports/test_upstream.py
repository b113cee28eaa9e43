"""The connection to endpoints: which failure is which."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.errors import UnreachableError, UpstreamError, UpstreamTimeoutError
from app.transports.http.codec.events import End
from app.transports.http.upstream import (
    ConnectionLimits,
    DroppedError,
    OutgoingRequest,
    Response,
    Timeouts,
    Upstream,
)
from pointsman.testing import make_endpoint
from tests.support.running import until

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
async def upstream(
    *, connect: float = 20.0, response: float = 20.0, idle: float = 20.0, limits: ConnectionLimits | None = None
) -> AsyncIterator[Upstream]:
    made = Upstream(patience=Timeouts(connect, response, idle), limits=limits or ConnectionLimits(idle=20.0))
    try:
        yield made
    finally:
        await made.close()


class Writer:
    """The client's side."""

    def __init__(self) -> None:
        self.got = b""

    def write(self, pieces: list[bytes], end: End | None = None) -> None:
        self.got += b"".join(pieces)

    def attach(self, source: Response) -> None:
        pass


def post(body: bytes = b"") -> OutgoingRequest:
    return OutgoingRequest("POST", "/v1/x?y=%2F", [(b"a", b"b")], body)


async def answer(one: Upstream, to: Endpoint, body: bytes = b"", *, fresh: bool = False) -> bytes:
    begun = await one.send(to, post(body), fresh=fresh)
    writer: Any = Writer()
    try:
        rest = begun.pass_on(writer)
        if rest is not None:
            await rest
    finally:
        begun.close()
    got: bytes = writer.got
    return got


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
    host = to.authority.encode()
    assert heads == [b"POST /v1/x?y=%2F HTTP/1.1\r\nhost: " + host + b"\r\na: b\r\ncontent-length: 0\r\n\r\n"]


@pytest.mark.parametrize(
    "size",
    [pytest.param(5, id="small"), pytest.param(65_536, id="middling"), pytest.param(3_000_000, id="large")],
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


async def test_without_an_answer_the_request_is_dropped() -> None:
    async with endpoint(close_at_once) as to, upstream() as one:
        with pytest.raises(DroppedError) as caught:
            await answer(one, to)
    assert (caught.value.endpoint, caught.value.reused) == ("e", False)


async def test_what_is_no_answer_is_a_failure() -> None:
    async with endpoint(no_http) as to, upstream() as one:
        with pytest.raises(UpstreamError, match="not valid HTTP") as caught:
            await answer(one, to)
    assert type(caught.value) is UpstreamError


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
        await one.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL])
async def test_a_want_of_something_here_is_not_the_endpoints_fault(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_more(*_: object, **__: object) -> None:
        raise OSError(number, "None left")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", no_more)
    async with upstream() as one:
        with pytest.raises(UpstreamError, match="no connection from here: None left") as caught:
            await answer(one, make_endpoint())
    assert not isinstance(caught.value, UnreachableError)


async def test_a_connection_that_does_not_open_in_time_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    async with upstream(connect=0.01) as one:
        with pytest.raises(UnreachableError):
            await answer(one, make_endpoint())


async def test_a_name_that_can_be_none_is_unreachable() -> None:
    async with upstream() as one:
        with pytest.raises(UnreachableError, match="can't be a host name"):
            await answer(one, make_endpoint("e", address="a" * 64 + ".example"))


# -- the connections


class Counting:
    """An endpoint that answers all requests of all connections, and counts both."""

    def __init__(self) -> None:
        self.connections = self.requests = self.open = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                await head_of(reader)
                self.requests += 1
                await self.hold.wait()
                writer.write(HEAD + b"done")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1


async def test_a_connection_is_used_again() -> None:
    counting = Counting()
    async with endpoint(counting) as to, upstream() as one:
        assert [await answer(one, to) for _ in range(3)] == [b"done"] * 3
        assert (counting.requests, counting.connections) == (3, 1)
    await until(lambda: not counting.open)


async def test_a_request_that_wants_a_new_connection_gets_one() -> None:
    counting = Counting()
    async with endpoint(counting) as to, upstream() as one:
        for fresh in (False, True, False):
            await answer(one, to, fresh=fresh)
        assert counting.connections == 2


async def test_idle_connections_expire_and_nothing_is_left_of_them() -> None:
    counting = Counting()
    async with endpoint(counting) as to, upstream(limits=ConnectionLimits(idle=0.1)) as one:
        await asyncio.gather(*(answer(one, to) for _ in range(3)))
        assert counting.connections == 3
        await until(lambda: not counting.open)
        await until(lambda: not one._lanes)
        await answer(one, to)
        assert counting.connections == 4


async def test_endpoints_of_one_address_share_connections() -> None:
    counting = Counting()
    async with endpoint(counting) as to, upstream() as one:
        await answer(one, to)
        await answer(one, make_endpoint("other", port=to.port))
        assert counting.connections == 1


async def test_no_more_connections_are_opened_than_allowed() -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to, upstream(limits=ConnectionLimits(connections=2, idle=20.0)) as one:
        answers = [asyncio.create_task(answer(one, to)) for _ in range(5)]
        await until(lambda: counting.requests == 2)
        counting.hold.set()
        assert await asyncio.gather(*answers) == [b"done"] * 5
        assert (counting.requests, counting.connections) == (5, 2)


async def test_who_waits_too_long_for_a_connection_is_told_that_all_are_in_use() -> None:
    counting = Counting()
    counting.hold.clear()
    limits = ConnectionLimits(connections=1, idle=20.0)
    async with endpoint(counting) as to, upstream(connect=0.05, limits=limits) as one:
        first = asyncio.create_task(answer(one, to))
        await until(lambda: counting.requests)
        with pytest.raises(UpstreamError, match="all 1 connections to it are in use") as caught:
            await answer(one, to)
        assert not isinstance(caught.value, UnreachableError)
        counting.hold.set()
        assert await first == b"done"
        assert await answer(one, to) == b"done"


async def test_who_gives_up_passes_its_turn_on() -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to, upstream(limits=ConnectionLimits(connections=1, idle=20.0)) as one:
        first, second, third = [asyncio.create_task(answer(one, to)) for _ in range(3)]
        await until(lambda: counting.requests)
        second.cancel()
        await asyncio.wait([second])
        counting.hold.set()
        assert [await first, await third] == [b"done"] * 2


async def test_a_limit_may_be_raised() -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to, upstream(limits=ConnectionLimits(connections=1, idle=20.0)) as one:
        first = asyncio.create_task(answer(one, to))
        await until(lambda: counting.requests == 1)
        one.limits = ConnectionLimits(connections=2, idle=20.0)
        second = asyncio.create_task(answer(one, to))
        await until(lambda: counting.requests == 2)
        counting.hold.set()
        assert [await first, await second] == [b"done"] * 2


async def test_a_request_that_wants_a_new_connection_takes_the_place_of_an_idle_one() -> None:
    counting = Counting()
    async with (
        endpoint(counting) as to,
        upstream(connect=0.1, limits=ConnectionLimits(connections=1, idle=20.0)) as one,
    ):
        await answer(one, to)
        assert await answer(one, to, fresh=True) == b"done"
