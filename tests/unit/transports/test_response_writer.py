"""The bytes of a response that a client gets."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.domain.errors import BadRequestError
from app.transports.http.codec.events import End, Field, RequestHead, ResponseHead
from app.transports.http.incoming import IncomingRequest
from app.transports.http.response_writer import ResponseWriter


class Transport:
    """Records what happens."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = ""

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


class Source:
    """Records when it is paused."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")


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


def written(length: int | None, chunks: list[list[bytes]], end: End | None, **request: bool) -> bytes:
    """What is written of an endpoint's response whose end comes with the last of `chunks`."""
    transport = Transport()
    writer = writer_on(transport, incoming(**request))
    writer.begin(head(length), [] if length is None else [(b"content-length", b"%d" % length)])
    for number, part in enumerate(chunks, 1):
        writer.write(part, end if number == len(chunks) else None)
    return transport.written


def test_the_head_is_sent_with_the_first_chunk() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(5), [(b"content-length", b"5")])
    assert (transport.written, writer.begun) == (b"", True)
    writer.write([b"hel"])
    assert transport.written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"
    writer.write([b"l", b"o"], End())
    assert (transport.written[-5:], writer.closes) == (b"hello", False)


def test_the_chunks_of_a_body_are_relayed_once_they_are_written() -> None:
    transport, relayed = Transport(), list[Any]()
    writer = writer_on(transport)
    writer.relay = lambda chunks: relayed.append((list(chunks), transport.written[-5:]))
    writer.begin(head(5), [(b"content-length", b"5")])
    writer.write([])
    writer.write([b"hel"])
    writer.write([b"l", b"o"])
    writer.write([], End())
    assert relayed == [([b"hel"], b"\r\nhel"), ([b"l", b"o"], b"hello")]


def test_the_head_is_sent_alone_if_no_chunk_has_arrived() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(), [])
    writer.write([])
    assert transport.written == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    got = written(None, [[b"hel", b"lo"], [b"!"], []], End())
    assert got.endswith(b"chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")


def test_the_end_is_sent_with_the_last_chunk_if_they_arrive_together() -> None:
    assert written(None, [[b"hi"]], End()).endswith(b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n")


def test_trailers_are_sent_except_framing_fields() -> None:
    trailers: list[Field] = [(b"x-sum", b"1"), (b"content-length", b"9"), (b"trailer", b"x"), (b"host", b"h")]
    assert written(None, [[b"hi"]], End(trailers)).endswith(b"\r\n0\r\nx-sum: 1\r\n\r\n")


def test_trailers_are_dropped_after_a_body_of_known_length() -> None:
    assert written(2, [[b"hi"]], End([(b"x", b"1")])).endswith(b"\r\n\r\nhi")


def test_for_http_1_0_a_body_of_unknown_length_ends_with_the_connection() -> None:
    got = written(None, [[b"he"], [b"llo"]], End([(b"x", b"1")]), http_1_1=False)
    assert got == b"HTTP/1.0 200 OK\r\nconnection: close\r\n\r\nhello"


def test_for_http_1_0_keep_alive_is_announced() -> None:
    assert written(2, [[b"hi"]], End(), http_1_1=False) == (
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nhi"
    )


@pytest.mark.parametrize("length", [None, 5])
def test_a_response_without_a_body_is_only_a_head(length: int | None) -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(length, bodiless=True), [] if length is None else [(b"content-length", b"5")])
    writer.write([], End())
    expected = b"" if length is None else b"content-length: 5\r\n"
    assert transport.written == b"HTTP/1.1 200 OK\r\n" + expected + b"\r\n"


@pytest.mark.parametrize(
    ("reason", "line"), [(b"", b"HTTP/1.1 404 Not Found"), (b"Not Found", b"HTTP/1.1 404 Not Found"), (b"Gone \xe9", b"HTTP/1.1 404 Gone \xe9")]
)  # fmt: skip
def test_the_reason_phrase_is_the_endpoint_s(reason: bytes, line: bytes) -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(0, status=404, reason=reason), [])
    writer.write([], End())
    assert transport.written.startswith(line + b"\r\n")


# -- the end of the connection


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
def test_a_response_says_whether_the_connection_closes(request_: IncomingRequest, closes: bool, expected: bool) -> None:
    transport = Transport()
    writer = writer_on(transport, request_, closes=closes)
    writer.send(200, [(b"x", b"y")], b"hi")
    ending = b"connection: close\r\n" if expected else b""
    assert transport.written == b"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 2\r\n" + ending + b"\r\nhi"
    assert (writer.closes, writer.begun) == (expected, True)


def test_a_response_to_head_has_the_length_of_the_omitted_body() -> None:
    transport = Transport()
    writer_on(transport).send(404, [], b"gone", with_body=False)
    assert transport.written == b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\n"


def test_an_incomplete_response_ends_without_a_last_chunk() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(), [])
    writer.write([b"hi"])
    writer.break_off()
    assert transport.written.endswith(b"2\r\nhi\r\n")
    assert (transport.ended, writer.closes) == ("closed", True)


def test_an_incomplete_response_has_at_least_its_head() -> None:
    transport = Transport()
    writer = writer_on(transport)
    writer.begin(head(5), [(b"content-length", b"5")])
    writer.break_off()
    assert transport.written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"


def test_an_incomplete_response_in_http_1_0_resets_the_connection() -> None:
    transport = Transport()
    writer = writer_on(transport, incoming(http_1_1=False))
    writer.begin(head(), [])
    writer.write([b"hi"])
    writer.break_off()
    assert transport.ended == "aborted"


def test_nothing_is_written_to_a_closing_connection() -> None:
    transport = Transport()
    writer = writer_on(transport)
    transport.close()
    writer.send(200, [], b"hi")
    assert transport.written == b""


# -- back-pressure


def test_a_source_is_paused_while_the_client_does_not_read() -> None:
    source, writer = Source(), writer_on(Transport())
    writer.attach(source)
    writer.pause()
    writer.resume()
    assert source.calls == ["pause", "resume"]


@pytest.mark.parametrize("before", [True, False], ids=["before the response", "during the response"])
def test_a_source_is_paused_from_the_start_if_the_client_does_not_read(before: bool) -> None:
    source, writer = Source(), writer_on(Transport(), paused=before)
    if not before:
        writer.pause()
    writer.attach(source)
    assert source.calls == ["pause"]


def test_a_source_is_not_paused_if_the_client_resumed_reading_before() -> None:
    source, writer = Source(), writer_on(Transport(), paused=True)
    writer.resume()
    writer.attach(source)
    assert source.calls == []
