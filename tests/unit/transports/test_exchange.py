"""A request on its way to an endpoint, and the answer that comes back over one connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.domain.errors import UpstreamError, UpstreamTimeoutError
from app.transports.http.codec.events import End, Field
from app.transports.http.exchange import (
    DroppedError,
    EndpointConnection,
    OutgoingRequest,
    Response,
    StalledClientError,
    Timeouts,
)

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
            id="with nothing but trailers",
        ),
    ],
)  # fmt: skip
def test_a_request_goes_out_byte_by_byte_like_that(outgoing: OutgoingRequest, expected: bytes) -> None:
    assert b"".join(outgoing.encoded(b"h:1")) == expected


def test_a_request_may_be_encoded_for_one_endpoint_after_the_other() -> None:
    outgoing = OutgoingRequest("POST", "/", [(b"a", b"1")], b"{}", [(b"t", b"1")])
    first, second = b"".join(outgoing.encoded(b"h:1")), b"".join(outgoing.encoded(b"h:2"))
    assert first.replace(b"h:1", b"h:2") == second


def test_a_body_is_not_copied() -> None:
    body = b"x" * 1000
    for trailers in ((), ((b"t", b"1"),)):
        assert any(part is body for part in OutgoingRequest("POST", "/", NO_HEADERS, body, trailers).encoded(b"h:1"))


# -- the answer


class Transport:
    """Takes down what happens; `left` is what it has not sent yet."""

    def __init__(self) -> None:
        self.said = b""
        self.closing = False
        self.reading = True
        self.left = 0

    def write(self, data: bytes) -> None:
        self.said += data

    def writelines(self, data: list[bytes]) -> None:
        self.said += b"".join(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def get_write_buffer_size(self) -> int:
        return self.left

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Writer:
    """The client's side."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.end: End | None = None
        self.source: Response | None = None

    def write(self, pieces: list[bytes], end: End | None = None) -> None:
        self.got += pieces
        self.end = end

    def attach(self, source: Response) -> None:
        self.source = source


class Given:
    """A connection that is open, and what it told of itself."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.transport = Transport()
        self.writer: Any = Writer()
        loop = asyncio.get_running_loop()
        self.connection = EndpointConnection(
            loop, lambda _: self.told.append("open"), lambda _: self.told.append("idle"), lambda _: self.told.append("lost")
        )  # fmt: skip
        self.connection.connection_made(cast(asyncio.Transport, cast(Any, self.transport)))

    def send(self, *, method: str = "GET", patience: Timeouts = FAR) -> Response:
        return self.connection.send("e", b"h:1", OutgoingRequest(method, "/", [], b"", says_length=False), patience)

    def says(self, *data: bytes) -> None:
        for some in data:
            self.connection.data_received(some)

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


async def test_an_answer_that_came_whole_is_passed_on_at_once(given: Given) -> None:
    answer = given.send()
    given.says(HEAD + b"done")
    assert (answer.begun.done(), answer.head.status) == (True, 200)
    assert answer.pass_on(given.writer) is None
    assert (b"".join(given.writer.got), given.writer.end) == (b"done", End())
    answer.close()
    assert (given.told, given.connection.is_open) == (["open", "idle"], True)


async def test_an_answer_that_comes_in_pieces_is_passed_on_as_it_comes(given: Given) -> None:
    answer = given.send()
    given.says(HEAD, b"d")
    rest = answer.pass_on(given.writer)
    assert rest is not None
    assert given.writer.got == [b"d"]
    given.says(b"on", b"e")
    assert (given.writer.got, given.writer.end, rest.done()) == ([b"d", b"on", b"e"], End(), True)


async def test_a_connection_is_used_for_one_answer_after_the_other(given: Given) -> None:
    for _ in range(3):
        answer = given.send()
        given.says(HEAD + b"done")
        answer.pass_on(given.writer)
        answer.close()
    assert given.told == ["open", "idle", "idle", "idle"]
    assert given.transport.said == b"GET / HTTP/1.1\r\nhost: h:1\r\n\r\n" * 3


async def test_an_answer_to_head_ends_with_its_head(given: Given) -> None:
    answer = given.send(method="HEAD")
    given.says(HEAD)
    assert (answer.pass_on(given.writer), answer.head.content_length, given.writer.end) == (None, 4, End())


@pytest.mark.parametrize(
    "said", [b"", HEAD + b"do", HEAD + b"done!", HEAD.replace(b"1.1", b"1.0") + b"done"],
    ids=["nothing", "half of it", "too much", "1.0"],
)  # fmt: skip
async def test_a_connection_that_can_not_be_used_again_is_closed(given: Given, said: bytes) -> None:
    answer = given.send()
    given.says(*([said] if said else []))
    answer.close()
    assert (given.connection.is_open, given.told) == (False, ["open"])


async def test_a_connection_that_has_not_sent_the_request_yet_is_closed(given: Given) -> None:
    answer = given.send()
    given.transport.left = 1
    given.says(HEAD + b"done")
    answer.close()
    assert not given.connection.is_open


async def test_a_client_that_takes_nothing_holds_the_endpoint_back(given: Given) -> None:
    answer = given.send()
    given.says(HEAD + b"d")
    answer.pass_on(given.writer)
    assert given.writer.source is answer
    answer.pause()
    assert not given.transport.reading
    answer.resume()
    assert given.transport.reading


async def test_a_connection_that_was_held_back_is_read_again_when_it_is_idle(given: Given) -> None:
    answer = given.send()
    given.says(HEAD + b"d")
    answer.pass_on(given.writer)
    answer.pause()
    given.says(b"one")
    answer.close()
    assert (given.transport.reading, given.told) == (True, ["open", "idle"])


async def test_data_that_nobody_asked_for_ends_the_connection(given: Given) -> None:
    given.says(HEAD)
    assert not given.connection.is_open


# -- failures


async def test_a_connection_that_is_lost_before_an_answer_drops_the_request(given: Given) -> None:
    answer = given.send()
    given.lose()
    failure = await failure_of(answer.begun)
    assert isinstance(failure, DroppedError)
    assert (failure.endpoint, failure.reused, given.told) == ("e", False, ["open", "lost"])


@pytest.mark.parametrize(
    ("said", "reused"), [(b"", True), (b"HTTP/1.1 1", False)], ids=["without a word", "after a word"]
)
async def test_a_request_dropped_on_a_used_connection_says_so(given: Given, said: bytes, reused: bool) -> None:
    first = given.send()
    given.says(HEAD + b"done")
    first.close()
    answer = given.send()
    given.says(*([said] if said else []))
    given.connection.eof_received()
    failure = await failure_of(answer.begun)
    assert isinstance(failure, DroppedError)
    assert failure.reused is reused


async def test_an_answer_that_breaks_off_is_a_failure(given: Given) -> None:
    answer = given.send()
    given.says(HEAD + b"do")
    rest = answer.pass_on(given.writer)
    given.lose()
    assert rest is not None
    assert "broke off" in str(await failure_of(rest))
    assert given.writer.got == [b"do"]


async def test_an_answer_that_broke_off_before_it_was_passed_on_is_a_failure(given: Given) -> None:
    answer = given.send()
    given.says(HEAD + b"do")
    given.lose()
    with pytest.raises(UpstreamError, match="broke off"):
        answer.pass_on(given.writer)
    assert given.writer.got == [b"do"]


async def test_an_answer_without_a_length_ends_with_the_connection(given: Given) -> None:
    answer = given.send()
    given.says(b"HTTP/1.1 200 OK\r\n\r\nhe")
    rest = answer.pass_on(given.writer)
    given.says(b"llo")
    given.connection.eof_received()
    assert rest is not None
    await rest
    assert (b"".join(given.writer.got), given.writer.end) == (b"hello", End((), reusable=False))


async def test_what_is_no_answer_is_a_failure_and_not_a_drop(given: Given) -> None:
    answer = given.send()
    given.says(b"SSH-2.0-OpenSSH\r\n\r\n")
    failure = await failure_of(answer.begun)
    assert (type(failure), given.connection.is_open) == (UpstreamError, False)


async def test_an_answer_that_does_not_begin_is_a_timeout(given: Given) -> None:
    failure = await failure_of(given.send(patience=SOON).begun)
    assert (type(failure), given.connection.is_open) == (UpstreamTimeoutError, False)


async def test_an_answer_that_stalls_is_a_failure(given: Given) -> None:
    answer = given.send(patience=SOON)
    given.says(HEAD + b"do")
    rest = answer.pass_on(given.writer)
    assert rest is not None
    assert "no more for 0.01 s" in str(await failure_of(rest))


async def test_a_client_that_stalls_is_not_the_endpoint_s_failure(given: Given) -> None:
    answer = given.send(patience=SOON)
    given.says(HEAD + b"do")
    rest = answer.pass_on(given.writer)
    answer.pause()
    assert rest is not None
    assert isinstance(await failure_of(rest), StalledClientError)


async def test_an_answer_that_ended_can_not_fail(given: Given) -> None:
    answer = given.send()
    given.says(HEAD + b"done")
    given.lose()
    assert answer.pass_on(given.writer) is None
    answer.close()
    assert given.told == ["open", "lost"]
