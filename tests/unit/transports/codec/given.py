"""Messages as bytes, and the events that the decoders produce from them however they are split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from app.transports.http.codec.encoding import encode_chunk, encode_last_chunk, encode_request
from app.transports.http.codec.events import End, Event, Refused, RequestHead, ResponseHead
from app.transports.http.codec.requests import RequestDecoder
from app.transports.http.codec.responses import ResponseDecoder, ResponseError

LIMIT = 4096

GET = b"GET / HTTP/1.1\r\nhost: h\r\n"
"""Without the empty line at the end."""

POST = b"POST / HTTP/1.1\r\nhost: h\r\n"

CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"

NEXT = b"GET /next HTTP/1.1\r\nhost: h\r\n\r\n"
"""A valid request, to follow another one."""

Events = list[Any]
"""Events with the parts of a body joined, and with the class of the error in place of a `Refused`."""


def splits(data: bytes) -> Iterator[list[bytes]]:
    """`data` whole, byte by byte, and split in two at every position."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(1, len(data)):
        yield [data[:i], data[i:]]


def joined(events: Iterable[Event | type[Exception]]) -> Events:
    """The events in a form that does not depend on how a body was split."""
    result: Events = []
    for event in events:
        if isinstance(event, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += event
        elif isinstance(event, RequestHead | ResponseHead):
            result.append(event._replace(headers=tuple(event.headers)))
        elif isinstance(event, End):
            result.append(event._replace(trailers=tuple(event.trailers)))
        else:
            result.append(type(event.error) if isinstance(event, Refused) else event)
    return result


def requests_of(*parts: bytes, limit: int = LIMIT) -> Events:
    """The events of a new request decoder."""
    decoder = RequestDecoder(header_bytes=limit)
    return joined([event for part in parts for event in decoder.feed(part)])


def responses_of(*parts: bytes, head_only: bool = False, limit: int = LIMIT, ends: bool = False) -> Events:
    """The events of a new response decoder. `ends`: the connection ends after `parts`. A `ResponseError` is not raised but
    added as the last event."""
    decoder = ResponseDecoder(header_bytes=limit)
    decoder.expect(head_only=head_only)
    events: list[Any] = []
    try:
        for part in parts:
            events += decoder.feed(part)
        if ends:
            events += decoder.end()
    except ResponseError:
        events.append(ResponseError)
    return joined(events)


def head(method: str = "GET", target: str = "/", *fields: tuple[bytes, bytes], **more: Any) -> RequestHead:
    """The head of a request to host `h`, for HTTP/1.1 and without a body unless `more` says otherwise."""
    usual = {"content_length": None, "chunked": False, "keep_alive": True, "http_1_1": True, "expects_continue": False}
    return RequestHead(method, target, ((b"host", b"h"), *fields), **{**usual, **more})


def encoded(events: Events) -> bytes:
    """The events encoded as requests again."""
    out = []
    chunked = False
    for event in events:
        if isinstance(event, RequestHead):
            chunked = event.chunked
            line, rest = encode_request(event.method, event.target, event.headers).split(b"\r\n", 1)
            out += [line if event.http_1_1 else line[:-1] + b"0", b"\r\n", rest]
        elif isinstance(event, bytes):
            out.append(encode_chunk([event]) if chunked else event)
        elif isinstance(event, End) and chunked:
            out.append(encode_last_chunk(event.trailers))
    return b"".join(out)


def is_consistent(events: Events) -> bool:
    """Whether the events are consistent: complete requests except perhaps the last, each body of the announced length, and
    nothing after an error or after the last request of a connection."""
    current: RequestHead | None = None
    size, over = 0, False
    for event in events:
        if over:
            return False
        if isinstance(event, RequestHead):
            if current is not None:
                return False
            current, size = event, 0
        elif isinstance(event, bytes):
            size += len(event)
            if current is None or (not current.chunked and size > (current.content_length or 0)):
                return False
        elif isinstance(event, End):
            if current is None or (not current.chunked and size != (current.content_length or 0)):
                return False
            over, current = not current.keep_alive, None
        else:
            over = True
    return True
