"""Clients' connections, in raw bytes: what comes in which order, what is refused, and when a connection ends."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import uvloop

from app.transports.http.connection import ClientConnection
from tests.support.running import Running, running, until

REASON = "x-llm-d-request-dropped-reason"
CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "hi"}]}).encode()
PATIENCE = 10.0
"""Seconds that a test waits for bytes before it fails."""


def get(path: str = "/", *fields: str, version: str = "1.1") -> bytes:
    """A request without a body."""
    return "\r\n".join([f"GET {path} HTTP/{version}", "host: a", *fields, "", ""]).encode()


def post(body: bytes = CHAT, *fields: str, version: str = "1.1", path: str = "/v1/chat/completions") -> bytes:
    """A request with a body of known length."""
    return head_of_post(f"content-length: {len(body)}", *fields, version=version, path=path) + body


def head_of_post(*fields: str, version: str = "1.1", path: str = "/v1/chat/completions") -> bytes:
    """A request that is to have a body."""
    return "\r\n".join([f"POST {path} HTTP/{version}", "host: a", *fields, "", ""]).encode()


def chunks(*pieces: bytes, trailers: bytes = b"") -> bytes:
    """A chunked body."""
    return b"".join([*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n", trailers, b"\r\n"])


@dataclass
class Message:
    """A message as it came over the wire."""

    start: str
    fields: list[tuple[str, str]]
    body: bytes = b""
    trailers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.start.split(" ")[1])

    @property
    def path(self) -> str:
        return self.start.split(" ")[1]

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.fields)


async def read_message(reader: asyncio.StreamReader, *, with_body: bool = True) -> Message:
    """The next message, whose framing must be right to the byte. Raises `IncompleteReadError` if it is cut off."""
    head = await reader.readuntil(b"\r\n\r\n")
    start, *lines = head[:-4].decode("latin-1").split("\r\n")
    message = Message(start, [_field(line) for line in lines])
    bodiless = start.startswith("HTTP/") and (message.status < 200 or message.status in (204, 304))
    if with_body and not bodiless:
        await read_body(reader, message)
    return message


async def read_body(reader: asyncio.StreamReader, message: Message) -> None:
    """The body of a message whose head was read."""
    headers = message.headers
    if headers.get("transfer-encoding") == "chunked":
        assert "content-length" not in headers
        while size := int(await reader.readuntil(b"\r\n"), 16):
            message.body += await reader.readexactly(size)
            assert await reader.readexactly(2) == b"\r\n"
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            message.trailers.append(_field(line[:-2].decode("latin-1")))
    elif "content-length" in headers:
        message.body = await reader.readexactly(int(headers["content-length"]))
    elif message.start.startswith("HTTP/"):
        message.body = await reader.read()


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


@dataclass
class Client:
    """A client of raw bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    async def answer(self, *, with_body: bool = True) -> Message:
        async with asyncio.timeout(PATIENCE):
            return await read_message(self.reader, with_body=with_body)

    async def ask(self, *data: bytes) -> Message:
        self.send(*data)
        return await self.answer()

    async def rest(self) -> bytes:
        """All that comes until the connection ends, which must not be by a reset."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    def leave(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def client_of(app: Running, *, receive_buffer: int = 0) -> AsyncIterator[Client]:
    """A connection to the router; `receive_buffer` in bytes bounds what the kernel takes for a client that does not."""
    sock = socket.socket()
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(0)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", app.port))
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


Talk = Callable[[Message, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]
"""Answers one request, whose body is yet to be read. The connection stays open afterwards."""


@dataclass
class Engine:
    """A model server of raw bytes, without metrics and models."""

    talk: Talk
    port: int = 0
    seen: list[Message] = field(default_factory=list)
    connections: list[asyncio.StreamWriter] = field(default_factory=list)
    """Those that brought a request, ended ones too."""
    ended: int = 0
    """How many of them have ended."""

    @property
    def paths(self) -> list[str]:
        return [message.path for message in self.seen]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                message = await read_message(reader, with_body=False)
                if message.path in ("/metrics", "/v1/models"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    return
                if writer not in self.connections:
                    self.connections.append(writer)
                self.seen.append(message)
                await self.talk(message, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += writer in self.connections
            writer.close()


@asynccontextmanager
async def engine_of(talk: Talk, *, send_buffer: int = 0) -> AsyncIterator[Engine]:
    """A running `Engine`; `send_buffer` in bytes bounds what the kernel takes from it."""
    engine = Engine(talk)
    sock = socket.socket()
    if send_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    sock.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(engine.serve, sock=sock)
    engine.port = sock.getsockname()[1]
    try:
        yield engine
    finally:
        server.close()
        for writer in engine.connections:
            writer.transport.abort()


def ok(body: bytes = b"ok", *fields: str, status: str = "200 OK") -> bytes:
    """An answer of known length."""
    return "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *fields, "", ""]).encode() + body


async def echo(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with the path."""
    await read_body(reader, message)
    writer.write(ok(message.path.encode()))


def holding(hold: asyncio.Event) -> Talk:
    """Answers with the path; to `/slow` not before the event."""

    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        if message.path == "/slow":
            await hold.wait()
        writer.write(ok(message.path.encode()))

    return talk


async def counted(app: Running, sample: str) -> float:
    """A counter of the metrics page."""
    async with app.client.get(f"{app.admin_url}/metrics") as page:
        lines = (await page.text()).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(sample))


async def refusals(app: Running, kind: str) -> float:
    return await counted(app, f'llm_d_epp_request_error_total{{error_code="{kind}"')


async def ends(client: Client) -> bool:
    """Whether the connection ends with nothing more said."""
    return await client.rest() == b""


def again_with_uvloop(*tests: Callable[[], Awaitable[None]]) -> pytest.MarkDecorator:
    """Tests to be run once more, in the event loop that the command uses."""
    return pytest.mark.parametrize("test", tests, ids=[test.__name__.removeprefix("test_") for test in tests])


def run_with_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


# -- one after the other


async def test_a_connection_takes_many_requests() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        for path in ("/1", "/2", "/3"):
            answer = await client.ask(get(path))
            assert (answer.status, answer.body, "connection" in answer.headers) == (200, path.encode(), False)


async def test_the_client_says_when_it_is_over() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(get("/1", "connection: close"), get("/2"))
        assert (answer.headers["connection"], await ends(client), engine.paths) == ("close", True, ["/1"])


async def test_requests_in_one_packet_are_answered_in_order() -> None:
    paths = [f"/{i}" for i in range(100)]
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(*map(get, paths))
        assert [(await client.answer()).body.decode() for _ in paths] == paths
        assert engine.paths == paths


async def test_requests_cut_anywhere_are_answered_in_order() -> None:
    sent = (
        get("/1") + post(path="/2") + head_of_post("transfer-encoding: chunked", path="/3") + chunks(CHAT) + get("/4")
    )
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        for at in range(0, len(sent), 7):
            client.send(sent[at : at + 7])
            await asyncio.sleep(0)
        assert [(await client.answer()).body for _ in range(4)] == [b"/1", b"/2", b"/3", b"/4"]


async def test_what_comes_while_a_request_is_served_waits_for_its_turn() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client, client_of(app) as other:
            client.send(get("/slow"), get("/1"))
            await until(lambda: engine.seen)
            client.send(get("/2"))
            assert (await other.ask(get("/other"))).body == b"/other"
            assert engine.paths == ["/slow", "/other"]
            hold.set()
            assert [(await client.answer()).body for _ in range(3)] == [b"/slow", b"/1", b"/2"]


def connection_of(app: Running) -> ClientConnection:
    """The router's side of its only client's connection."""
    (connection,) = app.process.http_server()._connections
    return connection


def reads(app: Running) -> bool:
    """Whether the router reads from its only client."""
    return connection_of(app)._transport.is_reading()


def narrow(app: Running) -> None:
    """Has the kernel take little of what the router sends to its only client."""
    fileno = connection_of(app)._transport.get_extra_info("socket").fileno()
    with socket.socket(fileno=os.dup(fileno)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


async def test_when_many_requests_wait_no_more_are_read() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/slow"))
        await until(lambda: engine.seen)
        client.send(*[get("/1")] * 20)
        await until(lambda: not reads(app))
        client.send(*[get("/2")] * 100)
        hold.set()
        got = [(await client.answer()).body for _ in range(121)]
        assert got == [b"/slow", *[b"/1"] * 20, *[b"/2"] * 100]
        assert reads(app)


async def test_when_large_bodies_wait_no_more_are_read() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/slow"))
        await until(lambda: engine.seen)
        client.send(*[post(b"x" * 1_000_000, path="/1")] * 3)
        await until(lambda: not reads(app))
        hold.set()
        assert [(await client.answer()).body for _ in range(4)] == [b"/slow", b"/1", b"/1", b"/1"]
        assert reads(app)


async def test_more_requests_at_once_than_may_wait_are_refused() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/slow"))
        await until(lambda: engine.seen)
        client.send(*[get("/1")] * 200)
        await until(lambda: not reads(app))
        hold.set()
        assert [(await client.answer()).body for _ in range(129)] == [b"/slow", *[b"/1"] * 128]
        last = await client.answer()
        assert (last.status, last.headers[REASON]) == (400, "rejected-bad-request")
        assert (last.headers["connection"], await ends(client)) == ("close", True)


async def test_a_client_that_leaves_while_its_requests_wait_frees_their_places() -> None:
    hold = asyncio.Event()
    sets = ["transports.http.limits.inFlight=3"]
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app) as client, client_of(app) as other:
            client.send(get("/slow"), get("/1"), get("/2"))
            await until(lambda: engine.seen)
            assert (await other.ask(get("/3"))).status == 429
            client.leave()
            await until(lambda: not app.process.in_flight().total)
            assert [(await other.ask(*[get("/4")] * 3)).status, *[(await other.answer()).status for _ in "ab"]] == [
                200
            ] * 3
            assert engine.paths == ["/slow", "/4", "/4", "/4"]
            assert app.process.in_flight().total == 0


# -- Expect: 100-continue


async def test_a_client_that_asks_is_told_to_send_its_body() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        told = await client.ask(head_of_post(f"content-length: {len(CHAT)}", "expect: 100-continue"))
        assert (told.start, told.fields) == ("HTTP/1.1 100 Continue", [])
        assert (await client.ask(CHAT)).status == 200
        assert "expect" not in engine.seen[0].headers
        assert (await client.ask(get("/next"))).body == b"/next"


async def test_a_client_that_asks_is_told_when_its_turn_comes() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/slow"), head_of_post("transfer-encoding: chunked", "expect: 100-Continue", path="/1"))
        await until(lambda: engine.seen)
        hold.set()
        assert [(await client.answer()).start[9:12] for _ in "ab"] == ["200", "100"]
        assert (await client.ask(chunks(CHAT))).body == b"/1"


async def test_a_client_that_asks_and_sends_at_once_is_not_told() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(post(CHAT, "expect: 100-continue"))).status == 200


async def test_a_client_that_asks_for_too_much_is_not_told_to_send_it() -> None:
    sets = ["transports.http.limits.bodyBytes=2048"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        answer = await client.ask(head_of_post("content-length: 2049", "expect: 100-continue"))
        assert (answer.status, answer.headers["connection"], await ends(client)) == (413, "close", True)


async def test_a_client_that_asks_when_there_is_no_room_is_not_told_to_send() -> None:
    hold = asyncio.Event()
    sets = ["transports.http.limits.inFlight=1"]
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app) as busy, client_of(app) as client:
            busy.send(get("/slow"))
            await until(lambda: engine.seen)
            answer = await client.ask(head_of_post("content-length: 10", "expect: 100-continue"))
            assert (answer.status, answer.headers["connection"], await ends(client)) == (429, "close", True)


async def test_a_client_of_http_1_0_is_not_told_to_send() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(head_of_post(f"content-length: {len(CHAT)}", "expect: 100-continue", version="1.0"))
        await until(lambda: app.process.http_server().admission._serving)
        answer = await client.ask(CHAT)
        assert (answer.start, await ends(client)) == ("HTTP/1.0 200 OK", True)


async def test_another_expectation_can_not_be_met() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(post(CHAT, "expect: a-miracle"))).status == 400


# -- clients that are slow


SLOW_HEADS = {
    "one byte": b"G",
    "all but the empty line": get("/")[:-2],
    "the second one": get("/1") + b"GET /2 HTTP",
}


async def test_a_head_that_does_not_come_in_time_is_408(subtests: pytest.Subtests) -> None:
    sets = ["transports.http.timeouts.header=30ms"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app:
        for name, sent in SLOW_HEADS.items():
            with subtests.test(name):
                async with client_of(app) as client:
                    client.send(sent)
                    for _ in range(sent.count(b"\r\n\r\n")):
                        assert (await client.answer()).status == 200
                    answer = await client.answer()
                    assert (answer.status, answer.headers[REASON]) == (408, "rejected-timeout")
                    assert (answer.headers["connection"], await ends(client)) == ("close", True)
        assert await refusals(app, "ClientTimeout") == len(SLOW_HEADS)


SLOW_BODIES = {
    "nothing of it": head_of_post("content-length: 10"),
    "a part": head_of_post("content-length: 10") + b"{",
    "a chunk": head_of_post("transfer-encoding: chunked") + b"1\r\n{\r\n",
    "half a trailer section": head_of_post("transfer-encoding: chunked") + b"1\r\n{\r\n0\r\nx: y\r\n",
}


async def test_a_body_that_does_not_come_in_time_is_408(subtests: pytest.Subtests) -> None:
    sets = ["transports.http.timeouts.body=30ms"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app:
        for name, sent in SLOW_BODIES.items():
            with subtests.test(name):
                async with client_of(app) as client:
                    answer = await client.ask(sent)
                    assert (answer.status, answer.headers[REASON]) == (408, "rejected-timeout")
                    assert (answer.headers["connection"], await ends(client)) == ("close", True)
        assert (engine.seen, await refusals(app, "ClientTimeout")) == ([], len(SLOW_BODIES))


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\nx: ", head_of_post("content-length: 100000")], ids=["head", "body"]
)
async def test_what_drips_in_has_no_more_time(begin: bytes) -> None:
    sets = ["transports.http.timeouts.header=50ms", "transports.http.timeouts.body=50ms"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        client.send(begin)
        dripping = asyncio.create_task(drip(client, b"x"))
        assert (await client.answer()).status == 408
        dripping.cancel()


async def drip(client: Client, what: bytes) -> None:
    while True:
        client.send(what)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"\r\n\r\n\r"], ids=["nothing", "an empty line", "empty lines"])
async def test_a_connection_without_a_request_is_closed_silently(sent: bytes) -> None:
    sets = ["transports.http.timeouts.keepAlive=50ms"]
    async with running(sets=sets) as app, client_of(app) as client:
        client.send(sent)
        assert await ends(client)


async def test_a_connection_that_is_idle_after_a_request_is_closed_silently() -> None:
    sets = ["transports.http.timeouts.keepAlive=50ms"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        assert (await client.ask(get("/1"))).body == b"/1"
        assert await ends(client)


async def test_empty_lines_keep_no_connection_open() -> None:
    sets = ["transports.http.timeouts.keepAlive=50ms"]
    async with running(sets=sets) as app, client_of(app) as client:
        dripping = asyncio.create_task(drip(client, b"\r\n"))
        with suppress(ConnectionError):  # what drips in as it closes resets it
            assert await ends(client)
        dripping.cancel()


async def test_a_slow_answer_is_not_an_idle_connection() -> None:
    hold = asyncio.Event()
    sets = [f"transports.http.timeouts.{name}=30ms" for name in ("keepAlive", "header", "body")]
    async with (
        engine_of(holding(hold)) as engine,
        running(ports=[engine.port], sets=sets) as app,
        client_of(app) as client,
    ):
        client.send(get("/slow"))
        await until(lambda: engine.seen)
        await asyncio.sleep(0.1)
        hold.set()
        assert (await client.answer()).body == b"/slow"


# -- sizes


LARGE_HEADS = {
    "the target": get("/" + "x" * 1100),
    "a header": get("/", "x: " + "y" * 1100),
    "many headers": get("/", *["x: y"] * 200),
    "without an end": b"GET /" + b"x" * 1100,
    "the second one": get("/1") + get("/2", "x: " + "y" * 1100),
}


async def test_a_head_over_the_limit_is_431(subtests: pytest.Subtests) -> None:
    sets = ["transports.http.limits.headerBytes=1024"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app:
        for name, sent in LARGE_HEADS.items():
            with subtests.test(name):
                async with client_of(app) as client:
                    client.send(sent)
                    if sent.startswith(get("/1")):
                        assert (await client.answer()).status == 200
                    answer = await client.answer()
                    assert (answer.status, answer.headers[REASON]) == (431, "rejected-too-large")
                    assert (answer.headers["connection"], await ends(client)) == ("close", True)
        assert await refusals(app, "HeadersTooLarge") == len(LARGE_HEADS)


async def test_a_head_of_just_the_limit_is_taken() -> None:
    sets = ["transports.http.limits.headerBytes=1024"]
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        head = get("/", "x: ")
        assert (await client.ask(get("/", "x: " + "y" * (1024 - len(head))))).status == 200


SMALL_BODIES = ["transports.http.limits.bodyBytes=2048"]


async def test_a_body_that_says_it_is_over_the_limit_is_413_before_it_comes() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=SMALL_BODIES) as app:
        async with client_of(app) as client:
            answer = await client.ask(head_of_post("content-length: 2049"))
            assert (answer.status, answer.headers[REASON]) == (413, "rejected-too-large")
            assert (answer.headers["connection"], await ends(client), engine.seen) == ("close", True, [])
            assert await refusals(app, "BodyTooLarge") == 1


async def test_a_chunked_body_is_413_when_it_is_over_the_limit() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=SMALL_BODIES) as app:
        async with client_of(app) as client:
            client.send(head_of_post("transfer-encoding: chunked"), b"800\r\n", b"x" * 2048, b"\r\n")
            answer = await client.ask(b"1\r\nx\r\n")
            assert (answer.status, answer.headers["connection"], await ends(client)) == (413, "close", True)
            assert (engine.seen, await refusals(app, "BodyTooLarge")) == ([], 1)


@pytest.mark.parametrize("framing", ["content-length: 2048", "transfer-encoding: chunked"])
async def test_a_body_of_just_the_limit_is_taken(framing: str) -> None:
    body = CHAT.ljust(2048)
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=SMALL_BODIES) as app:
        async with client_of(app) as client:
            sent = chunks(body[:2000], body[2000:]) if "chunked" in framing else body
            assert (await client.ask(head_of_post(framing), sent)).status == 200
            assert engine.seen[0].body == body


@pytest.mark.parametrize("framing", ["content-length: 50000000", "transfer-encoding: chunked"])
async def test_a_client_that_is_still_sending_can_read_why_it_is_refused(framing: str) -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=SMALL_BODIES) as app:
        async with client_of(app) as client:
            client.send(head_of_post(framing))
            piece = b"10000\r\n%b\r\n" % (b"x" * 65536)
            for _ in range(100):
                client.send(piece)
                await client.writer.drain()
            assert (await client.answer()).status == 413
            assert await ends(client)


# -- what becomes of a connection after a refusal


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(post(b"{"), 400, id="400"),
        pytest.param(post(b"x" * 3000), 413, id="413"),
        pytest.param(
            head_of_post("transfer-encoding: chunked") + chunks(b"x" * 2000, b"x" * 2000), 413, id="413 chunked"
        ),
    ],
)
async def test_a_refused_request_that_was_whole_keeps_the_connection(sent: bytes, status: int) -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port], sets=SMALL_BODIES) as app:
        async with client_of(app) as client:
            answer = await client.ask(sent)
            assert (answer.status, "connection" in answer.headers) == (status, False)
            assert (await client.ask(get("/next"))).body == b"/next"


async def test_a_request_without_room_keeps_its_connection() -> None:
    hold = asyncio.Event()
    sets = ["transports.http.limits.inFlight=1"]
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app) as busy, client_of(app) as client:
            busy.send(get("/slow"))
            await until(lambda: engine.seen)
            answers = [await client.ask(post()) for _ in range(3)]
            assert [(one.status, "connection" in one.headers) for one in answers] == [(429, False)] * 3
            hold.set()
            assert (await busy.answer()).status == 200
            assert (await client.ask(get("/next"))).body == b"/next"


async def test_a_refused_request_whose_client_closes_is_told_so() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(post(b"{", "connection: close"))
        assert (answer.status, answer.headers["connection"], await ends(client)) == (400, "close", True)


# -- what is not served


UPGRADE = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-key: eA==", "sec-websocket-version: 13")


NOT_SERVED = {
    "websocket": get("/v1/realtime", *UPGRADE),
    "websocket or h2c": get("/", "connection: upgrade", "upgrade: h2c, websocket"),
    "CONNECT": b"CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n",
    "OPTIONS *": b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
    "another coding": head_of_post("transfer-encoding: gzip, chunked"),
}


async def test_what_is_not_served_is_501(subtests: pytest.Subtests) -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app:
        for name, sent in NOT_SERVED.items():
            with subtests.test(name):
                async with client_of(app) as client:
                    answer = await client.ask(sent, get("/next"))
                    assert (answer.status, answer.headers[REASON]) == (501, "rejected-unsupported")
                    assert (answer.headers["connection"], await ends(client)) == ("close", True)
        assert (engine.seen, await refusals(app, "Unsupported")) == ([], len(NOT_SERVED))


async def test_an_offer_of_http_2_is_passed_over() -> None:
    fields = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__")
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(get("/1", *fields))).body == b"/1"
        assert (await client.ask(post(CHAT, *fields))).status == 200
        assert (await client.ask(get("/3"))).body == b"/3"
        assert not {"upgrade", "http2-settings", "connection"} & {name for seen in engine.seen for name in seen.headers}


NO_REQUESTS = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no HTTP": b"hello\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": get("/", "host: b"),
    "bare line feeds": b"GET / HTTP/1.1\nhost: a\n\n",
    "a space before the colon": get("/", "x : y"),
    "a folded line": get("/", "x: y", " z"),
    "a carriage return in a value": get("/", "x: a\rb"),
    "a NUL in a value": get("/", "x: a\0b"),
    "two lengths": head_of_post("content-length: 1", "content-length: 2"),
    "length and chunks": head_of_post("content-length: 1", "transfer-encoding: chunked"),
    "a length that is none": head_of_post("content-length: +1"),
    "a chunk's size that is none": head_of_post("transfer-encoding: chunked") + b"g\r\n",
    "a chunk that is too long": head_of_post("transfer-encoding: chunked") + b"1\r\nxy\r\n",
    "a trailer of framing": head_of_post("transfer-encoding: chunked")
    + chunks(b"{}", trailers=b"content-length: 1\r\n"),
}


async def test_what_is_not_http_is_400_and_ends_the_connection(subtests: pytest.Subtests) -> None:
    ids = set()
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app:
        for name, sent in NO_REQUESTS.items():
            with subtests.test(name):
                async with client_of(app) as client:
                    answer = await client.ask(sent, get("/next"))
                    assert (answer.status, answer.headers[REASON]) == (400, "rejected-bad-request")
                    assert json.loads(answer.body)["error"]["type"] == "invalid_request_error"
                    assert (answer.headers["connection"], await ends(client)) == ("close", True)
                    ids.add(answer.headers["x-request-id"])
        assert (engine.seen, await refusals(app, "BadRequest"), len(ids)) == ([], len(NO_REQUESTS), len(NO_REQUESTS))


async def test_what_is_not_http_after_good_requests_is_told_in_its_turn() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/1"), get("/2"), b"hello\r\n\r\n")
        assert [(await client.answer()).status for _ in "abc"] == [200, 200, 400]
        assert (await ends(client), engine.paths) == (True, ["/1", "/2"])


async def test_a_body_that_is_broken_is_told_with_the_id_of_its_request() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(head_of_post("transfer-encoding: chunked", "x-request-id: r-7"), b"zz\r\n")
        assert (answer.status, answer.headers["x-request-id"]) == (400, "r-7")


# -- HTTP/1.0 and HEAD


async def test_a_client_of_http_1_0_may_ask_to_keep_its_connection() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        for path in ("/1", "/2"):
            answer = await client.ask(get(path, "connection: keep-alive", version="1.0"))
            assert (answer.start, answer.headers["connection"]) == ("HTTP/1.0 200 OK", "keep-alive")
        answer = await client.ask(get("/3", version="1.0"))
        assert (answer.body, answer.headers["connection"], await ends(client)) == (b"/3", "close", True)


async def test_a_client_of_http_1_0_needs_no_host() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        assert (await client.ask(b"GET /1 HTTP/1.0\r\n\r\n")).body == b"/1"


async def test_head_is_answered_without_a_body_and_the_next_request_after_it() -> None:
    async def talk(message: Message, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            ok(b"/next") if message.start.startswith("GET") else b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
        )

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/1").replace(b"GET", b"HEAD", 1), get("/next"))
        answer = await client.answer(with_body=False)
        assert (answer.status, answer.headers["content-length"]) == (200, "5")
        assert (await client.answer()).body == b"/next"
        assert len(engine.connections) == 1


async def test_head_is_refused_without_a_body() -> None:
    async with running() as app, client_of(app) as client:
        client.send(get("/1").replace(b"GET", b"HEAD", 1), get("/v1/models"))
        answer = await client.answer(with_body=False)
        assert (answer.status, answer.headers[REASON]) == (503, "rejected-no-endpoints")
        assert int(answer.headers["content-length"]) > 0
        assert (await client.answer()).start == "HTTP/1.1 503 Service Unavailable"


# -- the end of the server


@asynccontextmanager
async def stopping(app: Running) -> AsyncIterator[None]:
    """While the server drains, for as long as it takes."""
    stop = asyncio.create_task(app.drain(PATIENCE))
    await until(lambda: app.process.http_server().admission.draining)
    yield
    await stop


@pytest.mark.parametrize("sent", [b"", b"GET / HT", get("/1")], ids=["new", "within a head", "after a request"])
async def test_a_server_that_stops_closes_idle_connections(sent: bytes) -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(sent)
        if sent.endswith(b"\r\n\r\n"):
            assert (await client.answer()).status == 200
        await until(lambda: app.process.http_server()._connections)
        await until(lambda: connection_of(app)._decoder.within_head == (sent == b"GET / HT"))
        async with stopping(app):
            assert await ends(client)


async def test_a_connection_in_use_ends_with_its_answer_when_the_server_stops() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/slow"))
        await until(lambda: engine.seen)
        async with stopping(app):
            hold.set()
            assert ((await client.answer()).body, await ends(client)) == (b"/slow", True)


async def test_an_answer_that_begins_while_the_server_stops_says_that_its_connection_ends() -> None:
    hold = asyncio.Event()
    async with engine_of(holding(hold)) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/slow"))
        await until(lambda: engine.seen)
        async with stopping(app):
            hold.set()
            assert (await client.answer()).headers.get("connection") == "close"


async def test_a_request_whose_body_is_yet_to_come_is_served_when_the_server_stops() -> None:
    async with engine_of(echo) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(head_of_post(f"content-length: {len(CHAT)}"))
        await until(lambda: app.process.http_server().admission._serving)
        async with stopping(app):
            answer = await client.ask(CHAT)
            assert (answer.status, answer.headers["connection"], await ends(client)) == (200, "close", True)


async def test_a_request_that_comes_while_the_server_stops_is_refused_in_its_turn() -> None:
    hold = asyncio.Event()

    async def talk(message: Message, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbe")
        await hold.wait()
        writer.write(b"en")

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get("/1"))
        assert await client.reader.readuntil(b"\r\n\r\nbe")
        async with stopping(app):
            client.send(post())
            await until(lambda: app.process.http_server().admission._serving == 2)
            hold.set()
            assert await client.reader.readexactly(2) == b"en"
            answer = await client.answer()
            assert (answer.status, answer.headers[REASON]) == (503, "rejected-shutting-down")
            assert (answer.headers["connection"], await ends(client)) == ("close", True)
            assert engine.paths == ["/1"]


async def large(_: Message, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer that the router is glad to hold for a narrow client."""
    writer.write(ok(b"x" * 60_000))


async def test_an_answer_is_read_to_its_end_when_the_server_stops() -> None:
    await _read_while_the_server_stops()


async def test_the_last_answer_of_a_connection_is_read_to_its_end_when_the_server_stops() -> None:
    await _read_while_the_server_stops("connection: close")


async def _read_while_the_server_stops(*fields: str) -> None:
    async with engine_of(large) as engine, running(ports=[engine.port]) as app:
        async with client_of(app, receive_buffer=4096) as client:
            await until(lambda: app.process.http_server()._connections)
            narrow(app)
            client.send(get("/1", *fields))
            await client.reader.readuntil(b"\r\n\r\n")
            async with stopping(app):
                assert len(await client.reader.readexactly(60_000)) == 60_000


@pytest.mark.parametrize("fields", [(), ("connection: close",)], ids=["kept", "closed"])
async def test_a_client_that_does_not_take_the_end_of_its_answer_is_cut_off(fields: tuple[str, ...]) -> None:
    sets = ["transports.http.timeouts.idle=50ms", "transports.http.timeouts.keepAlive=50ms"]
    async with engine_of(large) as engine, running(ports=[engine.port], sets=sets) as app:
        async with client_of(app, receive_buffer=4096) as client:
            await until(lambda: app.process.http_server()._connections)
            narrow(app)
            client.writer.transport.pause_reading()
            client.send(get("/1", *fields))
            await until(lambda: engine.seen)
            await until(lambda: not app.process.in_flight().total)
            await until(lambda: not app.process.http_server()._connections, within=0.5)


@again_with_uvloop(
    test_requests_in_one_packet_are_answered_in_order,
    test_when_many_requests_wait_no_more_are_read,
    test_more_requests_at_once_than_may_wait_are_refused,
    test_a_client_that_leaves_while_its_requests_wait_frees_their_places,
    test_a_client_that_asks_is_told_to_send_its_body,
    test_a_chunked_body_is_413_when_it_is_over_the_limit,
    test_a_connection_that_is_idle_after_a_request_is_closed_silently,
    test_a_connection_in_use_ends_with_its_answer_when_the_server_stops,
    test_an_answer_is_read_to_its_end_when_the_server_stops,
)
def test_the_same_with_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    run_with_uvloop(test)


@again_with_uvloop(test_a_client_that_is_still_sending_can_read_why_it_is_refused)
def test_the_same_with_uvloop_however_the_body_comes(test: Callable[[str], Awaitable[None]]) -> None:
    run_with_uvloop(lambda: test("transfer-encoding: chunked"))
