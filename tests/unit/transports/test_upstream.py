"""Requests to endpoints over pooled connections: which failure has which error, and which connection is used."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.errors import UnreachableError, UpstreamError, UpstreamTimeoutError
from app.transports.http.codec.events import End
from app.transports.http.host_pools import HostPools
from app.transports.http.upstream import (
    ConnectionLimits,
    DroppedError,
    OutgoingRequest,
    Response,
    Timeouts,
    Upstream,
)
from app.transports.tls import ClientTls, client_context
from pointsman.testing import make_endpoint
from tests.support.running import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from app.domain.endpoint import Endpoint

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


@asynccontextmanager
async def endpoint(serve: Serve, path: Path | None = None) -> AsyncIterator[Endpoint]:
    """An endpoint that does `serve` with each connection and closes it. With a `path` it is a Unix socket."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    if path is not None:
        server = await asyncio.start_unix_server(connected, path)
        made = make_endpoint("e", address=f"unix:{path}", port=0)
    else:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        made = make_endpoint("e", port=server.sockets[0].getsockname()[1])
    try:
        async with asyncio.timeout(20):
            yield made
    finally:
        server.close()  # without waiting: from Python 3.12 on that waits for connections that hang on purpose


FAR = Timeouts(20.0, 20.0, 20.0)


@pytest.fixture
async def pools() -> AsyncIterator[HostPools]:
    """The connections of the process."""
    pools = HostPools()
    yield pools
    await pools.close()
    await until(lambda: not any(pool.connections for pool in pools._pools.values()))


def upstream(pools: HostPools, timeouts: Timeouts = FAR, *, connections: int = 0, keep_alive: float = 20.0) -> Upstream:
    """Requests under one configuration."""
    return Upstream(pools=pools, timeouts=timeouts, limits=ConnectionLimits(connections, keep_alive))


class Writer:
    """The client's side."""

    def __init__(self) -> None:
        self.got = b""

    def write(self, chunks: list[bytes], end: End | None = None) -> None:
        self.got += b"".join(chunks)

    def attach(self, source: Response) -> None:
        pass


def post(body: bytes = b"") -> OutgoingRequest:
    return OutgoingRequest("POST", "/v1/x?y=%2F", [(b"a", b"b")], body)


async def send(one: Upstream, to: Endpoint, body: bytes = b"", *, fresh: bool = False) -> bytes:
    """The body of the response to a request."""
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


async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(HEAD + b"done")
    await writer.drain()
    await hang(reader)


async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await hang(reader)


async def not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
    await writer.drain()


async def half_a_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(HEAD + b"do")
    await writer.drain()


async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await half_a_body(reader, writer)
    await hang(reader)


async def test_a_response_arrives_whole(pools: HostPools) -> None:
    async with endpoint(respond) as to:
        assert await send(upstream(pools), to) == b"done"


async def test_an_endpoint_may_be_a_unix_socket(pools: HostPools, tmp_path: Path) -> None:
    counting = Counting()
    async with endpoint(counting, tmp_path / "s") as to:
        one = upstream(pools)
        assert ([await send(one, to) for _ in range(2)], counting.connections) == ([b"done"] * 2, 1)


async def test_a_request_is_sent_as_it_came(pools: HostPools) -> None:
    heads: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await head_of(reader))
        writer.write(HEAD + b"done")
        await writer.drain()

    async with endpoint(record) as to:
        await send(upstream(pools), to)
    host = to.authority.encode()
    assert heads == [b"POST /v1/x?y=%2F HTTP/1.1\r\nhost: " + host + b"\r\na: b\r\ncontent-length: 0\r\n\r\n"]


@pytest.mark.parametrize(
    "size",
    [pytest.param(5, id="small"), pytest.param(65_536, id="medium"), pytest.param(3_000_000, id="large")],
)
async def test_a_body_is_sent_whole_with_its_length(pools: HostPools, size: int) -> None:
    received = asyncio.get_running_loop().create_future()

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await head_of(reader)
        received.set_result((b"content-length: %d" % size in head.lower(), await reader.readexactly(size)))
        writer.write(HEAD + b"done")
        await writer.drain()

    async with endpoint(record) as to:
        await send(upstream(pools), to, b"x" * size)
    assert await received == (True, b"x" * size)


SOON = Timeouts(20.0, 0.05, 0.05)


@pytest.mark.parametrize(
    ("serve", "timeouts", "kind", "message"),
    [
        pytest.param(close_at_once, FAR, DroppedError, "closed the connection", id="closed without a response"),
        pytest.param(not_http, FAR, UpstreamError, "not valid HTTP", id="not HTTP"),
        pytest.param(say_nothing, SOON, UpstreamTimeoutError, r"0\.05 s", id="no response in time"),
        pytest.param(half_a_body, FAR, UpstreamError, "before the end of its response", id="closed within the body"),
        pytest.param(stall, SOON, UpstreamError, r"nothing more for 0\.05 s", id="stalled within the body"),
    ],
)
async def test_each_failure_has_its_error(
    pools: HostPools, serve: Serve, timeouts: Timeouts, kind: type[UpstreamError], message: str
) -> None:
    async with endpoint(serve) as to:
        with pytest.raises(UpstreamError, match=message) as caught:
            await send(upstream(pools, timeouts), to)
    assert (type(caught.value), caught.value.endpoint) == (kind, "e")
    assert not getattr(caught.value, "reused", False)


async def test_an_address_where_nothing_listens_is_unreachable(pools: HostPools) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        to = make_endpoint("e", port=taken.getsockname()[1])
        with pytest.raises(UnreachableError):
            await send(upstream(pools), to)


async def test_a_request_dropped_on_an_idle_connection_says_so(pools: HostPools) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(HEAD + b"done")
        await writer.drain()
        await head_of(reader)

    async with endpoint(once) as to:
        one = upstream(pools)
        await send(one, to)
        with pytest.raises(DroppedError) as caught:
            await send(one, to)
    assert caught.value.reused


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL])
async def test_a_local_shortage_is_not_the_endpoint_s_fault(
    pools: HostPools, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_more(*_: object, **__: object) -> None:
        raise OSError(number, "None left")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", no_more)
    with pytest.raises(UpstreamError, match="no connection from here: None left") as caught:
        await send(upstream(pools), make_endpoint())
    assert not isinstance(caught.value, UnreachableError)


async def test_a_connection_that_does_not_open_in_time_is_unreachable(
    pools: HostPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    with pytest.raises(UnreachableError):
        await send(upstream(pools, Timeouts(0.01, 20.0, 20.0)), make_endpoint())


async def test_an_invalid_host_name_is_unreachable(pools: HostPools) -> None:
    with pytest.raises(UnreachableError, match="can't be a host name"):
        await send(upstream(pools), make_endpoint("e", address="a" * 64 + ".example"))


# -- the connections


class Counting:
    """An endpoint that responds to all requests of all connections, and counts both."""

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


async def test_a_connection_is_reused(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        one = upstream(pools)
        assert [await send(one, to) for _ in range(3)] == [b"done"] * 3
        assert (counting.requests, counting.connections) == (3, 1)
        await pools.close()
        await until(lambda: not counting.open)


async def test_a_connection_is_reused_by_the_next_configuration(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        for _ in range(3):
            await send(upstream(pools), to)
        assert (counting.requests, counting.connections) == (3, 1)


async def test_a_request_that_wants_a_new_connection_gets_one(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        for fresh in (False, True, False):
            await send(upstream(pools), to, fresh=fresh)
        assert counting.connections == 2


async def test_idle_connections_expire_and_nothing_is_left_of_them(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        one = upstream(pools, keep_alive=0.1)
        await asyncio.gather(*(send(one, to) for _ in range(3)))
        assert counting.connections == 3
        await until(lambda: not counting.open)
        await until(lambda: not pools._pools)
        await send(one, to)
        assert counting.connections == 4


async def test_idle_connections_are_kept_as_long_as_the_last_request_says(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        for keep_alive in (20.0, 0.0):
            await send(upstream(pools, keep_alive=keep_alive), to)
            await asyncio.sleep(0.01)
        assert counting.connections == 2  # the first one is too old by now
        await send(upstream(pools), to, fresh=True)
        await send(upstream(pools), to)
        assert counting.connections == 3


async def test_endpoints_with_one_address_share_connections(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        await send(upstream(pools), to)
        await send(upstream(pools), make_endpoint("other", port=to.port))
        assert counting.connections == 1


async def test_no_more_connections_are_opened_than_allowed(pools: HostPools) -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to:
        one = upstream(pools, connections=2)
        responses = [asyncio.create_task(send(one, to)) for _ in range(5)]
        await until(lambda: counting.requests == 2)
        counting.hold.set()
        assert await asyncio.gather(*responses) == [b"done"] * 5
        assert (counting.requests, counting.connections) == (5, 2)


async def test_a_request_that_waits_too_long_for_a_connection_fails(pools: HostPools) -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to:
        one = upstream(pools, Timeouts(0.05, 20.0, 20.0), connections=1)
        first = asyncio.create_task(send(one, to))
        await until(lambda: counting.requests)
        with pytest.raises(UpstreamError, match="all 1 connections to it are in use") as caught:
            await send(one, to)
        assert not isinstance(caught.value, UnreachableError)
        counting.hold.set()
        assert await first == b"done"
        assert await send(one, to) == b"done"


async def test_a_request_that_gives_up_lets_the_next_one_have_its_turn(pools: HostPools) -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to:
        one = upstream(pools, connections=1)
        first, second, third = [asyncio.create_task(send(one, to)) for _ in range(3)]
        await until(lambda: counting.requests)
        second.cancel()
        await asyncio.wait([second])
        counting.hold.set()
        assert [await first, await third] == [b"done"] * 2


@pytest.mark.parametrize(("limit", "fits"), [(2, True), (0, True), (1, False)])
async def test_connections_of_the_previous_configuration_count(pools: HostPools, limit: int, fits: bool) -> None:
    counting = Counting()
    counting.hold.clear()
    async with endpoint(counting) as to:
        first = asyncio.create_task(send(upstream(pools, connections=1), to))
        await until(lambda: counting.requests == 1)
        second = asyncio.create_task(send(upstream(pools, connections=limit), to))
        if fits:
            await until(lambda: counting.requests == 2)
        counting.hold.set()
        assert [await first, await second] == [b"done"] * 2
        assert counting.connections == 1 + fits


async def test_a_request_that_wants_a_new_connection_takes_the_place_of_an_idle_one(pools: HostPools) -> None:
    counting = Counting()
    async with endpoint(counting) as to:
        one = upstream(pools, Timeouts(0.1, 20.0, 20.0), connections=1)
        await send(one, to)
        assert await send(one, to, fresh=True) == b"done"


# -- which pool


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        pytest.param(("a", 1, False, None), ("b", 1, False, None), True, id="one address"),
        pytest.param(("a", 1, False, None), ("a", 2, False, None), False, id="another port"),
        pytest.param(("a", 1, False, "x"), ("a", 1, False, "y"), True, id="plain HTTP, whatever the TLS"),
        pytest.param(("a", 1, True, "x"), ("a", 1, True, "x"), True, id="the same TLS"),
        pytest.param(("a", 1, True, "x"), ("a", 1, True, "y"), False, id="another TLS"),
        pytest.param(("a", 1, True, None), ("a", 1, True, None), True, id="the default TLS"),
        pytest.param(("a", 1, True, None), ("a", 1, True, "x"), False, id="the default TLS and another one"),
        pytest.param(("a", 1, True, "x"), ("a", 1, False, "x"), False, id="HTTPS and plain HTTP"),
    ],
)
async def test_connections_are_shared_by_address_and_tls(
    pools: HostPools, first: tuple[Any, ...], second: tuple[Any, ...], shared: bool
) -> None:
    contexts = {name: client_context(ClientTls()) for name in "xy"}
    found = [
        pools.of(replace(make_endpoint(name, port=port), tls=tls), contexts.get(context))
        for name, port, tls, context in (first, second)
    ]
    assert (found[0] is found[1]) is shared
