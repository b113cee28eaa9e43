"""What the client's side of the wire gets of an answer, byte by byte."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.domain.errors import BadRequestError
from app.transports.http.codec.events import End, Field, RequestHead, ResponseHead
from app.transports.http.incoming import IncomingRequest
from app.transports.http.response_writer import ResponseWriter


class Transport:
    """Takes down what happens."""

    def __init__(self) -> None:
        self.said = b""
        self.ended = ""

    def write(self, data: bytes) -> None:
        self.said += data

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


class Source:
    """Takes down when it is held back."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def incoming(*, http_1_1: bool = True, keep_alive: bool = True, whole: bool = True) -> IncomingRequest:
    made = IncomingRequest(RequestHead("GET", "/", [], None, False, keep_alive, http_1_1, False), None)  # noqa: FBT003
    made.whole = whole
    return made


def writer_on(
    transport: Transport, request: IncomingRequest | None = None, *, closes: bool = False, paused: bool = False
) -> ResponseWriter:
    taken = cast(asyncio.Transport, cast(Any, transport))
    return ResponseWriter(taken, request or incoming(), closes=closes, paused=paused)


def head(
    length: int | None = None, *, status: int = 200, reason: bytes = b"OK", bodiless: bool = False
) -> ResponseHead:
    return ResponseHead(status, reason, [], length, bodiless)


def said(length: int | None, pieces: list[list[bytes]], end: End | None, **request: bool) -> bytes:
    """An answer of an endpoint, its end coming with the last piece."""
    transport = Transport()
    writer = writer_on(transport, incoming(**request))
    writer.begin(head(length), [] if length is None else [(b"content-length", b"%d" % length)])
    for number, some in enumerate(pieces, 1):
        writer.write(some, end if number == len(pieces) else None)
    return transport.said


def test_a_head_goes_out_with_the_first_piece() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(5), [(b"content-length", b"5")])
    assert (transport.said, writer.begun) == (b"", True)
    writer.write([b"hel"])
    assert transport.said == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"
    writer.write([b"l", b"o"], End())
    assert (transport.said[-5:], writer.sent, writer.closes) == (b"hello", 5, False)


def test_a_head_goes_out_alone_when_nothing_else_is_there_yet() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(), [])
    writer.write([])
    assert transport.said == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def test_a_body_of_unknown_length_goes_out_in_chunks() -> None:
    got = said(None, [[b"hel", b"lo"], [b"!"], []], End())
    assert got.endswith(b"chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")


def test_an_end_that_comes_with_its_body_goes_out_with_it() -> None:
    assert said(None, [[b"hi"]], End()).endswith(b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n")


def test_trailers_go_out_but_those_of_framing() -> None:
    trailers: list[Field] = [(b"x-sum", b"1"), (b"content-length", b"9"), (b"trailer", b"x"), (b"host", b"h")]
    assert said(None, [[b"hi"]], End(trailers)).endswith(b"\r\n0\r\nx-sum: 1\r\n\r\n")


def test_trailers_have_no_place_after_a_body_of_known_length() -> None:
    assert said(2, [[b"hi"]], End([(b"x", b"1")])).endswith(b"\r\n\r\nhi")


def test_for_http_1_0_a_body_of_unknown_length_ends_with_the_connection() -> None:
    got = said(None, [[b"he"], [b"llo"]], End([(b"x", b"1")]), http_1_1=False)
    assert got == b"HTTP/1.0 200 OK\r\nconnection: close\r\n\r\nhello"


def test_for_http_1_0_a_connection_that_is_kept_is_announced() -> None:
    assert said(2, [[b"hi"]], End(), http_1_1=False) == (
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nhi"
    )


@pytest.mark.parametrize("length", [None, 5])
def test_an_answer_without_a_body_is_all_head(length: int | None) -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(length, bodiless=True), [] if length is None else [(b"content-length", b"5")])
    writer.write([], End())
    expected = b"" if length is None else b"content-length: 5\r\n"
    assert transport.said == b"HTTP/1.1 200 OK\r\n" + expected + b"\r\n"


@pytest.mark.parametrize(
    ("reason", "line"), [(b"", b"HTTP/1.1 404 Not Found"), (b"Not Found", b"HTTP/1.1 404 Not Found"), (b"Gone \xe9", b"HTTP/1.1 404 Gone \xe9")]
)  # fmt: skip
def test_the_reason_is_the_endpoint_s(reason: bytes, line: bytes) -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(0, status=404, reason=reason), [])
    writer.write([], End())
    assert transport.said.startswith(line + b"\r\n")


# -- the connection's end


@pytest.mark.parametrize(
    ("request_", "closes", "expected"),
    [
        pytest.param(incoming(), False, False, id="kept"),
        pytest.param(incoming(), True, True, id="the server stops"),
        pytest.param(incoming(keep_alive=False), False, True, id="the client closes"),
        pytest.param(incoming(whole=False), False, True, id="not read to its end"),
        pytest.param(IncomingRequest(None, BadRequestError("x")), False, True, id="no request"),
    ],
)
def test_an_answer_says_whether_the_connection_ends(request_: IncomingRequest, closes: bool, expected: bool) -> None:
    transport = Transport()
    writer = writer_on(transport, request_, closes=closes)
    writer.whole(200, [(b"x", b"y")], b"hi")
    ending = b"connection: close\r\n" if expected else b""
    assert transport.said == b"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 2\r\n" + ending + b"\r\nhi"
    assert (writer.closes, writer.begun) == (expected, True)


def test_an_answer_to_head_says_the_length_of_what_it_does_not_say() -> None:
    transport = Transport()
    writer_on(transport).whole(404, [], b"gone", with_body=False)
    assert transport.said == b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\n"


def test_an_answer_that_breaks_off_ends_without_its_last_chunk() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(), [])
    writer.write([b"hi"])
    writer.break_off()
    assert transport.said.endswith(b"2\r\nhi\r\n")
    assert (transport.ended, writer.closes) == ("closed", True)


def test_an_answer_that_breaks_off_at_once_has_its_head() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(5), [(b"content-length", b"5")])
    writer.break_off()
    assert transport.said == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"


def test_an_answer_that_breaks_off_for_http_1_0_does_not_end_in_good_order() -> None:
    transport = Transport()
    writer = writer_on(transport, incoming(http_1_1=False))
    writer.begin(head(), [])
    writer.write([b"hi"])
    writer.break_off()
    assert transport.ended == "aborted"


def test_nothing_is_written_to_a_connection_that_closes() -> None:
    transport = Transport()
    writer = writer_on(transport)
    transport.close()
    writer.whole(200, [], b"hi")
    assert transport.said == b""


# -- back-pressure


def test_a_source_is_held_back_while_the_client_takes_nothing() -> None:
    source, writer = Source(), writer_on(Transport())
    writer.attach(source)
    writer.pause()
    writer.resume()
    assert source.told == ["pause", "resume"]


@pytest.mark.parametrize("before", [True, False], ids=["before the answer", "since the answer began"])
def test_a_source_is_held_back_from_the_start_if_the_client_takes_nothing(before: bool) -> None:
    source, writer = Source(), writer_on(Transport(), paused=before)
    if not before:
        writer.pause()
    writer.attach(source)
    assert source.told == ["pause"]


def test_a_client_that_takes_something_again_before_there_is_a_source_holds_nothing_back() -> None:
    source, writer = Source(), writer_on(Transport(), paused=True)
    writer.resume()
    writer.attach(source)
    assert source.told == []
