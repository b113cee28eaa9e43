"""Responses of endpoints: the events they are decoded to, and whether the connection can be reused."""

from __future__ import annotations

from typing import Any

import pytest

from app.transports.http.codec.events import End, ResponseHead
from app.transports.http.codec.responses import ResponseDecoder, ResponseError
from tests.unit.transports.codec.given import Events, joined, responses_of, splits

OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"content-length: 2\r\n\r\nhi"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
TE = (b"transfer-encoding", b"chunked")
CL = (b"content-length", b"2")
LAST = End((), reusable=False)


def head(*fields: tuple[bytes, bytes], **more: Any) -> ResponseHead:
    return ResponseHead(
        **{"status": 200, "reason": b"OK", "headers": fields, "content_length": None, "bodiless": False, **more}
    )


WHOLE_EVENTS = [head(CL, content_length=2), b"hi", End()]


def every(data: bytes, **how: Any) -> Events:
    """The events of `data`. Asserts that they are the same however it is split."""
    whole = responses_of(data, **how)
    assert all(responses_of(*parts, **how) == whole for parts in splits(data))
    return whole


def fails(data: bytes, **how: Any) -> bool:
    """Whether it is an error however it is split, at the latest when the connection ends."""
    return all(responses_of(*parts, ends=True, **how)[-1] is ResponseError for parts in splits(data))


@pytest.mark.parametrize(
    ("data", "events"),
    [
        pytest.param(WHOLE, WHOLE_EVENTS, id="length"),
        pytest.param(OK + b"Content-Length: 2\r\n\r\n\r\n", [head(CL, content_length=2), b"\r\n", End()], id="a body of line ends"),
        pytest.param(OK + b"content-length: 0\r\n\r\n", [head((b"content-length", b"0"), content_length=0), End()], id="length 0"),
        pytest.param(OK + b"content-length: 2 \r\n\r\nhi", WHOLE_EVENTS, id="white space after a value"),
        pytest.param(OK + b"content-length:\t2\t\r\n\r\nhi", WHOLE_EVENTS, id="tabs around a value"),
        pytest.param(OK + b"transfer-encoding: chunked \t\r\n\r\n0\r\n\r\n", [head(TE), End()], id="white space after the coding"),
        pytest.param(CHUNKED + b"0\r\n\r\n", [head(TE), End()], id="chunked and empty"),
        pytest.param(CHUNKED + b"1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n", [head(TE), b"hi", End()], id="chunks"),
        pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\nX: Y\r\n\r\n", [head(TE), b"hi", End(((b"x", b"Y"),))], id="trailers"),
        pytest.param(OK + b"set-cookie: a\r\nSet-Cookie: b\r\ncontent-length: 0\r\n\r\n", [head((b"set-cookie", b"a"), (b"set-cookie", b"b"), (b"content-length", b"0"), content_length=0), End()], id="repeated"),
        pytest.param(b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nhi", [head(CL, content_length=2, reason=b""), b"hi", End()], id="no reason"),
        pytest.param(b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nhi", [head(CL, content_length=2, reason=b""), b"hi", End()], id="an empty reason"),
        pytest.param(b"HTTP/1.1 429 So \xfcberlastet\r\ncontent-length: 2\r\n\r\nhi", [head(CL, content_length=2, status=429, reason=b"So \xfcberlastet"), b"hi", End()], id="its own reason"),
        pytest.param(b"HTTP/1.1 204 None\r\n\r\n", [head(status=204, reason=b"None", bodiless=True), End()], id="204"),
        pytest.param(b"HTTP/1.1 204 None\r\ncontent-length: 0\r\n\r\n", [head((b"content-length", b"0"), content_length=0, status=204, reason=b"None", bodiless=True), End()], id="204 with a length"),
        pytest.param(b"HTTP/1.1 304 Same\r\n\r\n", [head(status=304, reason=b"Same", bodiless=True), End()], id="304"),
        pytest.param(b"HTTP/1.1 304 Same\r\ncontent-length: 2\r\n\r\n", [head(CL, content_length=2, status=304, reason=b"Same", bodiless=True), End()], id="304 with a length"),
        pytest.param(OK + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nhi", [head((b"connection", b"upgrade"), (b"upgrade", b"h2c"), CL, content_length=2), b"hi", End()], id="an offer of HTTP/2"),
        pytest.param(OK + b"connection: close\r\ncontent-length: 2\r\n\r\nhi", [head((b"connection", b"close"), CL, content_length=2), b"hi", LAST], id="the last"),
        pytest.param(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", [head(CL, content_length=2), b"hi", LAST], id="HTTP/1.0"),
        pytest.param(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi", [head((b"connection", b"keep-alive"), CL, content_length=2), b"hi", End()], id="HTTP/1.0 kept alive"),
    ],
)  # fmt: skip
def test_a_response_is_read_however_it_is_split(data: bytes, events: Events) -> None:
    assert every(data) == events


def test_the_end_of_the_connection_does_not_change_a_complete_response() -> None:
    assert every(WHOLE, ends=True) == WHOLE_EVENTS


@pytest.mark.parametrize("data", [b"HTTP/1.1 204 N\r\n", b"HTTP/1.1 304 N\r\n"])
@pytest.mark.parametrize("field", [b"transfer-encoding: chunked\r\n", b"content-length: 2\r\n"])
def test_a_response_that_can_not_have_a_body_ends_with_its_head(data: bytes, field: bytes) -> None:
    events = every(data + field + b"\r\n")
    assert ([events[0].bodiless, type(events[-1])], len(events)) == ([True, End], 2)


@pytest.mark.parametrize("fields", [b"", b"connection: close\r\n", b"connection: keep-alive\r\n"])
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_body_without_a_length_ends_with_the_connection(version: bytes, fields: bytes) -> None:
    data = b"HTTP/%b 200 OK\r\n%b\r\nhi\r\n\r\n%b" % (version, fields, WHOLE)
    assert every(data)[1:] == [b"hi\r\n\r\n" + WHOLE]
    assert every(data, ends=True)[1:] == [b"hi\r\n\r\n" + WHOLE, LAST]


def test_an_empty_body_without_a_length() -> None:
    assert every(OK + b"\r\n", ends=True) == [head(), LAST]


# -- interim responses


@pytest.mark.parametrize(
    "interim",
    [
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="100"),
        pytest.param(b"HTTP/1.1 102 Processing\r\n\r\n", id="102"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", id="103"),
        pytest.param(b"HTTP/1.1 199 X\r\n\r\n", id="unknown"),
        pytest.param(b"HTTP/1.1 100 C\r\n\r\n" * 3, id="three"),
        pytest.param(b"HTTP/1.1 100 C\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", id="an offer"),
    ],
)
def test_interim_responses_are_skipped(interim: bytes) -> None:
    assert every(interim + WHOLE) == WHOLE_EVENTS


def test_an_interim_response_has_no_body() -> None:
    events = every(b"HTTP/1.1 100 C\r\ncontent-length: 500\r\n\r\n" + WHOLE)
    assert events in (WHOLE_EVENTS, [ResponseError])


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 C\r\n\r\n", b"HTTP/1.1 100 C\r\n\r\n" * 3])
def test_an_interim_response_is_not_a_response(interim: bytes) -> None:
    assert every(interim, ends=True) == [ResponseError]


@pytest.mark.parametrize("fields", [b"", b"connection: upgrade\r\nupgrade: websocket\r\n", b"content-length: 2\r\n"])
def test_a_change_of_protocol_is_an_error(fields: bytes) -> None:
    assert every(b"HTTP/1.1 101 S\r\n" + fields + b"\r\nhi") == [ResponseError]


# -- HEAD


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 100 C\r\n\r\n"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(OK + b"content-length: 2\r\n\r\n", id="length"),
        pytest.param(OK + b"content-length: 0\r\n\r\n", id="length 0"),
        pytest.param(CHUNKED, id="chunked"),
        pytest.param(OK + b"\r\n", id="neither"),
        pytest.param(OK + b"connection: close\r\n\r\n", id="the last"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n", id="HTTP/1.0"),
        pytest.param(b"HTTP/1.1 404 N\r\n\r\n", id="404"),
        pytest.param(b"HTTP/1.1 204 N\r\n\r\n", id="204"),
        pytest.param(b"HTTP/1.1 304 N\r\ncontent-length: 2\r\n\r\n", id="304"),
    ],
)
def test_the_response_to_head_ends_with_its_head(before: bytes, data: bytes) -> None:
    events = every(before + data, head_only=True)
    assert [(type(event), getattr(event, "bodiless", None)) for event in events] == [(ResponseHead, True), (End, None)]


@pytest.mark.parametrize(
    "fields", [b"content-length: 2\r\n", b"content-length: 0\r\n", b"transfer-encoding: chunked\r\n", b""]
)
@pytest.mark.parametrize("more", [b"hi", b"2\r\nhi\r\n0\r\n\r\n", WHOLE])
def test_a_body_in_response_to_head_is_dropped_and_ends_the_connection(fields: bytes, more: bytes) -> None:
    for parts in splits(OK + fields + b"\r\n" + more):
        events = responses_of(*parts, head_only=True)
        assert not any(isinstance(event, bytes) for event in events)
        assert events[-1] in (ResponseError, LAST)


# -- errors


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTT", id="in the first line"),
        pytest.param(OK + b"content-le", id="in the head"),
        pytest.param(OK + b"content-length: 2\r\n\r\n", id="before the body"),
        pytest.param(OK + b"content-length: 3\r\n\r\nhi", id="in the body"),
        pytest.param(CHUNKED, id="before a chunk"),
        pytest.param(CHUNKED + b"2\r\nh", id="in a chunk"),
        pytest.param(CHUNKED + b"2\r\nhi\r\n", id="before the last chunk"),
        pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\n", id="before trailers"),
        pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\nx: y\r\n", id="in trailers"),
    ],
)
def test_a_truncated_response_is_an_error(data: bytes) -> None:
    assert fails(data)
    assert ResponseError not in every(data)


@pytest.mark.parametrize(
    "first",
    [WHOLE, CHUNKED + b"0\r\n\r\n", b"HTTP/1.1 204 N\r\n\r\n", OK + b"connection: close\r\ncontent-length: 0\r\n\r\n"],
)
@pytest.mark.parametrize(
    "more", [WHOLE, b"x", b"H", b"HTTP/1.1 100 C\r\n\r\n", b"\r\n", b"\n", b"\r", b"\r\n" + WHOLE, b"\x00"]
)
def test_data_after_the_response_is_an_error(first: bytes, more: bytes) -> None:
    assert all(responses_of(*parts)[-1] in (ResponseError, LAST) for parts in splits(first + more))
    assert responses_of(first, more)[-1] is ResponseError


def test_data_before_a_request_is_an_error() -> None:
    with pytest.raises(ResponseError, match="without a request"):
        ResponseDecoder(header_bytes=100).feed(WHOLE)


def test_the_end_of_an_idle_connection_is_not_an_error() -> None:
    assert ResponseDecoder(header_bytes=100).end() == []


INVALID = {
    "CL and TE": OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "TE and CL": OK + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "equal lengths": OK + b"content-length: 2\r\ncontent-length: 2\r\n\r\nhi",
    "two lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi",
    "list of lengths": OK + b"content-length: 2, 2\r\n\r\nhi",
    "length with a sign": OK + b"content-length: +2\r\n\r\nhi",
    "no length": OK + b"content-length: \r\n\r\nhi",
    "length in words": OK + b"content-length: two\r\n\r\nhi",
    "huge length": OK + b"content-length: 18446744073709551618\r\n\r\nhi",
    "chunked twice": OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice in a list": OK + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "gzip": OK + b"transfer-encoding: gzip\r\n\r\nhi",
    "gzip, chunked": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked, gzip": OK + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "identity": OK + b"transfer-encoding: identity\r\n\r\nhi",
    "xchunked": OK + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "empty coding": OK + b"transfer-encoding:\r\n\r\n0\r\n\r\n",
    "space before the colon": OK + b"content-length : 2\r\n\r\nhi",
    "space before a name": OK + b" content-length: 2\r\n\r\nhi",
    "folded": OK + b"x: a\r\n b\r\ncontent-length: 2\r\n\r\nhi",
    "NUL in a value": OK + b"x: a\x00\r\ncontent-length: 2\r\n\r\nhi",
    "control character in a value": OK + b"x: a\x01\r\ncontent-length: 2\r\n\r\nhi",
    "lone LF after a header": OK + b"x: a\ncontent-length: 2\r\n\r\nhi",
    "lone CR after a header": OK + b"x: a\rcontent-length: 2\r\n\r\nhi",
    "lone LF after the status": b"HTTP/1.1 200 OK\ncontent-length: 2\r\n\r\nhi",
    "lone LF in the reason": b"HTTP/1.1 200 O\nK\r\ncontent-length: 2\r\n\r\nhi",
    "lone CR in the reason": b"HTTP/1.1 200 O\rK\r\ncontent-length: 2\r\n\r\nhi",
    "lone LF at the head's end": OK + b"content-length: 2\r\n\nhi",
    "NUL in the reason": b"HTTP/1.1 200 O\x00K\r\ncontent-length: 2\r\n\r\nhi",
    "control character in the reason": b"HTTP/1.1 200 O\x1bK\r\ncontent-length: 2\r\n\r\nhi",
    "delete in the reason": b"HTTP/1.1 200 O\x7fK\r\ncontent-length: 2\r\n\r\nhi",
    "no name": OK + b": y\r\ncontent-length: 2\r\n\r\nhi",
    "no colon": OK + b"x\r\ncontent-length: 2\r\n\r\nhi",
    "name with a space": OK + b"x y: z\r\ncontent-length: 2\r\n\r\nhi",
    "HTTP/0.9": WHOLE.replace(b"1.1", b"0.9"),
    "HTTP/1.2": WHOLE.replace(b"1.1", b"1.2"),
    "HTTP/2.0": WHOLE.replace(b"1.1", b"2.0"),
    "RTSP": WHOLE.replace(b"HTTP/1.1", b"RTSP/1.0"),
    "ICE": WHOLE.replace(b"HTTP/1.1", b"ICE/1.0"),
    "lower case": WHOLE.replace(b"HTTP", b"http"),
    "two spaces": WHOLE.replace(b" 200", b"  200"),
    "tab after the status": WHOLE.replace(b"200 ", b"200\t"),
    "no status": b"HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi",
    "empty status": b"HTTP/1.1 \r\ncontent-length: 2\r\n\r\nhi",
    "status of two digits": WHOLE.replace(b"200", b"99"),
    "status of four digits": WHOLE.replace(b"200", b"2000"),
    "status in letters": WHOLE.replace(b"200", b"2x0"),
    "status 0": WHOLE.replace(b"200", b"000"),
    "status below 100": WHOLE.replace(b"200", b"099"),
    "a request": b"GET / HTTP/1.1\r\nhost: h\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH\r\n",
    "HTTP/2 settings": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "space before": b" " + WHOLE,
    "LF before": b"\n" + WHOLE,
    "CR before": b"\r" + WHOLE,
    "status below 100 in place of an interim response": b"HTTP/1.1 099 C\r\n\r\n" + WHOLE,
    "status 0 in place of an interim response": b"HTTP/1.1 000 C\r\n\r\n" + WHOLE,
    "interim response in HTTP/2.0": b"HTTP/2.0 100 C\r\n\r\n" + WHOLE,
    "interim response in HTTP/0.9": b"HTTP/0.9 100 C\r\n\r\n" + WHOLE,
    "LF after an interim response": b"HTTP/1.1 100 C\r\n\r\n\n" + WHOLE,
    "CR after an interim response": b"HTTP/1.1 100 C\r\n\r\n\r" + WHOLE,
    "chunk size by 0x": CHUNKED + b"0x2\r\nhi\r\n0\r\n\r\n",
    "negative chunk size": CHUNKED + b"-2\r\nhi\r\n0\r\n\r\n",
    "space after a chunk size": CHUNKED + b"2 \r\nhi\r\n0\r\n\r\n",
    "chunk size over 64 bits": CHUNKED + b"10000000000000002\r\nhi\r\n0\r\n\r\n",
    "lone LF after a chunk size": CHUNKED + b"2\nhi\r\n0\r\n\r\n",
    "lone LF after a chunk": CHUNKED + b"2\r\nhi\n0\r\n\r\n",
    "lone LF after the last chunk": CHUNKED + b"2\r\nhi\r\n0\r\n\n",
    "chunk longer than said": CHUNKED + b"1\r\nhi\r\n0\r\n\r\n",
    "chunk shorter than said": CHUNKED + b"3\r\nhi\r\n0\r\n\r\n",
    "length as a trailer": CHUNKED + b"0\r\ncontent-length: 2\r\n\r\n",
    "coding as a trailer": CHUNKED + b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    "folded trailer": CHUNKED + b"0\r\nx: a\r\n b\r\n\r\n",
    "NUL in a trailer": CHUNKED + b"0\r\nx: \x00\r\n\r\n",
}


@pytest.mark.parametrize("data", [pytest.param(data, id=what) for what, data in INVALID.items()])
def test_an_invalid_response_is_an_error_however_it_is_split(data: bytes) -> None:
    assert fails(data)


@pytest.mark.parametrize(
    "data", [pytest.param(data, id=what) for what, data in INVALID.items() if not data.startswith(CHUNKED)]
)
def test_an_invalid_response_to_head_is_an_error_however_it_is_split(data: bytes) -> None:
    assert fails(data, head_only=True)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.0 200 OK\r\n%btransfer-encoding: chunked\r\n\r\n0\r\n\r\n" % field
        for field in (b"", b"connection: keep-alive\r\n")
    ],
)
def test_after_chunks_in_http_1_0_the_connection_is_not_reused(data: bytes) -> None:
    assert every(data)[-1] in (ResponseError, LAST)


@pytest.mark.parametrize(
    ("version", "connection", "reusable"),
    [
        ("1.1", b"x", True),
        ("1.1", b"close", False),
        ("1.1", b"Close ", False),
        ("1.1", b"x ,\tclose,,y", False),
        ("1.1", b"keep-alive, close", False),
        ("1.1", b"keep-alive\r\nconnection: close", False),
        ("1.1", b"closed", True),
        ("1.0", b"x", False),
        ("1.0", b"keep-alive", True),
        ("1.0", b"Keep-Alive, x", True),
        ("1.0", b"keep-alive, close", False),
        ("1.0", b"close, keep-alive", False),
        ("1.0", b"close\r\nconnection: keep-alive", False),
    ],
)
def test_whether_the_connection_can_be_reused(version: str, connection: bytes, reusable: bool) -> None:
    events = every(b"HTTP/%b 200 OK\r\nconnection: %b\r\ncontent-length: 0\r\n\r\n" % (version.encode(), connection))
    assert events[-1] == End((), reusable=reusable)


# -- one after the other


def test_a_connection_carries_one_response_per_request() -> None:
    decoder = ResponseDecoder(header_bytes=100)
    for expected in (
        WHOLE,
        CHUNKED + b"2\r\nhi\r\n0\r\nx: y\r\n\r\n",
        b"HTTP/1.1 304 N\r\ncontent-length: 2\r\n\r\n",
        WHOLE,
    ):
        decoder.expect()
        events = decoder.feed(expected)
        assert (type(events[0]), type(events[-1]), events[-1].reusable) == (ResponseHead, End, True)
    assert decoder.end() == []


def test_an_earlier_head_request_has_no_effect() -> None:
    decoder = ResponseDecoder(header_bytes=100)
    decoder.expect(head_only=True)
    decoder.feed(OK + b"content-length: 0\r\n\r\n")
    decoder.expect()
    assert joined(decoder.feed(WHOLE)) == WHOLE_EVENTS


def test_the_reason_and_trailers_of_the_previous_response_are_forgotten() -> None:
    decoder = ResponseDecoder(header_bytes=200)
    decoder.expect()
    decoder.feed(b"HTTP/1.1 200 Good\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n")
    decoder.expect()
    head_, _, end = decoder.feed(b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nhi")
    assert (head_.reason, list(head_.headers), list(end.trailers)) == (b"", [CL], [])


def test_a_closed_decoder_takes_no_data_and_has_nothing_to_end() -> None:
    decoder = ResponseDecoder(header_bytes=100)
    decoder.expect()
    decoder.feed(OK)
    decoder.close()
    assert decoder.end() == []
    with pytest.raises(ResponseError):
        decoder.feed(b"\r\n")


# -- limits


def padded(size: int) -> bytes:
    """A 204 response whose head has `size` bytes."""
    line = b"HTTP/1.1 204 N\r\n"
    return line + b"x: " + b"y" * (size - len(line) - 7) + b"\r\n\r\n"


@pytest.mark.parametrize("over", [-1, 0])
def test_a_head_as_large_as_the_limit_is_read_however_it_is_split(over: int) -> None:
    assert every(padded(100 + over), limit=100)[-1] == End()


@pytest.mark.parametrize("over", [1, 2, 10, 18, 30, 100])
def test_a_head_over_the_limit_is_an_error_however_it_is_split(over: int) -> None:
    assert every(padded(100 + over), limit=100) == [ResponseError]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 204 " + b"x" * 200 + b"\r\n\r\n", id="reason"),
        pytest.param(b"HTTP/1.1 204 N\r\n" + b"x" * 200 + b": y\r\n\r\n", id="name"),
        pytest.param(b"HTTP/1.1 204 N\r\nx:" + b" " * 200 + b"y\r\n\r\n", id="white space before a value"),
        pytest.param(b"HTTP/1.1 204 N\r\n" + b"a:\r\n" * 50 + b"\r\n", id="many small ones"),
        pytest.param(b"HTTP/1.1 100 C\r\nx: " + b"y" * 200 + b"\r\n\r\n" + WHOLE, id="interim response"),
        pytest.param(CHUNKED + b"1;" + b"x" * 200 + b"\r\na\r\n0\r\n\r\n", id="chunk extension"),
        pytest.param(CHUNKED + b"0" * 200 + b"1\r\na\r\n0\r\n\r\n", id="zeros before a chunk's size"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nx: " + b"y" * 200 + b"\r\n\r\n", id="trailer"),
    ],
)
def test_everything_but_a_body_has_a_limit(data: bytes) -> None:
    assert all(responses_of(*parts, limit=100)[-1] is ResponseError for parts in splits(data))


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        pytest.param(b"", b"\r\n", id="empty lines"),
        pytest.param(b"HTTP/1.1 200 ", b"x", id="reason"),
        pytest.param(OK, b"x", id="name"),
        pytest.param(OK + b"x:", b" ", id="white space"),
        pytest.param(OK + b"x:", b"y", id="value"),
        pytest.param(CHUNKED, b"0", id="chunk size"),
        pytest.param(CHUNKED + b"1;", b"x", id="chunk extension"),
        pytest.param(CHUNKED + b"0\r\nx:", b"y", id="trailer"),
    ],
)
def test_endless_input_is_an_error_at_the_limit(begin: bytes, more: bytes) -> None:
    assert responses_of(begin, *[more] * (110 // len(more)), limit=100)[-1] is ResponseError


def test_the_limit_applies_to_each_head_and_not_to_bodies() -> None:
    for data in (
        OK + b"content-length: 500\r\n\r\n" + b"x" * 500,
        CHUNKED + b"1\r\na\r\n" * 200 + b"0\r\n\r\n",
        b"HTTP/1.1 100 C\r\n\r\n" * 20 + WHOLE,
        OK + b"\r\n" + b"x" * 500,
    ):
        assert ResponseError not in every(data, limit=100)
