"""Bodies on their way through: trailers, back-pressure, what breaks off, and answers that are none."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from tests.integration.test_http_connections import (
    CHAT,
    REASON,
    Client,
    Message,
    Talk,
    again_with_uvloop,
    chunks,
    client_of,
    counted,
    echo,
    engine_of,
    get,
    head_of_post,
    ok,
    post,
    read_body,
    run_with_uvloop,
)
from tests.support.running import Running, running, until

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


def saying(*pieces: bytes, closes: bool = False) -> Talk:
    """Says just that, in as many packets."""

    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)
        if closes:
            writer.close()

    return talk


async def endings(app: Running, ending: str) -> float:
    return await counted(app, f'pointsman_attempts_ended_total{{ending="{ending}"}}')


async def broken_off(client: Client) -> bytes:
    """What there is of a body that has no end."""
    with pytest.raises(asyncio.IncompleteReadError) as caught:
        await client.answer()
    return caught.value.partial


# -- trailers


async def test_trailers_of_a_request_reach_the_endpoint() -> None:
    sent = head_of_post("transfer-encoding: chunked") + chunks(CHAT[:9], CHAT[9:], trailers=b"X-Sum: 1\r\nx-sum: 2\r\n")
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(sent)).status == 200
        (seen,) = engine.seen
        assert (seen.body, seen.trailers) == (CHAT, [("x-sum", "1"), ("x-sum", "2")])
        assert (await client.ask(get("/next"))).body == b"/next"


async def test_trailers_without_a_body_reach_the_endpoint() -> None:
    sent = head_of_post("transfer-encoding: chunked", path="/x") + chunks(trailers=b"x-sum: 1\r\n")
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(sent)).status == 200
        assert (engine.seen[0].body, engine.seen[0].trailers) == (b"", [("x-sum", "1")])


async def test_a_chunked_request_reaches_the_endpoint_with_its_length() -> None:
    sent = head_of_post("transfer-encoding: chunked", "trailer: host") + chunks(
        CHAT[:9], CHAT[9:], trailers=b"host: b\r\n"
    )
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(sent)).status == 200
        (seen,) = engine.seen
        assert (seen.body, seen.headers["content-length"], seen.trailers) == (CHAT, str(len(CHAT)), [])
        assert not {"transfer-encoding", "trailer"} & set(seen.headers)
        assert seen.headers["host"] == f"127.0.0.1:{engine.port}"


NOT_PASSED = (
    b"host: b\r\ntrailer: x\r\nte: x\r\nx-request-id: r\r\nx-prefiller-host-port: b:1\r\nexpect: 100-continue\r\n"
)


async def test_trailers_that_are_not_for_the_endpoint_do_not_reach_it() -> None:
    sent = head_of_post("transfer-encoding: chunked") + chunks(CHAT, trailers=NOT_PASSED + b"x: y\r\n")
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(sent)).status == 200
        assert engine.seen[0].trailers == [("x", "y")]


async def test_trailers_of_an_answer_reach_the_client() -> None:
    talk = saying(CHUNKED + chunks(b"hello", trailers=NOT_PASSED + b"X-Sum: 1\r\nx-sum: 2\r\n"))
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(get())
        assert (answer.body, answer.trailers) == (b"hello", [("x-sum", "1"), ("x-sum", "2")])
        assert len({(await client.ask(get())).body, *(writer for writer in engine.connections)}) == 2


async def test_a_client_of_http_1_0_gets_neither_chunks_nor_trailers() -> None:
    talk = saying(CHUNKED, chunks(b"hel", b"lo", trailers=b"x: y\r\n"))
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(get("/", "connection: keep-alive", version="1.0"))
        assert (answer.body, answer.headers["connection"]) == (b"hello", "close")
        assert "transfer-encoding" not in answer.headers


@pytest.mark.parametrize("name", ["content-length", "transfer-encoding", "connection"])
async def test_an_answer_whose_trailers_say_how_to_read_it_is_broken_off(name: str) -> None:
    talk = saying(CHUNKED + b"5\r\nhello\r\n", b"0\r\n%b: 5\r\n\r\n" % name.encode())
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get())
        await broken_off(client)
        await until(lambda: engine.ended)


# -- as it comes


async def test_events_in_one_read_arrive_whole() -> None:
    events = [b"data: %d\n\n" % i for i in range(100)]
    async with engine_of(saying(CHUNKED + chunks(*events))) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client:
            assert (await client.ask(get())).body == b"".join(events)


async def test_an_answer_cut_anywhere_arrives_whole() -> None:
    said = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + CHUNKED + chunks(b"hel", b"lo", trailers=b"x: y\r\n")

    async def talk(_: Message, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for at in range(len(said)):
            writer.write(said[at : at + 1])
            await asyncio.sleep(0)

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answers = [await client.ask(get()) for _ in range(2)]
        assert [(one.status, one.body, one.trailers) for one in answers] == [(200, b"hello", [("x", "y")])] * 2
        assert len(engine.connections) == 1


async def test_interim_answers_are_passed_over() -> None:
    talk = saying(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2, ok(b"last"))
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answers = [await client.ask(post()) for _ in range(2)]
        assert [(one.status, one.body, "link" in one.headers) for one in answers] == [(200, b"last", False)] * 2
        assert len(engine.connections) == 1


async def test_an_answer_that_ends_with_its_connection_comes_in_chunks() -> None:
    talk = saying(UNTIL_CLOSE + b"hel", b"lo", closes=True)
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(get())
        assert (answer.body, answer.headers["transfer-encoding"]) == (b"hello", "chunked")
        assert (await client.ask(get())).body == b"hello"
        assert len(engine.connections) == 2


async def test_a_reset_is_not_the_end_of_an_answer() -> None:
    heard = asyncio.Event()

    async def talk(_: Message, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(UNTIL_CLOSE + b"hello")
        await heard.wait()
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get())
        await client.reader.readuntil(b"hello\r\n")
        heard.set()
        assert await client.rest() == b""
        assert await endings(app, "upstream-failed") == 1


@pytest.mark.parametrize("body", [b"", b"hello"], ids=["nothing", "something"])
@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_has_none_whatever_comes_with_it(status: str, body: bytes) -> None:
    async with engine_of(saying(ok(body, status=status))) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client:
            for _ in range(2):
                assert (await client.ask(get())).start == f"HTTP/1.1 {status}"
            assert len(engine.connections) == (2 if body else 1)


async def test_an_answer_that_can_have_no_body_says_no_length() -> None:
    async with engine_of(saying(ok(b"", status="204 No Content"))) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client:
            assert "content-length" not in (await client.ask(get())).headers


# -- back-pressure


class Endless:
    """An endpoint that says much, and tells how much of it was taken."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.sent = 0
        self.held_back = asyncio.Event()
        """Set once nothing of it is taken for a while."""
        self.ended = False

    async def __call__(self, message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (self.pieces * 65536))
        try:
            for number in range(self.pieces):
                writer.write(number.to_bytes(4, "big") * 16384)
                drained = asyncio.ensure_future(writer.drain())
                done, _ = await asyncio.wait([drained], timeout=0.2)
                if not done:
                    self.held_back.set()
                await drained
                self.sent += 65536
        finally:
            self.ended = True


async def test_an_answer_that_its_client_does_not_take_is_held_back_and_comes_whole() -> None:
    endless = Endless(500)
    async with engine_of(endless, send_buffer=65536) as engine, running(ports=[engine.port]) as app:
        async with client_of(app, receive_buffer=65536) as client:
            client.writer.transport.pause_reading()
            client.send(get())
            async with asyncio.timeout(10):
                await endless.held_back.wait()
            assert endless.sent < 12_000_000
            client.writer.transport.resume_reading()
            body = (await client.answer()).body
            expected = b"".join(number.to_bytes(4, "big") * 16384 for number in range(500))
            assert hashlib.sha256(body).digest() == hashlib.sha256(expected).digest()
            assert await endings(app, "completed") == 1


async def test_a_client_that_takes_nothing_of_an_answer_is_cut_off() -> None:
    endless = Endless(10_000)
    sets = ["transports.http.timeouts.idle=300ms"]
    async with engine_of(endless, send_buffer=65536) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app, receive_buffer=65536) as client:
            client.writer.transport.pause_reading()
            client.send(get())
            await until(lambda: endless.ended)
            await until(lambda: not app.process.in_flight().total)
            await until(lambda: not app.process.http_server()._connections)
            assert (await endings(app, "client-left"), await endings(app, "upstream-failed")) == (1, 0)
            client.writer.transport.resume_reading()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.answer()


async def test_a_client_that_takes_its_time_is_not_cut_off() -> None:
    sets = ["transports.http.timeouts.idle=300ms"]
    async with engine_of(Endless(100), send_buffer=65536) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app, receive_buffer=65536) as client:
            client.send(get())
            await client.reader.readuntil(b"\r\n\r\n")
            for _ in range(100):
                assert len(await client.reader.readexactly(65536)) == 65536
                await asyncio.sleep(0.004)
            await until(lambda: not app.process.in_flight().total)
            assert await endings(app, "completed") == 1


async def test_an_endpoint_that_says_no_more_is_broken_off() -> None:
    sets = ["transports.http.timeouts.idle=100ms"]
    talk = saying(CHUNKED + b"5\r\nhello\r\n")
    async with engine_of(talk) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        client.send(get())
        await client.reader.readuntil(b"hello\r\n")
        assert await client.rest() == b""
        await until(lambda: engine.ended)
        assert await endings(app, "upstream-failed") == 1


async def test_an_endpoint_that_reads_slowly_gets_a_large_body_whole() -> None:
    hold = asyncio.Event()

    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        await read_body(reader, message)
        writer.write(ok())

    body = bytes(range(256)) * 40_000
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(post(body, path="/x"))
        await until(lambda: engine.seen)
        hold.set()
        assert (await client.answer()).status == 200
        assert hashlib.sha256(engine.seen[0].body).digest() == hashlib.sha256(body).digest()


async def test_an_endpoint_may_answer_before_it_has_read_the_body() -> None:
    hold = asyncio.Event()

    async def talk(message: Message, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if message.start.startswith("POST"):
            writer.write(ok(b"too much", status="413 Content Too Large"))
            await hold.wait()
        writer.write(ok(b"next"))

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(post(b"x" * 20_000_000, path="/x"))
        assert (answer.status, answer.body) == (413, b"too much")
        assert (await client.ask(get("/next"))).body == b"next"
        assert len(engine.connections) == 2
        hold.set()


# -- what is no answer


NO_ANSWERS = {
    "no HTTP": b"hello\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "two lengths": ok(b"hello", "content-length: 6"),
    "the same length twice": ok(b"hello", "content-length: 5"),
    "length and chunks": ok(chunks(b"hello"), "transfer-encoding: chunked"),
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "a list of lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello",
    "another coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhello",
    "bare line feeds": b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
    "a chunk's size that is none": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "a carriage return in a value": ok(b"hello", "x: a\rx-evil: 1"),
    "a line feed in a value": ok(b"hello", "x: a\nx-evil: 1"),
    "a NUL in a value": ok(b"hello", "x: a\0b"),
    "a space in a name": ok(b"hello", "x y: z"),
    "a space before the colon": ok(b"hello", "x : z"),
    "a folded line": ok(b"hello", "x: y", " x-evil: 1"),
    "a carriage return in the reason": ok(b"hello", status="200 O\rK"),
    "a large head": ok(b"hello", "x: " + "y" * 70_000),
    "a large head without an end": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
}


async def test_what_is_no_answer_is_503(subtests: pytest.Subtests) -> None:
    sets = ["transports.http.timeouts.response=5s"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        for number, (name, said) in enumerate(NO_ANSWERS.items(), 1):
            with subtests.test(name):
                engine.talk = saying(said)
                answer = await client.ask(post())
                assert (answer.status, answer.headers[REASON]) == (503, "upstream-failed")
                assert b"hello" not in answer.body
                assert not {"x", "x-evil"} & set(answer.headers)
                await until(lambda number=number: engine.ended == number)
        assert len(engine.seen) == len(NO_ANSWERS)


async def test_what_is_no_answer_is_made_up_for_by_another_endpoint() -> None:
    async with engine_of(saying(b"hello\r\n\r\n")) as bad, engine_of(saying(ok(b"good"))) as good:
        async with running(ports=[bad.port, good.port]) as app, client_of(app) as client:
            assert [(await client.ask(post())).body for _ in range(6)] == [b"good"] * 6


BROKEN = {
    "a chunk's size that is none": b"zz\r\n",
    "a chunk that is too long": b"2\r\nabc\r\n",
    "a bare line feed": b"2\r\nab\n",
    "large trailers": b"0\r\nx: " + b"y" * 70_000,
    "a carriage return in a trailer": b"0\r\nx: a\rb\r\n\r\n",
    "a space in a trailer's name": b"0\r\nx y: z\r\n\r\n",
}


async def test_an_answer_that_goes_wrong_is_broken_off(subtests: pytest.Subtests) -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app:
        for number, (name, said) in enumerate(BROKEN.items(), 1):
            with subtests.test(name):
                engine.talk = saying(CHUNKED + b"5\r\nhello\r\n", said)
                async with client_of(app) as client:
                    client.send(get())
                    await client.reader.readuntil(b"\r\n\r\n5\r\nhello\r\n")
                    assert b"0\r\n\r\n" not in await client.rest()
                    await until(lambda number=number: engine.ended == number)
        assert await endings(app, "upstream-failed") == len(BROKEN)


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (CHUNKED + b"5\r\nhello\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", b"hello"),
        (CHUNKED, b""),
    ],
    ids=["chunked", "with a length", "before its body"],
)
async def test_an_answer_that_breaks_off_ends_the_connection_without_its_end(said: bytes, body: bytes) -> None:
    async with engine_of(saying(said, closes=True)) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client:
            client.send(get(), get("/next"))
            assert await broken_off(client) == body
            assert len(engine.seen) == 1


async def test_an_answer_that_breaks_off_resets_a_client_that_could_not_tell_else() -> None:
    async with (
        engine_of(saying(CHUNKED + b"5\r\nhello\r\n", closes=True)) as engine,
        running(ports=[engine.port]) as app,
    ):
        async with client_of(app) as client:
            with pytest.raises(ConnectionResetError):
                await client.ask(get(version="1.0"))


@pytest.mark.parametrize("more", [ok(b"second"), b"\r\n", b"x"], ids=["an answer", "an empty line", "a letter"])
async def test_of_more_than_one_answer_only_the_first_is_passed_on(more: bytes) -> None:
    async with engine_of(saying(ok(b"first") + more)) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client:
            assert [(await client.ask(get())).body for _ in range(3)] == [b"first"] * 3
            assert len(engine.connections) == 3


async def test_a_chunked_answer_s_surplus_is_not_passed_on() -> None:
    talk = saying(CHUNKED + chunks(b"first") + ok(b"second"))
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert [(await client.ask(get())).body for _ in range(3)] == [b"first"] * 3
        assert len(engine.connections) == 3


@again_with_uvloop(
    test_trailers_of_a_request_reach_the_endpoint,
    test_trailers_of_an_answer_reach_the_client,
    test_an_answer_cut_anywhere_arrives_whole,
    test_an_answer_that_ends_with_its_connection_comes_in_chunks,
    test_a_reset_is_not_the_end_of_an_answer,
    test_an_answer_that_its_client_does_not_take_is_held_back_and_comes_whole,
    test_a_client_that_takes_nothing_of_an_answer_is_cut_off,
    test_an_endpoint_that_says_no_more_is_broken_off,
    test_an_endpoint_that_reads_slowly_gets_a_large_body_whole,
    test_an_endpoint_may_answer_before_it_has_read_the_body,
)
def test_the_same_with_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    run_with_uvloop(test)
