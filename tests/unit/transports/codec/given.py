"""Messages as bytes, and what the decoders make of them however they are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from app.transports.http.codec.encoding import encode_chunk, encode_last_chunk, encode_request
from app.transports.http.codec.events import End, Event, Refused, RequestHead, ResponseHead
from app.transports.http.codec.requests import RequestDecoder
from app.transports.http.codec.responses import ResponseDecoder, ResponseError

LIMIT = 4096

GET = b"GET / HTTP/1.1\r\nhost: h\r\n"
"""To be ended by an empty line."""

POST = b"POST / HTTP/1.1\r\nhost: h\r\n"

CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"

NEXT = b"GET /next HTTP/1.1\r\nhost: h\r\n\r\n"
"""A good request, to follow another one."""

Told = list[Any]
"""Events with pieces of a body joined, and in place of a `Refused` its error's class."""


def splits(data: bytes) -> Iterator[list[bytes]]:
    """`data` in one, byte by byte, and cut in two everywhere."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(1, len(data)):
        yield [data[:i], data[i:]]


def joined(events: Iterable[Event | type[Exception]]) -> Told:
    """The events in a form that does not depend on how a body was cut."""
    told: Told = []
    for event in events:
        if isinstance(event, bytes) and told and isinstance(told[-1], bytes):
            told[-1] += event
        elif isinstance(event, RequestHead | ResponseHead):
            told.append(event._replace(headers=tuple(event.headers)))
        elif isinstance(event, End):
            told.append(event._replace(trailers=tuple(event.trailers)))
        else:
            told.append(type(event.error) if isinstance(event, Refused) else event)
    return told


def requests_of(*pieces: bytes, limit: int = LIMIT) -> Told:
    """What a new decoder of requests tells of them."""
    decoder = RequestDecoder(header_bytes=limit)
    return joined([event for piece in pieces for event in decoder.feed(piece)])


def answers_of(*pieces: bytes, head_only: bool = False, limit: int = LIMIT, ends: bool = False) -> Told:
    """What a new decoder of answers tells of them, and of the connection's end if it `ends`; an `ResponseError` stands at
    the end instead of being raised."""
    decoder = ResponseDecoder(header_bytes=limit)
    decoder.expect(head_only=head_only)
    events: list[Any] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        if ends:
            events += decoder.end()
    except ResponseError:
        events.append(ResponseError)
    return joined(events)


def head(method: str = "GET", target: str = "/", *fields: tuple[bytes, bytes], **more: Any) -> RequestHead:
    """The head of a request to host `h`, for HTTP/1.1 and without a body unless `more` says otherwise."""
    usual = {"content_length": None, "chunked": False, "keep_alive": True, "http_1_1": True, "expects_continue": False}
    return RequestHead(method, target, ((b"host", b"h"), *fields), **{**usual, **more})


def encoded(told: Told) -> bytes:
    """Requests written again, in the one way that there is to write them."""
    out = []
    chunked = False
    for event in told:
        if isinstance(event, RequestHead):
            chunked = event.chunked
            line, rest = encode_request(event.method, event.target, event.headers).split(b"\r\n", 1)
            out += [line if event.http_1_1 else line[:-1] + b"0", b"\r\n", rest]
        elif isinstance(event, bytes):
            out.append(encode_chunk([event]) if chunked else event)
        elif isinstance(event, End) and chunked:
            out.append(encode_last_chunk(event.trailers))
    return b"".join(out)


def is_sound(told: Told) -> bool:
    """Whether the events are whole requests one after the other, each body as long as its head says, the last of them
    perhaps not whole, and nothing after a refusal or after the last request of a connection."""
    reading: RequestHead | None = None
    size, over = 0, False
    for event in told:
        if over:
            return False
        if isinstance(event, RequestHead):
            if reading is not None:
                return False
            reading, size = event, 0
        elif isinstance(event, bytes):
            size += len(event)
            if reading is None or (not reading.chunked and size > (reading.content_length or 0)):
                return False
        elif isinstance(event, End):
            if reading is None or (not reading.chunked and size != (reading.content_length or 0)):
                return False
            over, reading = not reading.keep_alive, None
        else:
            over = True
    return True
