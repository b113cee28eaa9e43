"""Valid requests, and the events they are decoded to."""

from __future__ import annotations

from time import process_time

import pytest

from app.domain.errors import BadRequestError, HeadersTooLargeError, UnsupportedError
from app.transports.http.codec.events import End, RequestHead
from app.transports.http.codec.requests import RequestDecoder
from tests.unit.transports.codec.given import CHUNKED, GET, LIMIT, NEXT, POST, Events, head, joined, requests_of, splits

TE = (b"transfer-encoding", b"chunked")
NEXT_EVENTS = [head("GET", "/next"), End()]
H2C = b"connection: upgrade\r\nupgrade: h2c\r\n"
UPGRADE = ((b"connection", b"upgrade"), (b"upgrade", b"h2c"))


def length(value: bytes) -> tuple[bytes, bytes]:
    return (b"content-length", value)


def post(*fields: tuple[bytes, bytes], **more: object) -> RequestHead:
    return head("POST", "/", *fields, **more)


def padded(size: int) -> bytes:
    """A request of `size` bytes."""
    return GET + b"x: " + b"y" * (size - len(GET) - 7) + b"\r\n\r\n"


def verdicts(data: bytes, limit: int) -> set[str]:
    """The error or "whole", for every way to split `data`: one item if that makes no difference."""
    all_events = [requests_of(*parts, limit=limit) for parts in splits(data)]
    return {events[-1].__name__ if isinstance(events[-1], type) else "whole" for events in all_events}


@pytest.mark.parametrize(
    ("data", "events"),
    [
        pytest.param(GET + b"\r\n", [head(), End()], id="no body"),
        pytest.param(b"GET / HTTP/1.1\r\nHOST: h\r\n\r\n", [head(), End()], id="name in capitals"),
        pytest.param(b"GET / HTTP/1.1\r\nhost:h\r\n\r\n", [head(), End()], id="no space after the colon"),
        pytest.param(b"GET / HTTP/1.1\r\nhost:\t h\r\n\r\n", [head(), End()], id="white space before the value"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: h \t\r\n\r\n", [head(), End()], id="white space after the value"),
        pytest.param(GET + b"x: a \t b\t\r\n\r\n", [head("GET", "/", (b"x", b"a \t b")), End()], id="white space within"),
        pytest.param(GET + b"x:\r\ny: \t \r\n\r\n", [head("GET", "/", (b"x", b""), (b"y", b"")), End()], id="no value"),
        pytest.param(GET + b"x: 1\r\nX: 2\r\n\r\n", [head("GET", "/", (b"x", b"1"), (b"x", b"2")), End()], id="repeated"),
        pytest.param(GET + b"x: \xff\x80\r\n\r\n", [head("GET", "/", (b"x", b"\xff\x80")), End()], id="beyond ASCII"),
        pytest.param(GET + b"!#$%&'*+-.^_`|~9: y\r\n\r\n", [head("GET", "/", (b"!#$%&'*+-.^_`|~9", b"y")), End()], id="odd name"),
        pytest.param(b"\r\n\r\n" + GET + b"\r\n", [head(), End()], id="empty lines before"),
        pytest.param(POST + b"content-length: 0\r\n\r\n", [post(length(b"0"), content_length=0), End()], id="length 0"),
        pytest.param(POST + b"content-length: 5\r\n\r\nhello", [post(length(b"5"), content_length=5), b"hello", End()], id="length"),
        pytest.param(POST + b"content-length: 3\r\n\r\n\r\n\n", [post(length(b"3"), content_length=3), b"\r\n\n", End()], id="a body of line ends"),
        pytest.param(POST + b"content-length: 005\r\n\r\nhello", [post(length(b"005"), content_length=5), b"hello", End()], id="length with zeros before"),
        pytest.param(POST + b"content-length: 5 \r\n\r\nhello", [post(length(b"5"), content_length=5), b"hello", End()], id="length and a space"),
        pytest.param(POST + b"content-length: \t5\t\r\n\r\nhello", [post(length(b"5"), content_length=5), b"hello", End()], id="length between tabs"),
        pytest.param(GET + b"content-length: 2\r\n\r\nhi", [head("GET", "/", length(b"2"), content_length=2), b"hi", End()], id="GET with a body"),
        pytest.param(CHUNKED + b"0\r\n\r\n", [post(TE, chunked=True), End()], id="chunked and empty"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", [post(TE, chunked=True), b"hello", End()], id="one chunk"),
        pytest.param(CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", [post(TE, chunked=True), b"hello", End()], id="two chunks"),
        pytest.param(CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", [post(TE, chunked=True), b"\r\n\r\n", End()], id="a chunk of line ends"),
        pytest.param(CHUNKED + b"A\r\n0123456789\r\n000\r\n\r\n", [post(TE, chunked=True), b"0123456789", End()], id="size in capitals, zeros as the end"),
        pytest.param(CHUNKED + b"0005\r\nhello\r\n0\r\n\r\n", [post(TE, chunked=True), b"hello", End()], id="size with zeros before"),
        pytest.param(CHUNKED + b'5;a=b;c="d;\\"e";f\r\nhello\r\n0;g\r\n\r\n', [post(TE, chunked=True), b"hello", End()], id="chunk extensions"),
        pytest.param(CHUNKED + b"0\r\nX: Y\r\nz:\r\n\r\n", [post(TE, chunked=True), End(((b"x", b"Y"), (b"z", b"")))], id="trailers"),
        pytest.param(CHUNKED + b"0\r\nx: y \r\n\r\n", [post(TE, chunked=True), End(((b"x", b"y"),))], id="white space after a trailer"),
        pytest.param(CHUNKED + b"0\r\nhost: other\r\n\r\n", [post(TE, chunked=True), End(((b"host", b"other"),))], id="a trailer is no header"),
        pytest.param(POST + b"transfer-encoding: \tChunKED\r\n\r\n0\r\n\r\n", [post((b"transfer-encoding", b"ChunKED"), chunked=True), End()], id="the coding's case"),
        pytest.param(POST + b"transfer-encoding: chunked \t\r\n\r\n0\r\n\r\n", [post(TE, chunked=True), End()], id="white space after the coding"),
        pytest.param(POST + b"content_length: 5\r\n\r\n", [post((b"content_length", b"5")), End()], id="an underscore is no hyphen in a length"),
        pytest.param(POST + b"transfer_encoding: chunked\r\n\r\n", [post((b"transfer_encoding", b"chunked")), End()], id="an underscore is no hyphen in a coding"),
        pytest.param(POST + b"x-transfer-encoding: chunked\r\n\r\n", [post((b"x-transfer-encoding", b"chunked")), End()], id="another name's end"),
        pytest.param(b"GET / HTTP/1.1\r\nhost:\r\n\r\n", [head()._replace(headers=((b"host", b""),)), End()], id="an empty host"),
    ],
)  # fmt: skip
def test_a_request_and_the_next_are_read_however_they_are_split(data: bytes, events: Events) -> None:
    for parts in splits(data):
        assert requests_of(*parts, NEXT) == [*events, *NEXT_EVENTS]
    for parts in splits(data + NEXT):
        assert requests_of(*parts) == [*events, *NEXT_EVENTS]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_methods(method: str) -> None:
    assert requests_of(b"%b / HTTP/1.1\r\nhost: h\r\n\r\n" % method.encode()) == [head(method), End()]


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("/", "/"),
        ("/v1/x?y=%2F&z", "/v1/x?y=%2F&z"),
        ("/../x", "/../x"),
        ("//other/x", "//other/x"),
        ("/%00%0d%0a", "/%00%0d%0a"),
        ("/?http://other/x", "/?http://other/x"),
        ("http://h/x?y", "/x?y"),
        ("http://h", "/"),
        ("http://h?y", "/?y"),
        ("HTTPS://H:1/x", "/x"),
        ("http://[::1]:80/x", "/x"),
    ],
)
def test_targets(given: str, target: str) -> None:
    for parts in splits(b"GET %b HTTP/1.1\r\nhost: h\r\n\r\n" % given.encode()):
        assert requests_of(*parts) == [head("GET", target), End()]


@pytest.mark.parametrize(
    "host", [b"h", b"H.example:80", b"127.0.0.1:8080", b"[::1]", b"[2001:db8::1]:80", b"a_b", b"h:"]
)
def test_hosts(host: bytes) -> None:
    events = requests_of(b"GET / HTTP/1.1\r\nhost: %b\r\n\r\n" % host)
    assert events == [head()._replace(headers=((b"host", host),)), End()]


@pytest.mark.parametrize(
    ("version", "fields", "keeps"),
    [
        ("1.1", b"", True),
        ("1.1", b"connection: close\r\n", False),
        ("1.1", b"connection: Close \r\n", False),
        ("1.1", b"connection: keep-alive, close\r\n", False),
        ("1.1", b"connection: x ,\tclose,,y\r\n", False),
        ("1.1", b"connection: keep-alive\r\nconnection: close\r\n", False),
        ("1.1", b"connection: close\r\nconnection: keep-alive\r\n", False),
        ("1.1", b"connection: closed\r\n", True),
        ("1.1", b"connection: x-close\r\n", True),
        ("1.1", b'connection: "close"\r\n', True),
        ("1.0", b"", False),
        ("1.0", b"connection: keep-alive\r\n", True),
        ("1.0", b"connection: Keep-Alive, x\r\n", True),
        ("1.0", b"connection: close\r\n", False),
        ("1.0", b"connection: keep-alive, close\r\n", False),
        ("1.0", b"connection: close, keep-alive\r\n", False),
        ("1.0", b"connection: keep-alive\r\nconnection: close\r\n", False),
        ("1.0", b"connection: x\r\n", False),
    ],
)
def test_whether_another_request_may_follow(version: str, fields: bytes, keeps: bool) -> None:
    data = b"GET / HTTP/%b\r\nhost: h\r\n%b\r\n" % (version.encode(), fields)
    for parts in splits(data + NEXT):
        first, end, *more = requests_of(*parts)
        assert (first.keep_alive, end, more) == (keeps, End(), NEXT_EVENTS if keeps else [])


@pytest.mark.parametrize("after", [NEXT, b"\r\n", b"\n", b"\x00", b"x\ny\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@pytest.mark.parametrize("before", [b"", NEXT, NEXT + NEXT])
def test_after_the_last_request_nothing_is_read(before: bytes, after: bytes) -> None:
    last = POST + b"connection: close\r\ncontent-length: 2\r\n\r\nhi"
    for parts in splits(before + last + after):
        assert requests_of(*parts) == requests_of(before, last)


def test_http_1_0_needs_no_host() -> None:
    without = head(keep_alive=False, http_1_1=False)._replace(headers=())
    assert requests_of(b"GET / HTTP/1.0\r\n\r\n") == [without, End()]


@pytest.mark.parametrize(
    ("version", "fields", "expects"),
    [
        pytest.param("1.1", b"expect: 100-continue\r\n", True, id="as usual"),
        pytest.param("1.1", b"Expect: 100-Continue \r\n", True, id="capitals and a space"),
        pytest.param("1.0", b"expect: 100-continue\r\n", False, id="HTTP/1.0 has no interim responses"),
        pytest.param("1.1", b"", False, id="not"),
    ],
)
def test_whether_the_client_waits_to_send_the_body(version: str, fields: bytes, expects: bool) -> None:
    events = requests_of(b"POST / HTTP/%b\r\nhost: h\r\n%bcontent-length: 2\r\n\r\nhi" % (version.encode(), fields))
    assert (events[0].expects_continue, events[1:]) == (expects, [b"hi", End()])


@pytest.mark.parametrize("value", [b"x", b"", b"100-continue, x", b"100-continue;q=1", b"100-continue\r\nexpect: x"])
def test_another_expectation_is_refused(value: bytes) -> None:
    assert requests_of(POST + b"expect: " + value + b"\r\ncontent-length: 2\r\n\r\nhi") == [BadRequestError]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        pytest.param(GET + H2C + b"\r\n", [head("GET", "/", *UPGRADE), End()], id="without a body"),
        pytest.param(GET + b"connection: upgrade\r\nupgrade: H2C \r\n\r\n", [head("GET", "/", UPGRADE[0], (b"upgrade", b"H2C")), End()], id="capitals and a space"),
        pytest.param(GET + b"upgrade: websocket\r\n\r\n", [head("GET", "/", (b"upgrade", b"websocket")), End()], id="no option of the connection"),
        pytest.param(GET + b"connection: upgrade\r\n\r\n", [head("GET", "/", (b"connection", b"upgrade")), End()], id="to nothing"),
    ],
)  # fmt: skip
def test_an_optional_upgrade_is_ignored(data: bytes, events: Events) -> None:
    for parts in splits(data + NEXT):
        assert requests_of(*parts) == [*events, *NEXT_EVENTS]


@pytest.mark.parametrize("upgrade", [H2C, b"connection: upgrade\r\nupgrade:\r\n"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"content-length: %d\r\n\r\n" % len(NEXT) + NEXT, id="by length"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(NEXT) + NEXT + b"\r\n0\r\n\r\n", id="chunked"),
    ],
)
def test_the_body_of_a_request_that_offers_http_2_is_never_a_request(upgrade: bytes, body: bytes) -> None:
    for parts in splits(POST + upgrade + body):
        events = requests_of(*parts)
        assert events == [UnsupportedError] or (events[1:] == [NEXT, End()])


def test_body_data_is_reported_as_it_arrives() -> None:
    decoder = RequestDecoder(header_bytes=LIMIT)
    decoder.feed(POST + b"content-length: 6\r\n\r\n")
    events = [joined(decoder.feed(part)) for part in (b"ab", b"", b"cd", b"ef")]
    assert events == [[b"ab"], [], [b"cd"], [b"ef", End()]]


def test_an_incomplete_body_includes_what_follows() -> None:
    data = POST + b"content-length: 500\r\n\r\n" + NEXT
    assert all(requests_of(*parts)[1:] == [NEXT] for parts in splits(data))


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFF", b"7fffffffffffffff"])
def test_the_largest_chunk_includes_what_follows(size: bytes) -> None:
    assert all(requests_of(*parts)[1:] == [NEXT] for parts in splits(CHUNKED + size + b"\r\n" + NEXT))


def test_pipelined_requests_are_reported_in_order() -> None:
    data = NEXT + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n" + POST + b"content-length: 2\r\n\r\n\r\n" + NEXT
    body, other = [post(TE, chunked=True), b"hi", End()], [post(length(b"2"), content_length=2), b"\r\n", End()]
    for parts in splits(data):
        assert requests_of(*parts) == [*NEXT_EVENTS, *body, *other, *NEXT_EVENTS]


@pytest.mark.parametrize(
    "first", [NEXT, CHUNKED + b"0\r\n\r\n", POST + b"content-length: 1\r\n\r\n\r", GET + H2C + b"\r\n"]
)
def test_empty_lines_between_requests_are_skipped(first: bytes) -> None:
    for parts in splits(first + b"\r\n\r\n" + NEXT + b"\r\n" + NEXT):
        assert requests_of(*parts) == [*requests_of(first), *NEXT_EVENTS, *NEXT_EVENTS]


# -- limits


@pytest.mark.parametrize("over", [-1, 0])
def test_a_head_as_large_as_the_limit_is_read_however_it_is_split(over: int) -> None:
    assert verdicts(padded(100 + over), 100) == {"whole"}


@pytest.mark.parametrize("over", [1, 2, 10, 18, 30, 100])
def test_a_head_over_the_limit_is_refused_however_it_is_split(over: int) -> None:
    assert verdicts(padded(100 + over), 100) == {"HeadersTooLargeError"}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /" + b"x" * 200 + b" HTTP/1.1\r\nhost: h\r\n\r\n", id="target"),
        pytest.param(GET + b"x" * 200 + b": y\r\n\r\n", id="name"),
        pytest.param(GET + b"x: " + b" " * 200 + b"y\r\n\r\n", id="white space before a value"),
        pytest.param(GET + b"x: y" + b" " * 200 + b"\r\n\r\n", id="white space after a value"),
        pytest.param(GET + b"a:\r\n" * 50 + b"\r\n", id="many small ones"),
        pytest.param(CHUNKED + b"1;" + b"x" * 200 + b"\r\na\r\n0\r\n\r\n", id="chunk extension"),
        pytest.param(CHUNKED + b'1;a="' + b"x" * 200 + b'"\r\na\r\n0\r\n\r\n', id="quoted chunk extension"),
        pytest.param(CHUNKED + b"0;" + b"x" * 200 + b"\r\n\r\n", id="last chunk's extension"),
        pytest.param(CHUNKED + b"0" * 200 + b"1\r\na\r\n0\r\n\r\n", id="zeros before a chunk's size"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nx: " + b"y" * 200 + b"\r\n\r\n", id="trailer"),
        pytest.param(CHUNKED + b"0\r\n" + b"a:\r\n" * 50 + b"\r\n", id="many small trailers"),
    ],
)
def test_everything_but_a_body_has_a_limit(data: bytes) -> None:
    assert verdicts(data, 100) == {"HeadersTooLargeError"}


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        pytest.param(b"", b"\r\n", id="empty lines"),
        pytest.param(b"GET /", b"x", id="target"),
        pytest.param(GET, b"x", id="name"),
        pytest.param(GET + b"x:", b" ", id="white space"),
        pytest.param(GET + b"x:", b"y", id="value"),
        pytest.param(CHUNKED, b"0", id="chunk size"),
        pytest.param(CHUNKED + b"1;", b"x", id="chunk extension"),
        pytest.param(CHUNKED + b"0\r\n", b"x", id="trailer's name"),
        pytest.param(CHUNKED + b"0\r\nx:", b"y", id="trailer's value"),
    ],
)
def test_endless_input_is_refused_at_the_limit(begin: bytes, more: bytes) -> None:
    decoder = RequestDecoder(header_bytes=100)
    decoder.feed(begin)
    events = [event for _ in range(110 // len(more)) for event in decoder.feed(more)]
    assert [type(event.error) for event in events] == [HeadersTooLargeError]


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(GET + b"x:", id="head"),
        pytest.param(CHUNKED + b"1;", id="chunk extension"),
        pytest.param(CHUNKED + b"0\r\nx:", id="trailers"),
    ],
)
def test_reading_byte_by_byte_takes_linear_time(begin: bytes) -> None:
    decoder = RequestDecoder(header_bytes=10_000)
    decoder.feed(begin)
    before = process_time()
    assert not any(decoder.feed(b"y") for _ in range(8192))
    assert process_time() - before < 0.25  # a few ms, or about a second if everything is scanned again for each byte


def test_the_limit_applies_to_each_head_and_not_to_bodies() -> None:
    body = POST + b"content-length: 500\r\n\r\n" + b"x" * 500
    chunks = CHUNKED + b"64\r\n" + b"x" * 100 + b"\r\n" + b"1\r\na\r\n" * 100 + b"0\r\n\r\n"
    assert verdicts(body + chunks + NEXT * 10 + body, 100) == {"whole"}


def test_the_limit_on_empty_lines_does_not_depend_on_how_they_are_split() -> None:
    assert len(verdicts(b"\r\n" * 100 + NEXT, 100)) == 1


# -- between events


@pytest.mark.parametrize(
    ("data", "within"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(b"\r", False, id="half an empty line"),
        pytest.param(b"\r\n\r\n", False, id="empty lines"),
        pytest.param(b"G", True, id="a byte"),
        pytest.param(b"\r\nG", True, id="a byte after an empty line"),
        pytest.param(GET, True, id="all but the end"),
        pytest.param(GET + b"\r", True, id="all but a byte"),
        pytest.param(GET + b"\r\n", False, id="whole"),
        pytest.param(GET + b"\r\n\r\n", False, id="whole, and an empty line"),
        pytest.param(POST + b"content-length: 5\r\n\r\n", False, id="before a body"),
        pytest.param(POST + b"content-length: 5\r\n\r\nhe", False, id="in a body"),
        pytest.param(CHUNKED + b"0\r\nx: y", False, id="in trailers"),
        pytest.param(NEXT + b"G", True, id="the next"),
        pytest.param(CHUNKED + b"0\r\n\r\nG", True, id="the next after a body"),
        pytest.param(GET + H2C + b"\r\nG", True, id="the next after an offer"),
    ],
)
def test_within_a_head(data: bytes, within: bool) -> None:
    for parts in splits(data):
        decoder = RequestDecoder(header_bytes=200)
        for part in parts:
            decoder.feed(part)
        assert decoder.within_head is within


def test_no_bytes_produce_no_event() -> None:
    assert requests_of(b"", GET, b"", b"\r\n", b"") == [head(), End()]
    assert RequestDecoder(header_bytes=LIMIT).feed(b"") == []


@pytest.mark.parametrize("before", [b"", GET, NEXT, POST + b"content-length: 5\r\n\r\nhe", b"\x00"])
def test_a_closed_decoder_reads_nothing(before: bytes) -> None:
    decoder = RequestDecoder(header_bytes=100)
    decoder.feed(before)
    decoder.close()
    assert decoder.feed(NEXT) == []
