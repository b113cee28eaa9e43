"""Decodes requests."""

from __future__ import annotations

import re

from app.domain.errors import BadRequestError, HeadersTooLargeError, RoutingError, UnsupportedError
from app.transports.http.codec.body_decoder import Body, Chunked, Sized, TooLongError
from app.transports.http.codec.events import End, Event, Fields, Refused, RequestHead
from app.transports.http.codec.framing import keeps_alive, length_of, tokens_of
from app.transports.http.codec.heads import HEAD_END, GrammarError, RequestLine, check_unfinished, read_request_head

_AUTHORITY = r"(?:[A-Za-z0-9.\-_~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
_HOST = re.compile(_AUTHORITY.encode())
_ABSOLUTE = re.compile(rf"https?://(?=[^/?:]){_AUTHORITY}(?=[/?]|\Z)", re.IGNORECASE)
_METHOD = re.compile(rb"[A-Z]")
_SPACE = 0x20
_NO_VALUES: list[bytes] = []
_SPECIAL = frozenset((b"content-length", b"transfer-encoding", b"host", b"expect", b"upgrade", b"connection"))


class RequestDecoder:
    """Turns a client's bytes into events: for each request a `RequestHead`, its body as `bytes`, and an `End`.

    The first error produces a `Refused`. Everything after it is ignored, as is everything after a request that asks to
    close the connection.
    """

    def __init__(self, *, header_bytes: int) -> None:
        self.header_bytes = header_bytes
        """Limits a head, including its first line, and the trailers. May change between two reads."""
        self._buffer = bytearray()
        self._empty_line_bytes = 0
        self._body: Body | None = None
        self._keep_alive = True
        self._closed = False

    @property
    def within_head(self) -> bool:
        """Whether a part of a head has arrived, but not yet all of it."""
        return bool(self._buffer) and self._buffer != b"\r"

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data`, the next bytes of the connection, completes."""
        events: list[Event] = []
        try:
            while data and not self._closed:
                data = self._read_head(data, events) if self._body is None else self._read_body(data, events)
        except RoutingError as error:
            self._refuse(error, events)
        except GrammarError as error:
            self._refuse(BadRequestError(f"the request is not valid HTTP/1.1: {error}"), events)
        except TooLongError:
            self._refuse(HeadersTooLargeError(self.header_bytes), events)
        return events

    def close(self) -> None:
        """Stops decoding: no event follows."""
        self._closed = True
        self._buffer = bytearray()

    def _refuse(self, error: RoutingError, events: list[Event]) -> None:
        self.close()
        events.append(Refused(error))

    def _read_head(self, data: bytes, events: list[Event]) -> bytes:
        """Returns the bytes after the head; none if it is incomplete."""
        if self._buffer:
            return self._continue_head(data, events)
        if data[0] <= _SPACE:
            data = self._skip_empty_lines(data)
        end = data.find(HEAD_END)
        if end < 0:
            self._keep(data)
            return b""
        self._check_size(end + 4)
        self._begin(data[: end + 4], events)
        return data[end + 4 :]

    def _continue_head(self, data: bytes, events: list[Event]) -> bytes:
        """As `_read_head`, if a part of the head arrived before `data`."""
        buffer, before = self._buffer, len(self._buffer)
        buffer += data
        if buffer[0] <= _SPACE:
            self._buffer = bytearray()
            return bytes(buffer)  # it was the carriage return of an empty line
        end = buffer.find(HEAD_END, max(before - 3, 0))
        if end < 0:
            self._check_size(len(buffer))
            check_unfinished(buffer, before)
            return b""
        self._check_size(end + 4)
        self._buffer = bytearray()
        self._begin(bytes(buffer[: end + 4]), events)
        return bytes(buffer[end + 4 :])

    def _begin(self, data: bytes, events: list[Event]) -> None:
        self._empty_line_bytes = 0
        head = _head_of(read_request_head(data))
        events.append(head)
        self._keep_alive = head.keep_alive
        if head.chunked:
            self._body = Chunked(self.header_bytes)
        elif head.content_length:
            self._body = Sized(head.content_length)
        else:
            self._end(events, ())

    def _keep(self, data: bytes) -> None:
        """Buffers an incomplete head, unless it can't become a valid one."""
        self._buffer += data
        if data and data != b"\r" and not _METHOD.match(data):
            raise GrammarError("a request must start with a method in upper case")
        self._check_size(len(data))
        check_unfinished(data)

    def _check_size(self, size: int) -> None:
        if size > self.header_bytes:
            raise HeadersTooLargeError(self.header_bytes)

    def _skip_empty_lines(self, data: bytes) -> bytes:
        """`data` without the empty lines before the request (RFC 9112, section 2.2)."""
        rest = data.lstrip(b"\r\n")
        before = data[: len(data) - len(rest)]
        if not rest and before.endswith(b"\r"):
            before, rest = before[:-1], b"\r"
        if before.replace(b"\r\n", b""):
            raise GrammarError("bare carriage return or line feed: a line must end with CRLF")
        self._empty_line_bytes += len(before)
        if self._empty_line_bytes > self.header_bytes:
            raise HeadersTooLargeError(self.header_bytes)
        return rest

    def _read_body(self, data: bytes, events: list[Event]) -> bytes:
        """Returns the bytes after the body; none if it is incomplete."""
        assert self._body is not None  # noqa: S101 - checked by the caller
        rest = self._body.read(data, events)
        if rest is None:
            return b""
        self._end(events, self._body.trailers)
        return rest

    def _end(self, events: list[Event], trailers: Fields) -> None:
        events.append(End(trailers))
        self._body = None
        if not self._keep_alive:
            self.close()


def _head_of(line: RequestLine) -> RequestHead:
    method, target, version, headers = line
    if version not in ("1.1", "1.0"):
        raise UnsupportedError(f"HTTP/{version} is not supported; use HTTP/1.1")
    http_1_1 = version == "1.1"
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in _SPECIAL:
            found.setdefault(name, []).append(value)
    _check_host(found.get(b"host", _NO_VALUES), http_1_1=http_1_1)
    length, chunked = length_of(found.get(b"content-length", _NO_VALUES), found.get(b"transfer-encoding", _NO_VALUES))
    if chunked and not http_1_1:
        raise BadRequestError("HTTP/1.0 has no transfer-encoding")
    connection = tokens_of(headers, b"connection") if b"connection" in found else frozenset()
    if b"upgrade" in found and b"upgrade" in connection:
        _check_upgrade(headers)
    if method == "CONNECT":
        raise UnsupportedError("CONNECT is not supported: this is not a forward proxy")
    expects = b"expect" in found and _expects_continue(found[b"expect"], http_1_1=http_1_1)
    keep_alive = keeps_alive(connection, http_1_1=http_1_1)
    return RequestHead(method, _target(method, target), headers, length, chunked, keep_alive, http_1_1, expects)


def _check_host(hosts: list[bytes], *, http_1_1: bool) -> None:
    if len(hosts) > 1 or (http_1_1 and not hosts):
        raise BadRequestError("a request must have exactly one host header")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise BadRequestError("the host header must be a name or an IP address, with or without a port")


def _check_upgrade(headers: Fields) -> None:
    """An offer to switch to HTTP/2 may be ignored. A client that offers another protocol can't do without it."""
    if tokens_of(headers, b"upgrade") - {b"h2c"}:
        raise UnsupportedError("upgrading the connection to another protocol is not supported")


def _expects_continue(expectations: list[bytes], *, http_1_1: bool) -> bool:
    if any(value.lower() != b"100-continue" for value in expectations):
        raise BadRequestError("the only supported expectation is 100-continue")
    return http_1_1


def _target(method: str, target: str) -> str:
    if "#" in target:
        raise BadRequestError("a request target can't have a fragment")
    if target.startswith("/"):
        return target
    if absolute := _ABSOLUTE.match(target):
        rest = target[absolute.end() :]
        return rest if rest.startswith("/") else f"/{rest}"
    if target == "*" and method == "OPTIONS":
        raise UnsupportedError("OPTIONS * is not supported; request the options of a path")
    raise BadRequestError("a request target must be a path or an http URL")
