"""The HTTP server: each request is served by the configuration that is current, also on connections that are open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from app.domain.errors import BadRequestError
from app.transports.http import server as module
from app.transports.http.codec.events import RequestHead
from app.transports.http.error_responses import refuse
from app.transports.http.incoming import IncomingRequest
from app.transports.http.response_writer import ResponseWriter
from app.transports.http.server import HttpServer
from app.transports.http.service import HttpService
from app.transports.listening import Address, Listening, OwnPorts, Sockets
from tests.support.running import until

GUARD = 20
FAR = 3600.0
LARGE = 64_000_000
"""More bytes than the buffers between two programs take."""


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 1000
    in_flight: int = 0
    header_bytes: int = 1000


@dataclass(frozen=True)
class Timeouts:
    header: float = FAR
    body: float = FAR
    keep_alive: float = FAR
    idle: float = FAR


class Handler:
    """Responds with its name and the size of the request's body, once `hold` is set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hold = asyncio.Event()
        self.hold.set()
        self.running = 0

    async def __call__(self, incoming: IncomingRequest, writer: ResponseWriter) -> None:
        if incoming.error is not None:
            refuse(writer, incoming.error, "r1", incoming.head)
            return
        self.running += 1
        await self.hold.wait()
        target = incoming.head.target if incoming.head else ""
        body = b"x" * LARGE if target == "/large" else f"{self.name} {incoming.size}".encode()
        writer.send(200, [], body)


def service(name: str = "a", *, limits: Limits | None = None, timeouts: Timeouts | None = None) -> HttpService:
    """A configuration; `models` serves its list of models."""
    return HttpService(Handler(name), Handler("models"), limits or Limits(), timeouts or Timeouts())


class Connection:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> tuple[int, str]:
        """Status and body of the response to `data`."""
        self.writer.write(data)
        return await self.response()

    async def response(self) -> tuple[int, str]:
        async with asyncio.timeout(GUARD):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            self.closes = "connection: close" in head
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            return int(head.split(" ")[1]), (await self.reader.readexactly(length)).decode()

    async def is_closed(self) -> bool:
        """Whether the server closes the connection without another byte."""
        async with asyncio.timeout(GUARD):
            return await self.reader.read() == b""


class Site:
    """A server, with the service that is current."""

    def __init__(self, current: HttpService) -> None:
        self.service = current
        self.server = HttpServer(lambda: self.service)
        self.sockets = Sockets(OwnPorts())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.sockets.port("http"), limit=1000)
        yield Connection(reader, writer)
        writer.transport.abort()

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109
        self.sockets.close("http")
        async with asyncio.timeout(GUARD):
            await self.server.drain(timeout)

    @property
    def open(self) -> int:
        return len(self.server._connections)


@asynccontextmanager
async def serving(current: HttpService | None = None) -> AsyncIterator[Site]:
    site = Site(current or service())
    listening = [Listening("http", Address("127.0.0.1", 0), site.server.connection)]
    await site.sockets.bind(listening)
    await site.sockets.serve(listening)
    yield site
    await site.drain(0)
    assert (site.open, site.server.admission._serving) == (0, 0)


def get(path: str = "/", header: int = 0) -> bytes:
    """A request; `header` bytes are added to its head."""
    return f"GET {path} HTTP/1.1\r\nhost: h\r\nx: {'x' * header}\r\n\r\n".encode()


def post(size: int) -> bytes:
    return f"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {size}\r\n\r\n".encode() + b"x" * size


def chunked(*sizes: int, end: bool = True) -> bytes:
    head = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks(*sizes) + (b"0\r\n\r\n" if end else b"")


def chunks(*sizes: int) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes)


# -- which handler


@pytest.mark.parametrize(
    ("method", "target", "invalid", "name"),
    [
        ("GET", "/v1/models", False, "models"),
        ("GET", "/v1/models?limit=1", False, "models"),
        ("GET", "/v1/models/x", False, "a"),
        ("GET", "/v1/models/", False, "a"),
        ("HEAD", "/v1/models", False, "a"),
        ("POST", "/v1/models", False, "a"),
        ("GET", "/v1/models", True, "a"),
        ("POST", "/v1/chat/completions", False, "a"),
    ],
)
async def test_the_model_list_has_a_handler_of_its_own(method: str, target: str, invalid: bool, name: str) -> None:
    called: list[str] = []

    def handler(its_name: str) -> Any:
        return lambda *_: called.append(its_name)

    head = RequestHead(method, target, [], None, chunked=False, keep_alive=True, http_1_1=True, expects_continue=False)
    incoming = IncomingRequest(head, BadRequestError("no") if invalid else None)
    served: Any = HttpService(handler("a"), handler("models"), Limits(), Timeouts()).serve
    served(incoming, None)
    served(IncomingRequest(None, BadRequestError("no head")), None)
    assert called == [name, "a"]


# -- a reload


async def test_requests_on_an_open_connection_are_served_by_the_current_configuration() -> None:
    async with serving() as site, site.connection() as client:
        found = [await client.send(post(3))]
        site.service = service("b")
        found += [await client.send(post(4)), await client.send(get("/v1/models"))]
        assert (found, site.open) == ([(200, "a 3"), (200, "b 4"), (200, "models 0")], 1)


async def test_a_running_request_ends_under_the_configuration_that_it_began_with() -> None:
    first: Any = service()
    first.handler.hold.clear()
    async with serving(first) as site, site.connection() as client:
        client.writer.write(post(3) + post(4))
        await until(lambda: first.handler.running)
        site.service = service("b")
        first.handler.hold.set()
        assert [await client.response(), await client.response()] == [(200, "a 3"), (200, "b 4")]


LOW, HIGH = 100, 500
"""Two limits in bytes, and below a request that only the second one allows."""


@pytest.mark.parametrize(
    ("limit", "request_", "error"),
    [
        pytest.param("header_bytes", get(header=200), 431, id="header bytes"),
        pytest.param("body_bytes", post(200), 413, id="body bytes, announced"),
        pytest.param("body_bytes", chunked(50, 150), 413, id="body bytes, in chunks"),
    ],
)
@pytest.mark.parametrize(("before", "after"), [(LOW, HIGH), (HIGH, LOW)], ids=["raised", "lowered"])
async def test_a_new_limit_counts_on_an_open_connection(
    limit: str, request_: bytes, error: int, before: int, after: int
) -> None:
    limits = [Limits(**{limit: value}) for value in (before, after)]
    async with serving(service(limits=limits[0])) as site, site.connection() as client:
        assert (await client.send(get()))[0] == 200
        site.service = service("b", limits=limits[1])
        assert (await client.send(request_))[0] == (200 if after == HIGH else error)


@pytest.mark.parametrize(("limit", "status"), [(1, 429), (2, 200), (0, 200)])
async def test_a_new_limit_counts_requests_that_are_in_flight(limit: int, status: int) -> None:
    first: Any = service()
    first.handler.hold.clear()
    async with serving(first) as site, site.connection() as one, site.connection() as other:
        one.writer.write(get())
        await until(lambda: first.handler.running)
        site.service = service("b", limits=Limits(in_flight=limit))
        assert (await other.send(get()))[0] == status
        first.handler.hold.set()
        assert await one.response() == (200, "a 0")


async def test_a_new_limit_counts_for_the_rest_of_a_body() -> None:
    async with serving() as site, site.connection() as client:
        client.writer.write(chunked(150, end=False))
        await until(lambda: site.server.admission._serving)
        site.service = service(limits=Limits(body_bytes=LOW))
        assert (await client.send(chunks(1) + b"0\r\n\r\n"))[0] == 413


async def test_a_new_keep_alive_timeout_counts_from_the_next_response() -> None:
    async with serving() as site, site.connection() as client:
        await client.send(get())
        site.service = service("b", timeouts=Timeouts(keep_alive=0.01))
        assert await client.send(get()) == (200, "b 0")
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        pytest.param("header", get()[:-2], id="header"),
        pytest.param("body", post(9)[:-1], id="body"),
        pytest.param("body", chunked(9, end=False), id="body in chunks"),
    ],
)
async def test_a_new_timeout_counts_for_the_next_request(setting: str, part: bytes) -> None:
    async with serving() as site, site.connection() as client:
        await client.send(get())
        site.service = service("b", timeouts=Timeouts(**{setting: 0.01}))
        assert (await client.send(part))[0] == 408


async def test_a_client_that_does_not_read_is_disconnected_after_the_new_timeout() -> None:
    async with serving() as site, site.connection() as client:
        await client.send(get())
        site.service = service("b", timeouts=Timeouts(idle=0.01))
        client.writer.write(get("/large"))
        await until(lambda: not site.open)


# -- draining


async def test_idle_connections_close_at_once() -> None:
    async with serving() as site, site.connection() as fresh, site.connection() as used:
        await used.send(get())
        await until(lambda: site.open == 2)
        await site.drain(FAR)
        assert [await fresh.is_closed(), await used.is_closed()] == [True, True]


async def test_a_running_request_gets_its_response_which_is_the_last() -> None:
    first: Any = service()
    first.handler.hold.clear()
    async with serving(first) as site, site.connection() as client:
        client.writer.write(post(3))
        await until(lambda: first.handler.running)
        draining = asyncio.create_task(site.drain(FAR))
        await until(lambda: site.server.admission.draining)
        first.handler.hold.set()
        assert (await client.response(), client.closes, await client.is_closed()) == ((200, "a 3"), True, True)
        await draining


async def test_a_request_that_arrives_while_draining_is_rejected() -> None:
    async with serving() as site, site.connection() as client:
        client.writer.write(get()[:-2])
        await until(lambda: site.open)
        site.server.admission.draining = True
        assert ((await client.send(b"\r\n"))[0], client.closes) == (503, True)


@pytest.mark.parametrize("path", ["/", "/large"], ids=["no response yet", "a client that does not read"])
async def test_requests_that_take_too_long_are_aborted(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH", 0.01)
    first: Any = service()
    if path == "/":
        first.handler.hold.clear()
    async with serving(first) as site, site.connection() as client:
        client.writer.write(get(path))
        await until(lambda: first.handler.running)
        await site.drain(0.01)
        await until(lambda: not site.open)
