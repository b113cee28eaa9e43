"""Whatever is encoded is decoded to the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.transports.http.codec.encoding import (
    CONTINUE,
    LAST_CHUNK,
    encode_chunk,
    encode_last_chunk,
    encode_request,
    encode_response,
    field_of,
)
from app.transports.http.codec.events import End, Field
from tests.unit.transports.codec.given import head, requests_of, responses_of

few = settings(max_examples=100, deadline=None)

TOKENS = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
NAMES = st.text(TOKENS, min_size=1, max_size=12).map(lambda name: b"x-" + name.encode())
VALUES = st.text(
    st.characters(codec="latin-1", exclude_categories=["Cc"]) | st.sampled_from("\t\x80\x9f"), max_size=20
).map(lambda value: value.encode("latin-1").strip(b" \t"))
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(tuple)
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
TARGETS = st.text("abz019-._~:/?@!$&'()*+,;=%", max_size=20).map(lambda rest: f"/{rest}")
BODIES = st.binary(max_size=50)
PARTS = st.lists(st.binary(max_size=20), min_size=1, max_size=4).filter(any)
REASONS = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20)

HOST = (b"host", b"h")
TE = (b"transfer-encoding", b"chunked")


def length(body: bytes) -> Field:
    return (b"content-length", b"%d" % len(body))


# -- requests


@given(METHODS, TARGETS, FIELDS)
@few
def test_a_request_without_a_body_is_read_as_it_was_written(
    method: str, target: str, fields: tuple[Field, ...]
) -> None:
    assert requests_of(encode_request(method, target, [HOST, *fields])) == [head(method, target, *fields), End()]


@given(FIELDS, BODIES)
@few
@example((), b"")
@example((), b"\r\n\r\n")
def test_a_request_with_a_length_is_read_as_it_was_written(fields: tuple[Field, ...], body: bytes) -> None:
    written = encode_request("POST", "/", [HOST, *fields, length(body)]) + body
    first = head("POST", "/", *fields, length(body), content_length=len(body))
    assert requests_of(written) == [first, *([body] if body else []), End()]


@given(FIELDS, st.lists(PARTS, max_size=4), FIELDS)
@few
def test_a_request_in_chunks_is_read_as_it_was_written(fields: tuple[Field, ...], chunks: list[list[bytes]], trailers: tuple[Field, ...]) -> None:  # fmt: skip
    written = encode_request("POST", "/", [HOST, *fields, TE]) + b"".join(map(encode_chunk, chunks))
    body = b"".join(part for parts in chunks for part in parts)
    events = requests_of(written + encode_last_chunk(trailers))
    assert events == [head("POST", "/", *fields, TE, chunked=True), *([body] if body else []), End(trailers)]


def test_the_head_of_a_request() -> None:
    written = encode_request("POST", "/v1/x?y", [HOST, (b"x", b"")])
    assert written == b"POST /v1/x?y HTTP/1.1\r\nhost: h\r\nx: \r\n\r\n"


# -- responses


@given(st.integers(200, 599).filter(lambda status: status not in {204, 304}), REASONS, FIELDS, BODIES, st.booleans())
@few
def test_a_response_is_read_as_it_was_written(status: int, reason: str, fields: tuple[Field, ...], body: bytes, http_1_1: bool) -> None:  # fmt: skip
    written = encode_response(status, reason.encode("latin-1"), [*fields, length(body)], http_1_1=http_1_1)
    first, *parts, end = responses_of(written + body)
    assert (first.status, first.headers, b"".join(parts)) == (status, (*fields, length(body)), body)
    assert end == End((), reusable=http_1_1)
    assert not reason or first.reason == reason.encode("latin-1")


@given(st.lists(PARTS, max_size=4), FIELDS)
@few
def test_a_response_in_chunks_is_read_as_it_was_written(chunks: list[list[bytes]], trailers: tuple[Field, ...]) -> None:
    written = encode_response(200, b"", [TE]) + b"".join(map(encode_chunk, chunks)) + encode_last_chunk(trailers)
    first, *parts, end = responses_of(written)
    assert (first.headers, b"".join(parts), end) == ((TE,), b"".join(p for c in chunks for p in c), End(trailers))


@pytest.mark.parametrize(
    ("status", "reason", "http_1_1", "line"),
    [
        (200, b"", True, b"HTTP/1.1 200 OK"),
        (200, b"OK", True, b"HTTP/1.1 200 OK"),
        (200, b"Fine", True, b"HTTP/1.1 200 Fine"),
        (200, b"", False, b"HTTP/1.0 200 OK"),
        (200, b"Fine", False, b"HTTP/1.0 200 Fine"),
        (404, b"", True, b"HTTP/1.1 404 Not Found"),
        (499, b"", True, b"HTTP/1.1 499 "),
        (499, b"Gone", False, b"HTTP/1.0 499 Gone"),
        (529, b"Overloaded", True, b"HTTP/1.1 529 Overloaded"),
    ],
)
def test_a_status_line(status: int, reason: bytes, http_1_1: bool, line: bytes) -> None:
    assert encode_response(status, reason, [(b"x", b"y")], http_1_1=http_1_1) == line + b"\r\nx: y\r\n\r\n"


def test_continue_is_an_interim_response() -> None:
    assert responses_of(CONTINUE + encode_response(204, b"", []))[0].status == 204


# -- chunks


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ([b"a"], b"1\r\na\r\n"),
        ([b"a" * 26], b"1a\r\n" + b"a" * 26 + b"\r\n"),
        ([b"ab", b"", b"c"], b"3\r\nabc\r\n"),
        ((b"\r\n", b"0\r\n\r\n"), b"7\r\n\r\n0\r\n\r\n\r\n"),
    ],
)
def test_a_chunk(parts: list[bytes], written: bytes) -> None:
    assert encode_chunk(parts) == written


@pytest.mark.parametrize(
    ("trailers", "written"),
    [
        ((), b"0\r\n\r\n"),
        ([], LAST_CHUNK),
        ([(b"x", b"y")], b"0\r\nx: y\r\n\r\n"),
        ([(b"x", b"1"), (b"x", b"")], b"0\r\nx: 1\r\nx: \r\n\r\n"),
    ],
)
def test_the_last_chunk(trailers: list[Field], written: bytes) -> None:
    assert encode_last_chunk(trailers) == written


# -- headers from text


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("X-A", "b", (b"x-a", b"b")),
        ("x", "", (b"x", b"")),
        ("x", " \ta b\t ", (b"x", b"a b")),
        ("x", "\xe9\xff", (b"x", b"\xe9\xff")),
        ("!#$%&'*+-.^_`|~9", "~", (b"!#$%&'*+-.^_`|~9", b"~")),
    ],
)
def test_a_header_from_text(name: str, value: str, field: Field) -> None:
    assert field_of(name, value) == field


@pytest.mark.parametrize("name", ["", " ", "x ", " x", "x y", "x:", "x\r\ny", "x\n", "x\x00", "x\t", "(x)", "x@", 'x"', "x/y", "é", "€", "\u212aeep-alive", "x\x7f", "[x]", "x,y", "{x}"])  # fmt: skip
def test_an_invalid_name_is_not_written(name: str) -> None:
    with pytest.raises(ValueError):
        field_of(name, "v")


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "\r\n", "\n", "\x00", "a\x00b", "a\x0bb", "a\x0c", "a\x1b", "a\x7f", "€", "\u010a", "\u560a"])  # fmt: skip
def test_an_invalid_value_is_not_written(value: str) -> None:
    with pytest.raises(ValueError):
        field_of("x", value)


@given(st.text(max_size=10), st.text(max_size=20))
@few
def test_text_is_read_back_as_one_header_or_not_written(name: str, value: str) -> None:
    try:
        field = field_of(f"x-{name}", value)
    except ValueError:
        return
    assert requests_of(encode_request("GET", "/", [HOST, field])) == [head("GET", "/", field), End()]
    assert (field[0], field[1]) == (f"x-{name}".lower().encode("ascii"), value.strip(" \t").encode("latin-1"))
