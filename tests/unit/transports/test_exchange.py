"""A request to an endpoint, and the response over one connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.domain.errors import UpstreamError, UpstreamTimeoutError
from app.transports.http.codec.events import End, Field
from app.transports.http.exchange import EndpointConnection
from app.transports.http.outgoing import OutgoingRequest
from app.transports.http.response import DroppedError, Response, StalledClientError, Timeouts

NO_HEADERS: list[Field] = []
FAR = Timeouts(20.0, 20.0, 20.0)
SOON = Timeouts(20.0, 0.01, 0.01)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


# -- the request


@pytest.mark.parametrize(
    ("outgoing", "expected"),
    [
        pytest.param(
            OutgoingRequest("POST", "/x?y=%2F", [(b"a", b"1"), (b"a", b"2")], b"{}"),
            b"POST /x?y=%2F HTTP/1.1\r\nhost: h:1\r\na: 1\r\na: 2\r\ncontent-length: 2\r\n\r\n{}",
            id="with a body",
        ),
        pytest.param(
            OutgoingRequest("POST", "/", NO_HEADERS, b""),
            b"POST / HTTP/1.1\r\nhost: h:1\r\ncontent-length: 0\r\n\r\n",
            id="with an empty body",
        ),
        pytest.param(
            OutgoingRequest("GET", "/", NO_HEADERS, b"", says_length=False),
            b"GET / HTTP/1.1\r\nhost: h:1\r\n\r\n",
            id="without a body",
        ),
        pytest.param(
            OutgoingRequest("GET", "/", NO_HEADERS, b"{}", says_length=False),
            b"GET / HTTP/1.1\r\nhost: h:1\r\ncontent-length: 2\r\n\r\n{}",
            id="with a body after all",
        ),
        pytest.param(
            OutgoingRequest("POST", "/", NO_HEADERS, b"x" * 16, [(b"t", b"1"), (b"t", b"2")]),
            b"POST / HTTP/1.1\r\nhost: h:1\r\ntransfer-encoding: chunked\r\n\r\n10\r\n" + b"x" * 16 + b"\r\n0\r\nt: 1\r\nt: 2\r\n\r\n",
            id="with trailers",
        ),
        pytest.param(
            OutgoingRequest("POST", "/", NO_HEADERS, b"", [(b"t", b"1")]),
            b"POST / HTTP/1.1\r\nhost: h:1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nt: 1\r\n\r\n",
            id="with only trailers",
        ),
    ],
)  # fmt: skip
def test_the_bytes_of_a_request(outgoing: OutgoingRequest, expected: bytes) -> None:
    assert b"".join(outgoing.encoded(b"h:1")) == expected


def test_a_request_can_be_encoded_for_several_endpoints() -> None:
    outgoing = OutgoingRequest("POST", "/", [(b"a", b"1")], b"{}", [(b"t", b"1")])
    first, second = b"".join(outgoing.encoded(b"h:1")), b"".join(outgoing.encoded(b"h:2"))
    assert first.replace(b"h:1", b"h:2") == second


def test_a_body_is_not_copied() -> None:
    body = b"x" * 1000
    for trailers in ((), ((b"t", b"1"),)):
        assert any(part is body for part in OutgoingRequest("POST", "/", NO_HEADERS, body, trailers).encoded(b"h:1"))


# -- the response


class Transport:
    """Records what is written; `unsent` is the size of its write buffer."""

    def __init__(self) -> None:
        self.written = b""
        self.closing = False
        self.reading = True
        self.unsent = 0

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, data: list[bytes]) -> None:
        self.written += b"".join(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Writer:
    """Where the response goes."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.end: End | None = None
        self.source: Response | None = None

    def write(self, chunks: list[bytes], end: End | None = None) -> None:
        self.got += chunks
        self.end = end

    def attach(self, source: Response) -> None:
        self.source = source


class Given:
    """An open connection, and the events it reports to its pool."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.heads: list[int] = []
        self.transport = Transport()
        self.writer: Any = Writer()
        loop = asyncio.get_running_loop()
        self.connection = EndpointConnection(
            loop, lambda _: self.events.append("open"), lambda _: self.events.append("idle"), lambda _: self.events.append("lost")
        )  # fmt: skip
        self.connection.connection_made(cast(asyncio.Transport, cast(Any, self.transport)))

    def send(self, *, method: str = "GET", timeouts: Timeouts = FAR, hold: bool = False) -> Response:
        request = OutgoingRequest(method, "/", [], b"", says_length=False)
        return self.connection.send("e", b"h:1", request, timeouts, on_head=self.heads.append, hold_stream_head=hold)

    def receives(self, *data: bytes) -> None:
        for part in data:
            self.connection.data_received(part)

    def lose(self) -> None:
        self.transport.closing = True
        self.connection.connection_lost(None)


@pytest.fixture
async def given() -> Given:
    return Given()


async def failure_of(waiting: asyncio.Future[None]) -> Exception:
    async with asyncio.timeout(10):
        with pytest.raises((UpstreamError, StalledClientError)) as caught:
            await waiting
    return caught.value


async def test_a_complete_response_is_passed_on_at_once(given: Given) -> None:
    response = given.send()
    given.receives(HEAD + b"done")
    assert (response.begun.done(), response.head.status) == (True, 200)
    assert response.pass_on(given.writer) is None
    assert (b"".join(given.writer.got), given.writer.end) == (b"done", End())
    response.close()
    assert (given.events, given.connection.is_open) == (["open", "idle"], True)


async def test_a_response_in_chunks_is_passed_on_as_it_arrives(given: Given) -> None:
    response = given.send()
    given.receives(HEAD, b"d")
    rest = response.pass_on(given.writer)
    assert rest is not None
    assert given.writer.got == [b"d"]
    given.receives(b"on", b"e")
    assert (given.writer.got, given.writer.end, rest.done()) == ([b"d", b"on", b"e"], End(), True)


async def test_a_connection_is_reused(given: Given) -> None:
    for _ in range(3):
        response = given.send()
        given.receives(HEAD + b"done")
        response.pass_on(given.writer)
        response.close()
    assert given.events == ["open", "idle", "idle", "idle"]
    assert given.transport.written == b"GET / HTTP/1.1\r\nhost: h:1\r\n\r\n" * 3


async def test_a_response_to_head_ends_with_its_head(given: Given) -> None:
    response = given.send(method="HEAD")
    given.receives(HEAD)
    assert (response.pass_on(given.writer), response.head.content_length, given.writer.end) == (None, 4, End())


@pytest.mark.parametrize(
    "data", [b"", HEAD + b"do", HEAD + b"done!", HEAD.replace(b"1.1", b"1.0") + b"done"],
    ids=["nothing", "half of it", "too much", "1.0"],
)  # fmt: skip
async def test_a_connection_that_can_not_be_reused_is_closed(given: Given, data: bytes) -> None:
    response = given.send()
    given.receives(*([data] if data else []))
    response.close()
    assert (given.connection.is_open, given.events) == (False, ["open"])


async def test_a_connection_that_has_not_sent_the_request_yet_is_closed(given: Given) -> None:
    response = given.send()
    given.transport.unsent = 1
    given.receives(HEAD + b"done")
    response.close()
    assert not given.connection.is_open


async def test_a_client_that_does_not_read_pauses_the_endpoint(given: Given) -> None:
    response = given.send()
    given.receives(HEAD + b"d")
    response.pass_on(given.writer)
    assert given.writer.source is response
    response.pause()
    assert not given.transport.reading
    response.resume()
    assert given.transport.reading


async def test_a_paused_connection_is_resumed_when_it_becomes_idle(given: Given) -> None:
    response = given.send()
    given.receives(HEAD + b"d")
    response.pass_on(given.writer)
    response.pause()
    given.receives(b"one")
    response.close()
    assert (given.transport.reading, given.events) == (True, ["open", "idle"])


async def test_data_without_a_request_ends_the_connection(given: Given) -> None:
    given.receives(HEAD)
    assert not given.connection.is_open


# -- failures


async def test_a_connection_that_is_lost_before_the_response_drops_the_request(given: Given) -> None:
    response = given.send()
    given.lose()
    failure = await failure_of(response.begun)
    assert isinstance(failure, DroppedError)
    assert (failure.endpoint, failure.reused, given.events) == ("e", False, ["open", "lost"])


@pytest.mark.parametrize(
    ("data", "reused"), [(b"", True), (b"HTTP/1.1 1", False)], ids=["before any data", "after some data"]
)
async def test_a_dropped_request_says_whether_its_connection_was_reused(
    given: Given, data: bytes, reused: bool
) -> None:
    first = given.send()
    given.receives(HEAD + b"done")
    first.close()
    response = given.send()
    given.receives(*([data] if data else []))
    given.connection.eof_received()
    failure = await failure_of(response.begun)
    assert isinstance(failure, DroppedError)
    assert failure.reused is reused


async def test_an_aborted_response_is_a_failure(given: Given) -> None:
    response = given.send()
    given.receives(HEAD + b"do")
    rest = response.pass_on(given.writer)
    given.lose()
    assert rest is not None
    assert "before the end of its response" in str(await failure_of(rest))
    assert given.writer.got == [b"do"]


async def test_a_response_that_was_aborted_before_it_is_passed_on_is_a_failure(given: Given) -> None:
    response = given.send()
    given.receives(HEAD + b"do")
    given.lose()
    with pytest.raises(UpstreamError, match="before the end of its response"):
        response.pass_on(given.writer)
    assert given.writer.got == [b"do"]


async def test_a_response_without_a_length_ends_with_the_connection(given: Given) -> None:
    response = given.send()
    given.receives(b"HTTP/1.1 200 OK\r\n\r\nhe")
    rest = response.pass_on(given.writer)
    given.receives(b"llo")
    given.connection.eof_received()
    assert rest is not None
    await rest
    assert (b"".join(given.writer.got), given.writer.end) == (b"hello", End((), reusable=False))


async def test_an_invalid_response_is_a_failure_and_not_a_drop(given: Given) -> None:
    response = given.send()
    given.receives(b"SSH-2.0-OpenSSH\r\n\r\n")
    failure = await failure_of(response.begun)
    assert (type(failure), given.connection.is_open) == (UpstreamError, False)


async def test_a_response_that_does_not_begin_is_a_timeout(given: Given) -> None:
    failure = await failure_of(given.send(timeouts=SOON).begun)
    assert (type(failure), given.connection.is_open) == (UpstreamTimeoutError, False)


async def test_a_stalled_response_is_a_failure(given: Given) -> None:
    response = given.send(timeouts=SOON)
    given.receives(HEAD + b"do")
    rest = response.pass_on(given.writer)
    assert rest is not None
    assert "nothing more for 0.01 s" in str(await failure_of(rest))


async def test_a_stalled_client_is_not_a_failure_of_the_endpoint(given: Given) -> None:
    response = given.send(timeouts=SOON)
    given.receives(HEAD + b"do")
    rest = response.pass_on(given.writer)
    response.pause()
    assert rest is not None
    assert isinstance(await failure_of(rest), StalledClientError)


async def test_a_complete_response_can_not_fail(given: Given) -> None:
    response = given.send()
    given.receives(HEAD + b"done")
    given.lose()
    assert response.pass_on(given.writer) is None
    response.close()
    assert given.events == ["open", "lost"]


# -- the head of an event stream

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"9\r\ndata: x\n\n\r\n"
UNTIL_CLOSE = STREAM.replace(b"transfer-encoding: chunked\r\n", b"")


@pytest.mark.parametrize("body", [EVENT, b"1\r\n:\r\n"], ids=["an event", "part of a comment"])
async def test_the_head_of_a_stream_is_held_until_its_first_bytes(given: Given, body: bytes) -> None:
    response = given.send(hold=True)
    given.receives(STREAM)
    assert (response.begun.done(), given.heads) == (False, [200])
    given.receives(body[:3])
    assert not response.begun.done()
    given.receives(body[3:])
    assert (response.begun.done(), response.held) == (True, False)
    response.pass_on(given.writer)
    given.receives(b"0\r\n\r\n")
    assert (b"".join(given.writer.got), given.writer.end) == (body[3:-2], End())
    response.close()
    assert (given.events, given.heads) == (["open", "idle"], [200])


@pytest.mark.parametrize("data", [STREAM + EVENT, STREAM + EVENT + b"0\r\n\r\n"], ids=["its beginning", "all of it"])
async def test_a_stream_in_one_packet_begins_at_once(given: Given, data: bytes) -> None:
    response = given.send(hold=True)
    given.receives(data)
    response.begun.result()
    response.pass_on(given.writer)
    assert given.writer.got == [b"data: x\n\n"]


@pytest.mark.parametrize(
    ("method", "hold", "head"),
    [
        pytest.param("GET", False, STREAM, id="switched off"),
        pytest.param("HEAD", True, STREAM, id="HEAD"),
        pytest.param("GET", True, HEAD, id="another type"),
        pytest.param("GET", True, STREAM.replace(b"text/event-stream", b"text/event-streams"), id="a similar type"),
        pytest.param("GET", True, STREAM.replace(b"200 OK", b"204 No Content"), id="204"),
        pytest.param("GET", True, STREAM.replace(b"200 OK", b"304 Not Modified"), id="304"),
        pytest.param("GET", True, STREAM.replace(b"200 OK", b"302 Found"), id="302"),
        pytest.param("GET", True, STREAM.replace(b"200 OK", b"500 Oh No"), id="500"),
        pytest.param("GET", True, STREAM.replace(b"transfer-encoding: chunked", b"content-length: 0"), id="no length"),
    ],
)
async def test_other_heads_are_not_held(given: Given, method: str, hold: bool, head: bytes) -> None:
    response = given.send(method=method, hold=hold)
    given.receives(head)
    response.begun.result()
    assert (response.held, given.heads) == (False, [response.head.status])


async def test_a_stream_that_ends_without_an_event_is_a_failure_that_leaves_the_connection(given: Given) -> None:
    response = given.send(hold=True)
    given.receives(STREAM, b"0\r\n\r\n")
    failure = await failure_of(response.begun)
    assert (type(failure), str(failure)) == (
        UpstreamError, "the model server failed before it responded: it ended its event stream without an event"
    )  # fmt: skip
    response.close()
    assert (given.connection.is_open, given.events) == (True, ["open", "idle"])
    again = given.send(hold=True)
    given.receives(STREAM + EVENT)
    assert again.begun.done()


async def test_a_stream_without_a_length_may_end_without_an_event_too(given: Given) -> None:
    response = given.send(hold=True)
    given.receives(UNTIL_CLOSE)
    given.connection.eof_received()
    assert "without an event" in str(await failure_of(response.begun))
    response.close()
    assert not given.connection.is_open


@pytest.mark.parametrize("used", [False, True], ids=["a new connection", "a reused one"])
@pytest.mark.parametrize("how", ["lost", "closed", "invalid"])
async def test_a_stream_that_breaks_before_its_first_event_is_a_failure(given: Given, how: str, used: bool) -> None:
    if used:
        first = given.send()
        given.receives(HEAD + b"done")
        first.close()
    response = given.send(hold=True)
    given.receives(STREAM)
    if how == "invalid":
        given.receives(b"no chunk\r\n")
    elif how == "closed":
        given.connection.eof_received()
    else:
        given.lose()
    failure = await failure_of(response.begun)
    assert type(failure) is UpstreamError  # and not dropped: the endpoint got the request
    assert ("not valid HTTP" if how == "invalid" else "closed the connection before the first event") in str(failure)
    response.close()


async def test_a_held_stream_has_the_time_of_a_response_and_not_that_of_a_chunk(given: Given) -> None:
    response = given.send(timeouts=Timeouts(20.0, 0.2, 0.01), hold=True)
    given.receives(STREAM)
    await asyncio.sleep(0.05)
    assert not response.begun.done()
    failure = await failure_of(response.begun)
    assert (type(failure), given.connection.is_open) == (UpstreamTimeoutError, False)
    assert "no event within 0.2 s, though its response head arrived" in str(failure)


async def test_a_stream_that_has_begun_has_the_time_of_a_chunk(given: Given) -> None:
    response = given.send(timeouts=Timeouts(20.0, 20.0, 0.01), hold=True)
    given.receives(STREAM, EVENT)
    rest = response.pass_on(given.writer)
    assert rest is not None
    assert "nothing more for 0.01 s" in str(await failure_of(rest))


async def test_a_client_may_leave_while_the_head_is_held(given: Given) -> None:
    response = given.send(hold=True)
    given.receives(STREAM)
    response.begun.cancel()
    given.receives(EVENT, b"0\r\n")
    response.close()
    assert not given.connection.is_open
    given.connection.connection_lost(None)
