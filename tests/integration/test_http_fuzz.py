"""Bytes with faults, from clients and from endpoints: nothing passes that the codec refuses, and nothing breaks.

What the codec makes of an input is worked out beside the router, from the same bytes. Both sides of the router are
sockets and readers of their own here, which share nothing with its codec.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from app.transports.http.codec.events import End, Event, Refused, RequestHead, ResponseHead
from app.transports.http.codec.requests import RequestDecoder
from app.transports.http.codec.responses import ResponseDecoder, ResponseError
from app.transports.http.exchange import HEADER_BYTES
from app.transports.http.headers import to_endpoint, trailing
from tests.support.running import Running, running, until

REASON = b"x-llm-d-request-dropped-reason"
HEAD_LIMIT = 32 * 1024
BODY_LIMIT = 64 * 2**20
AT_ONCE = 16
BATCH = 500
QUIET = ["pool.scrape.interval=1h", "pool.scrape.staleAfter=2h", "pool.models.interval=0s"]
UNJUDGED = b"/fuzz"
"""Begins all paths whose bodies are nobody's business. Others may be refused, if the body makes no sense."""

Pieces = list[bytes]


# -- the inputs

REQUESTS = [
    b"GET /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\n\r\n",
    b"GET /fuzz/ID?a=b%20c HTTP/1.1\r\nHost: [::1]:80\r\nAccept: */*\r\nx-fuzz: ID\r\nx-a: b\r\nx-a:\r\n\r\n",
    b"GET http://h/fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\nconnection: x-b, close\r\nx-b: c\r\n\r\n",
    b"GET /fuzz/ID HTTP/1.0\r\nx-fuzz: ID\r\n\r\n",
    b"HEAD /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\n\r\n",
    b"OPTIONS /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\ncontent-length: 0\r\n\r\n",
    b"POST /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\ncontent-length: 5\r\n\r\nhello",
    b"POST /fuzz/ID HTTP/1.0\r\nx-fuzz: ID\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello",
    b"POST /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n{\n}\n",
    b"POST /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    (
        b"POST /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n"
        b'2;a=b\r\nhe\r\n3;c="d"\r\nllo\r\n0\r\nx-t: y\r\n\r\n'
    ),
    (
        b"PUT /fuzz/ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
        b"content-length: 46\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: h\r\nx-fuzz: 0\r\n\r\n"
    ),
    (
        b"POST /v1/chat/completions?ID HTTP/1.1\r\nhost: h\r\nx-fuzz: ID\r\ncontent-type: application/json\r\n"
        b'content-length: 69\r\n\r\n{"model": "demo", "messages": [{"role": "user", "content": "hello"}]}'
    ),
]

ANSWERS = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    ),
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nx-t: y\r\n\r\n",
    b"HTTP/1.1 200\r\n\r\nuntil the end",
    b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\netag: x\r\n\r\n",
    b"HTTP/1.0 200 Fine\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 500 Broken\r\nconnection: close\r\ncontent-length: 3\r\nset-cookie: a\r\nset-cookie: b\r\n\r\noh!",
]

WORDS = [
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"\0", b"\x0b", b":", b",", b";", b"0", b"5", b"\xff", b"#", b"-1"),
    *(b" HTTP/1.1", b" HTTP/1.0", b"HTTP/2.0", b"GET ", b"POST /", b"CONNECT ", b"chunked", b"close", b"0\r\n\r\n", b"%0d%0a"),
    *(b"5\r\nhello\r\n", b"fffffffff\r\n", b"\xef\xbb\xbf", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"x" * 5000),
]  # fmt: skip

LINES = [
    *(b"content-length: 5", b"content-length: 6", b"content-length: 0", b"Content-Length : 5", b"content-length: +5"),
    *(b"content-length: 5, 5", b"content-length:", b"content-length: 99999999999999999999", b"content-length: 99999999999"),
    *(b"transfer-encoding: chunked", b"transfer-encoding: xchunked", b"Transfer-Encoding:\tchunked", b"transfer-encoding : chunked"),
    *(b"transfer-encoding: gzip, chunked", b"transfer-encoding: identity", b" transfer-encoding: chunked", b"x: y\n z: w"),
    *(b"host: other", b"host:", b"connection: close", b"connection: keep-alive", b"connection: host, x-fuzz", b"upgrade: websocket"),
    *(b"expect: 100-continue", b"expect: x", b"x-a: \r b", b": b", b"x y: z", b"x\0: y", b"x-a: \x80\xff", b"te: trailers"),
]  # fmt: skip


def flipped(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def inserted(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(WORDS) + data[at:]


def deleted(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + data[at + random.choice((1, 1, 2, 10)) :]


def with_a_line_twice(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\r\n")
    at = random.randrange(len(lines))
    return b"\r\n".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])


def with_another_line(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\r\n")
    at = random.randrange(1, len(lines) + 1)
    return b"\r\n".join([*lines[:at], random.choice(LINES), *lines[at:]])


def with_another_line_end(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\r\n")
    at = random.randrange(1, max(2, len(lines)))
    end = random.choice((b"\n", b"\r", b"\r\r\n", b"\n\r", b" \r\n", b"\r\n ", b"\r\n\t"))
    return b"\r\n".join(lines[:at]) + end + b"\r\n".join(lines[at:])


def truncated(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(1, len(data) + 1)]


MUTATIONS = [
    *(flipped, inserted, deleted, with_a_line_twice, with_another_line, with_another_line, with_another_line_end, truncated)
]  # fmt: skip


def mutated(data: bytes, random: Random) -> bytes:
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        data = random.choice(MUTATIONS)(data, random) or data
    return data


def cut(data: bytes, random: Random) -> Pieces:
    """In one to four pieces; seldom byte by byte."""
    if random.random() < 0.02:
        return [data[i : i + 1] for i in range(len(data))]
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 0, 1, 2, 3))))
    cuts = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    return [piece for piece in cuts if piece]


# -- what is made of them


class Passed(NamedTuple):
    """A request as an endpoint is to get it, and as it got it."""

    method: bytes
    target: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    """Sorted, without the host, the id, and what tells the length."""
    body: bytes
    trailers: tuple[tuple[bytes, bytes], ...]


class Awaited(NamedTuple):
    """An answer that the client is to get: to `request`, or a refusal by the codec."""

    request: Passed | None
    has_body: bool = True
    may_be_refused: bool = False


@dataclass
class Verdict:
    """What the codec makes of a connection's bytes."""

    awaited: list[Awaited] = field(default_factory=list)
    closes: bool = False
    """Whether the router ends the connection."""


def verdict_on(data: bytes) -> Verdict:
    verdict = Verdict()
    head: RequestHead | None = None
    body = b""
    for event in RequestDecoder(header_bytes=HEAD_LIMIT).feed(data):
        if isinstance(event, RequestHead):
            head, body = event, b""
        elif isinstance(event, bytes):
            body += event
        elif isinstance(event, End):
            assert head is not None
            request = passed(head, body, event)
            judged = not request.target.startswith(UNJUDGED)
            verdict.awaited.append(Awaited(request, head.method != "HEAD", judged))
            verdict.closes = not head.keep_alive
            head = None
        elif isinstance(event, Refused):
            verdict.awaited.append(Awaited(None, head is None or head.method != "HEAD"))
            verdict.closes = True
            return verdict
    if head is not None and (head.content_length or 0) > BODY_LIMIT:
        verdict.awaited.append(Awaited(None, head.method != "HEAD"))
        verdict.closes = True
    return verdict


def passed(head: RequestHead, body: bytes, end: End) -> Passed:
    fields = sorted(pair for pair in to_endpoint(head.headers, b"") if pair[0] != b"x-request-id")
    return Passed(head.method.encode(), head.target.encode(), tuple(fields), body, tuple(trailing(end.trailers)))


# -- reading, strictly


class MalformedError(Exception):
    """What came is not HTTP/1.1 as the router is to write it."""


Fields = list[tuple[bytes, bytes]]


class Wire:
    """Reads and writes one socket."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self._loop = asyncio.get_running_loop()
        self._data = b""

    async def more(self) -> None:
        """Raises `EOFError` at the end."""
        data = await self._loop.sock_recv(self.link, 65536)
        if not data:
            raise EOFError
        self._data += data

    async def until(self, end: bytes) -> bytes:
        while end not in self._data:
            await self.more()
        found, _, self._data = self._data.partition(end)
        return found

    async def exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            await self.more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    async def rest(self) -> bytes:
        """All that comes until the end."""
        with contextlib.suppress(EOFError):
            while True:
                await self.more()
        found, self._data = self._data, b""
        return found

    async def head(self) -> tuple[bytes, Fields]:
        """The first line and the fields, their names in lower case."""
        first, *lines = (await self.until(b"\r\n\r\n")).split(b"\r\n")
        return first, fields_of(first, lines)

    async def chunks(self, into: bytearray) -> Fields:
        """Fills `into`, returns the trailers."""
        while True:
            size = await self.until(b"\r\n")
            if not re.fullmatch(rb"[0-9a-f]{1,8}", size):
                raise MalformedError(size)
            if not int(size, 16):
                break
            into += await self.exactly(int(size, 16))
            if await self.exactly(2) != b"\r\n":
                raise MalformedError("a chunk without its end")
        lines = []
        while line := await self.until(b"\r\n"):
            lines.append(line)
        return fields_of(b"", lines)

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.link, data)


def fields_of(first: bytes, lines: list[bytes]) -> Fields:
    fields = []
    for line in lines:
        match = re.fullmatch(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([\t\x20-\x7e\x80-\xff]*)", line)
        if match is None or re.search(rb"[\r\n\0]", first):
            raise MalformedError(first, line)
        fields.append((match[1].lower(), match[2]))
    return fields


def values(fields: Fields, name: bytes) -> list[bytes]:
    return [value for key, value in fields if key == name]


def length_of(fields: Fields) -> int | None:
    """None if it is chunked, 0 if nothing is said."""
    lengths, codings = values(fields, b"content-length"), values(fields, b"transfer-encoding")
    if len(lengths) + len(codings) > 1 or codings not in ([], [b"chunked"]):
        raise MalformedError(fields)
    return None if codings else int(lengths[0]) if lengths else 0


@dataclass
class Got:
    """An answer as the client got it."""

    status: int = 0
    fields: Fields = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False

    @property
    def refused(self) -> bool:
        """Whether it is the router's own."""
        return bool(values(self.fields, REASON))


async def answer_on(wire: Wire, *, has_body: bool, http_1_0: bool = False) -> Got:
    """The next final answer, or what came of it."""
    got = Got()
    with contextlib.suppress(EOFError, ConnectionError):
        while got.status < 200:
            first, got.fields = await wire.head()
            match = re.fullmatch(rb"HTTP/1\.[01] ([1-9][0-9]{2}) [\t\x20-\x7e\x80-\xff]*", first)
            if match is None:
                raise MalformedError(first)
            got.status = int(match[1])
        length = length_of(got.fields)
        if has_body and got.status not in (204, 304):
            if length is None:
                await wire.chunks(got.body)
            elif http_1_0 and not values(got.fields, b"content-length"):
                while True:
                    try:
                        got.body += await wire.exactly(1)
                    except EOFError:
                        break
            else:
                for _ in range(length):
                    got.body += await wire.exactly(1)
        got.whole = True
    return got


# -- the router between two sockets

Talk = Callable[[Wire], Any]


@contextlib.asynccontextmanager
async def listening(talk: Talk) -> AsyncIterator[int]:
    """A server whose connections are each given to `talk`; gives its port."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        server.settimeout(0)
        tasks: set[asyncio.Task[None]] = set()

        async def serve(link: socket.socket) -> None:
            with link, contextlib.suppress(EOFError, ConnectionError):
                await talk(Wire(link))

        async def accept() -> None:
            while True:
                link, _ = await loop.sock_accept(server)
                link.settimeout(0)
                tasks.add(task := loop.create_task(serve(link)))
                task.add_done_callback(tasks.discard)

        accepting = loop.create_task(accept())
        try:
            yield server.getsockname()[1]
        finally:
            everything = [accepting, *tasks]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)


@dataclass
class Under:
    """A router under test."""

    app: Running
    faults: list[Any]
    """What is wrong, each with the input that it came of."""

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Wire]:
        with socket.socket() as link:
            link.settimeout(0)
            await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", self.app.port))
            yield Wire(link)

    async def each(self, inputs: Iterable[Any], try_: Callable[[Any], Any]) -> None:
        """Tries the inputs, a few at once."""
        following = iter(inputs)

        async def some() -> None:
            for given in following:
                try:
                    async with asyncio.timeout(20):
                        await try_(given)
                except (MalformedError, TimeoutError, EOFError, ConnectionError) as error:
                    self.faults.append((repr(error), given))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(some())


@contextlib.asynccontextmanager
async def router_before(talk: Talk) -> AsyncIterator[Under]:
    """A router with one endpoint, which speaks by `talk`. Whatever it logs as an error is a fault, and what the event
    loop is told of."""
    faults: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    with capture_logs() as logs:
        async with listening(talk) as port, running(ports=[port], sets=QUIET) as app:
            under = Under(app, faults)
            yield under
            await until(lambda: app.process.in_flight().total == 0)
    faults += [line for line in logs if line["log_level"] in ("error", "critical")]
    assert not faults, f"{len(faults)}, the first of them: {faults[:3]}"


# -- faults of clients


@dataclass
class Recorder:
    """An endpoint that keeps the requests it gets, and answers each with its target."""

    got: list[Passed] = field(default_factory=list)
    faults: list[Any] = field(default_factory=list)

    async def talk(self, wire: Wire) -> None:
        while True:
            try:
                await self._exchange(wire)
            except MalformedError as error:
                self.faults.append(("the endpoint got", error))
                return

    async def _exchange(self, wire: Wire) -> None:
        first, fields = await wire.head()
        if first == b"GET /metrics HTTP/1.1":
            await wire.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        match = re.fullmatch(rb"([A-Z-]+) (/[\x21-\xff]*) HTTP/1\.1", first)
        if match is None or len(values(fields, b"host")) != 1:
            raise MalformedError(first, fields)
        body, trailers, length = bytearray(), [], length_of(fields)
        if length is None:
            trailers = await wire.chunks(body)
        else:
            body += await wire.exactly(length)
        own = (b"host", b"x-request-id", b"content-length", b"transfer-encoding")
        kept = tuple(sorted(pair for pair in fields if pair[0] not in own))
        self.got.append(Passed(match[1], match[2], kept, bytes(body), tuple(trailers)))
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(match[2])
        await wire.send(answer if match[1] == b"HEAD" else answer + match[2])


def inputs_of(count: int, random: Random) -> Iterator[Pieces]:
    """Connections' bytes: one to three requests with faults; each request has a number of its own."""
    number = 0
    for _ in range(count):
        messages = []
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            number += 1
            messages.append(random.choice(REQUESTS).replace(b"ID", b"%d" % number))
        whole = mutated(b"".join(messages), random)
        yield cut(whole, random)


async def fuzz_requests(count: int, seed: int) -> Counter[str]:
    """Tells how many were what."""
    recorder, random, told = Recorder(), Random(seed), Counter[str]()
    async with router_before(recorder.talk) as under:
        awaited: list[Passed] = []

        async def try_(pieces: Pieces) -> None:
            verdict = verdict_on(b"".join(pieces))
            async with under.connection() as wire:
                with contextlib.suppress(ConnectionError):  # it is closed when the router has seen enough
                    for piece in pieces:
                        await wire.send(piece)
                        await asyncio.sleep(0)
                for expected in verdict.awaited:
                    got = await answer_on(wire, has_body=expected.has_body)
                    if fault := fault_of(got, expected):
                        under.faults.append((fault, got, pieces))
                        return
                    if expected.request is not None and not got.refused:
                        awaited.append(expected.request)
                    told["refused by the router" if got.refused else "passed"] += 1
                    told["refused by the codec"] += expected.request is None
                if verdict.closes:
                    with contextlib.suppress(ConnectionError):
                        if rest := await wire.rest():
                            under.faults.append(("there is more", rest, pieces))

        remaining = inputs_of(count, random)
        while batch := [pieces for _, pieces in zip(range(BATCH), remaining, strict=False)]:
            await under.each(batch, try_)
            got, wanted = Counter(recorder.got), Counter(awaited)
            if got != wanted:
                under.faults.append({"passed, and should not": got - wanted, "should have passed": wanted - got})
            told["inputs"] += len(batch)
            recorder.got.clear()
            awaited.clear()
        under.faults += recorder.faults
    return told


def fault_of(got: Got, expected: Awaited) -> str:
    """What is wrong with it, if anything."""
    if not got.whole:
        return "there is no whole answer"
    if expected.request is None:
        return "" if got.refused and got.status in (400, 413, 431, 501) else "it should be refused"
    if got.refused:
        return "" if expected.may_be_refused and got.status == 400 else "it should be served"
    right = got.status == 200 and (not expected.has_body or got.body == expected.request.target)
    return "" if right else "it is another one's answer"


async def test_endpoints_get_exactly_what_the_codec_takes() -> None:
    told = await fuzz_requests(1_000, 1)
    assert min(told["passed"], told["refused by the codec"]) > told["inputs"] // 10  # else there is little to it


@pytest.mark.fuzz
async def test_endpoints_get_exactly_what_the_codec_takes_of_a_hundred_thousand() -> None:
    await fuzz_requests(100_000, 2)


# -- faults of endpoints


class Answered(NamedTuple):
    """What an endpoint answers to one request, and what the codec makes of it."""

    number: int
    method: bytes
    http_1_0: bool
    pieces: Pieces
    keeps: bool
    """Whether the endpoint waits for another request after it."""
    readings: Sequence[tuple[int, bytes] | None]
    """Status and body, however it arrives; None is a refusal."""


def reading_of(pieces: Pieces, *, head_only: bool, ends: bool = True) -> tuple[int, bytes] | None:
    """None if that is no answer, or none that has come to its end."""
    decoder = ResponseDecoder(header_bytes=HEADER_BYTES)
    decoder.expect(head_only=head_only)
    head, body = None, b""
    try:
        for event in _events(decoder, pieces, ends=ends):
            if isinstance(event, ResponseHead):
                head = event
            elif isinstance(event, bytes):
                body += event
            elif isinstance(event, End) and head is not None:
                return head.status, body
    except ResponseError:
        pass
    return None


def _events(decoder: ResponseDecoder, pieces: Pieces, *, ends: bool) -> Iterator[Event]:
    for piece in pieces:
        yield from decoder.feed(piece)
    if ends:
        yield from decoder.end()


def answers_of(count: int, random: Random) -> Iterator[Answered]:
    for number in range(count):
        method = random.choice((b"GET", b"GET", b"POST", b"HEAD"))
        head_only = method == b"HEAD"
        whole = mutated(random.choice(ANSWERS), random)
        pieces = cut(whole, random)
        if reading_of(pieces[:-1], head_only=head_only, ends=False):
            pieces = [whole]  # what comes after an answer's end may else come when the connection is in use again
        readings = [reading_of(way, head_only=head_only) for way in ([whole], pieces)]
        keeps = len(pieces) == 1 and random.random() < 0.5
        yield Answered(number, method, random.random() < 0.1, pieces, keeps, readings)


async def fuzz_answers(count: int, seed: int) -> Counter[str]:
    """Tells how many were what."""
    told = Counter[str]()
    under_way: dict[bytes, Answered] = {}

    async def talk(wire: Wire) -> None:
        while True:
            first, _ = await wire.head()
            if first == b"GET /metrics HTTP/1.1":
                await wire.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                continue
            answered = under_way[first.split()[1]]
            for piece in answered.pieces:
                await wire.send(piece)
                await asyncio.sleep(0)
            if not answered.keeps:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await wire.more()
                    continue
            return

    async with router_before(talk) as under:

        async def try_(answered: Answered) -> None:
            target = b"/fuzz/%d" % answered.number
            under_way[target] = answered
            version = b"1.0" if answered.http_1_0 else b"1.1"
            async with under.connection() as wire:
                await wire.send(b"%b %b HTTP/%b\r\nhost: h\r\n\r\n" % (answered.method, target, version))
                got = await answer_on(wire, has_body=answered.method != b"HEAD", http_1_0=answered.http_1_0)
            del under_way[target]
            outcome = "refused" if got.refused else "whole" if got.whole else "broken off"
            told[outcome] += 1
            if (got.refused and (not got.whole or got.status != 503)) or not is_one_of(got, answered.readings):
                under.faults.append((outcome, got, answered))

        await under.each(answers_of(count, random=Random(seed)), try_)
    return told


def is_one_of(got: Got, readings: Sequence[tuple[int, bytes] | None]) -> bool:
    """Whether it is what the codec makes of the endpoint's bytes."""
    if got.refused or not got.whole:
        return None in readings
    return (got.status, bytes(got.body)) in readings


async def test_whatever_an_endpoint_answers_is_passed_on_whole_or_broken_off_or_refused() -> None:
    told = await fuzz_answers(500, 3)
    assert min(told["whole"], told["refused"]) > 80
    assert told["broken off"] > 0  # how many depends on how bytes come


@pytest.mark.fuzz
async def test_whatever_an_endpoint_answers_of_thirty_thousand_is_passed_on_whole_or_broken_off_or_refused() -> None:
    await fuzz_answers(30_000, 4)
