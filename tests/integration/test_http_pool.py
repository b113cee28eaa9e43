"""Connections to endpoints: kept, shared out, bounded, and given up when they are of no use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.integration.test_http_connections import (
    CHAT,
    REASON,
    Client,
    Message,
    Talk,
    again_with_uvloop,
    client_of,
    echo,
    engine_of,
    get,
    holding,
    ok,
    post,
    read_body,
    run_with_uvloop,
)
from tests.support.running import Running, running, until

ONE = "transports.http.limits.endpointConnections=1"
SOON = "transports.http.timeouts.connect=100ms"
NO_OTHER = "transports.http.retries=0"


def saying(said: bytes) -> Talk:
    """Says just that."""

    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        writer.write(said)

    return talk


class Dropping:
    """An endpoint that answers the first request of a connection, or none, and then closes it without a word."""

    def __init__(self, *, answers: int = 1) -> None:
        self.answers = answers
        self.answered: dict[asyncio.StreamWriter, int] = {}

    async def __call__(self, message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        self.answered[writer] = count = self.answered.get(writer, 0) + 1
        if count > self.answers:
            raise ConnectionAbortedError
        writer.write(ok(message.path.encode()))


async def clients_of(app: Running, stack: AsyncExitStack, number: int) -> list[Client]:
    return [await stack.enter_async_context(client_of(app)) for _ in range(number)]


# -- kept


async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, AsyncExitStack() as stack:
        for client in await clients_of(app, stack, 3):
            for request in (get("/1"), post(path="/2"), get("/3")):
                assert (await client.ask(request)).status == 200
        assert (len(engine.seen), len(engine.connections)) == (9, 1)


async def test_requests_at_once_have_a_connection_each_and_these_are_kept() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, AsyncExitStack() as stack:
        clients = await clients_of(app, stack, 5)
        for client in clients:
            client.send(get("/slow"))
        await until(lambda: len(engine.seen) == 5)
        hold.set()
        for _ in range(3):
            assert [(await client.answer()).status for client in clients] == [200] * 5
            for client in clients:
                client.send(get("/slow"))
        assert len(engine.connections) == 5


async def test_an_idle_connection_ends_after_a_while() -> None:
    sets = ["transports.http.timeouts.endpointKeepAlive=50ms"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        for number in (1, 2):
            assert (await client.ask(get())).status == 200
            await until(lambda number=number: engine.ended == number)
        assert len(engine.connections) == 2


async def test_a_slow_answer_is_not_an_idle_connection() -> None:
    hold = asyncio.Event()
    sets = ["transports.http.timeouts.endpointKeepAlive=10ms"]
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app) as client:
            assert (await client.ask(get("/1"))).status == 200
            client.send(get("/slow"))
            await until(lambda: "/slow" in engine.paths)
            await asyncio.sleep(0.05)
            hold.set()
            assert (await client.answer()).body == b"/slow"


async def test_all_connections_end_with_the_router() -> None:
    async with engine_of(echo) as engine:
        async with running(ports=[engine.port]) as app, client_of(app) as client:
            assert (await client.ask(get())).status == 200
        await until(lambda: engine.ended == 1)


# -- not used again


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        pytest.param(ok(b"x"), True, id="1.1"),
        pytest.param(ok(b"x", "connection: close"), False, id="1.1 close"),
        pytest.param(ok(b"x", "connection: x, Close"), False, id="1.1 close among others"),
        pytest.param(ok(b"x").replace(b"1.1", b"1.0"), False, id="1.0"),
        pytest.param(ok(b"x", "connection: keep-alive").replace(b"1.1", b"1.0"), True, id="1.0 keep-alive"),
    ],
)
async def test_a_connection_is_used_again_unless_the_endpoint_says_that_it_ends(said: bytes, kept: bool) -> None:
    async with engine_of(saying(said)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        for _ in range(3):
            answer = await client.ask(get())
            assert (answer.body, "connection" in answer.headers) == (b"x", False)
        assert len(engine.connections) == (1 if kept else 3)
        await until(lambda: engine.ended == (0 if kept else 3))


async def test_a_client_that_closes_costs_no_connection_to_an_endpoint() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, AsyncExitStack() as stack:
        for client in await clients_of(app, stack, 3):
            assert (await client.ask(get("/", "connection: close"))).status == 200
        assert len(engine.connections) == 1
        assert "connection" not in engine.seen[0].headers


async def test_data_that_nobody_asked_for_ends_an_idle_connection() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(get("/1"))).body == b"/1"
        engine.connections[0].write(ok(b"poison"))
        await until(lambda: engine.ended == 1)
        assert (await client.ask(get("/2"))).body == b"/2"
        assert len(engine.connections) == 2


async def test_the_connection_of_a_client_that_left_is_not_used_again() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client, client_of(app) as other:
            client.send(get("/slow"))
            await until(lambda: engine.seen)
            client.leave()
            await until(lambda: not app.process.in_flight().total)
            assert (await other.ask(get("/2"))).body == b"/2"
            assert len(engine.connections) == 2


# -- dropped


async def test_a_request_dropped_on_a_connection_that_was_idle_is_sent_again_on_a_new_one() -> None:
    dropping = Dropping()
    async with engine_of(dropping) as engine, running(ports=[engine.port], sets=[NO_OTHER]) as app:
        async with client_of(app) as client:
            assert [(await client.ask(post(path="/x"))).status for _ in range(3)] == [200] * 3
            assert list(dropping.answered.values()) == [2, 2, 1]
            assert [seen.body for seen in engine.seen] == [CHAT] * 5


async def test_a_request_dropped_on_the_new_connection_too_is_not_sent_a_third_time() -> None:
    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        if len(engine.seen) > 1:
            raise ConnectionAbortedError
        writer.write(ok())

    async with (
        engine_of(talk) as engine,
        running(ports=[engine.port], sets=[NO_OTHER]) as app,
        client_of(app) as client,
    ):
        assert (await client.ask(post())).status == 200
        answer = await client.ask(post())
        assert (answer.status, answer.headers[REASON]) == (503, "upstream-failed")
        assert (len(engine.seen), len(engine.connections)) == (3, 2)


async def test_a_request_dropped_on_a_new_connection_is_not_sent_there_again() -> None:
    async with engine_of(Dropping(answers=0)) as engine, running(ports=[engine.port], sets=[NO_OTHER]) as app:
        async with client_of(app) as client:
            assert (await client.ask(post())).status == 503
            assert len(engine.seen) == 1


@pytest.mark.parametrize("said", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200"], ids=["interim", "half a head"])
async def test_a_request_that_was_taken_up_is_not_sent_there_again(said: bytes) -> None:
    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        if len(engine.seen) > 1:
            writer.write(said)
            await writer.drain()
            raise ConnectionAbortedError
        writer.write(ok())

    async with (
        engine_of(talk) as engine,
        running(ports=[engine.port], sets=[NO_OTHER]) as app,
        client_of(app) as client,
    ):
        assert [(await client.ask(post())).status for _ in range(2)] == [200, 503]
        assert len(engine.seen) == 2


# -- bounded


async def test_no_more_connections_are_opened_than_allowed_and_all_are_served() -> None:
    hold = asyncio.Event()
    sets = ["transports.http.limits.endpointConnections=2"]
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=sets) as app:
        async with AsyncExitStack() as stack:
            clients = await clients_of(app, stack, 8)
            for client in clients:
                client.send(get("/slow"))
            await until(lambda: app.process.in_flight().total == 8)
            await until(lambda: len(engine.seen) == 2)
            hold.set()
            assert [(await client.answer()).status for client in clients] == [200] * 8
            assert (len(engine.seen), len(engine.connections)) == (8, 2)


async def test_a_request_that_waits_too_long_for_a_connection_is_503() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=[ONE, SOON]) as app:
        async with client_of(app) as busy, client_of(app) as client:
            busy.send(get("/slow"))
            await until(lambda: engine.seen)
            answer = await client.ask(post())
            assert (answer.status, answer.headers[REASON]) == (503, "upstream-failed")
            assert b"all 1 connections to it are in use" in answer.body
            assert app.generation.pool().names == {"e0"}
            hold.set()
            assert (await busy.answer()).status == 200
            assert (await client.ask(post())).status == 200


async def test_a_request_that_waits_too_long_for_a_connection_goes_elsewhere() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as full, engine_of(echo) as other:
        async with running(ports=[full.port, other.port], sets=[ONE, SOON]) as app:
            await app.generation.monitor().stop()
            pool = app.generation.pool()
            second = pool.get("e1")
            pool.mark_down(second, "the test says so")
            async with client_of(app) as busy, client_of(app) as client:
                busy.send(get("/slow"))
                await until(lambda: full.seen)
                client.send(get("/2"))
                await until(lambda: app.process.in_flight().total == 2)
                pool.mark_up(second)
                assert (await client.answer()).body == b"/2"
                assert (full.paths, other.paths, pool.names) == (["/slow"], ["/2"], {"e0", "e1"})
                hold.set()


async def test_a_client_that_leaves_gives_its_place_up() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=[ONE]) as app:
        async with client_of(app) as first, client_of(app) as leaving, client_of(app) as last:
            first.send(get("/slow"))
            await until(lambda: engine.seen)
            leaving.send(get("/2"))
            await until(lambda: app.process.in_flight().total == 2)
            last.send(get("/3"))
            await until(lambda: app.process.in_flight().total == 3)
            leaving.leave()
            await until(lambda: app.process.in_flight().total == 2)
            hold.set()
            assert [(await first.answer()).body, (await last.answer()).body] == [b"/slow", b"/3"]
            assert (engine.paths, len(engine.connections)) == (["/slow", "/3"], 1)


@pytest.mark.parametrize("leaves", [False, True], ids=["endpoint", "client"])
async def test_a_connection_that_is_lost_makes_room_for_a_new_one(leaves: bool) -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=[ONE, NO_OTHER]) as app:
        async with client_of(app) as first, client_of(app) as client:
            first.send(get("/slow"))
            await until(lambda: engine.seen)
            client.send(get("/2"))
            await until(lambda: app.process.in_flight().total == 2)
            if leaves:
                first.leave()
            else:
                engine.connections[0].transport.abort()
                assert (await first.answer()).status == 503
            assert (await client.answer()).body == b"/2"
            assert len(engine.connections) == 2


async def test_a_dropped_request_is_sent_again_when_another_one_took_its_place() -> None:
    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        if message.path == "/dropped" and engine.paths.count("/dropped") == 1:
            await drop.wait()
            raise ConnectionAbortedError
        writer.write(ok(message.path.encode()))

    drop = asyncio.Event()
    sets = [ONE, NO_OTHER, "transports.http.timeouts.connect=500ms"]
    async with engine_of(talk) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app) as client, client_of(app) as other:
            assert (await client.ask(get("/1"))).body == b"/1"
            client.send(get("/dropped"))
            await until(lambda: "/dropped" in engine.paths)
            other.send(get("/2"))
            await until(lambda: app.process.in_flight().total == 2)
            drop.set()
            assert (await other.answer()).body == b"/2"
            assert (await client.answer()).body == b"/dropped"


@again_with_uvloop(
    test_requests_one_after_the_other_share_a_connection,
    test_an_idle_connection_ends_after_a_while,
    test_data_that_nobody_asked_for_ends_an_idle_connection,
    test_a_request_dropped_on_a_connection_that_was_idle_is_sent_again_on_a_new_one,
    test_no_more_connections_are_opened_than_allowed_and_all_are_served,
    test_a_request_that_waits_too_long_for_a_connection_is_503,
    test_a_client_that_leaves_gives_its_place_up,
)
def test_the_same_with_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    run_with_uvloop(test)
