"""Reads requests."""

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
_NONE: list[bytes] = []
_SPECIAL = frozenset((b"content-length", b"transfer-encoding", b"host", b"expect", b"upgrade", b"connection"))


class RequestDecoder:
    """What a client sends, as events: for each request a `RequestHead`, pieces of its body as `bytes`, an `End`.

    The first fault gives a `Refused`; from then on everything is ignored, as it is after a request that is the last by
    its own headers.
    """

    def __init__(self, *, header_bytes: int) -> None:
        """`header_bytes` bounds a head, first line included, and trailers."""
        self._limit = header_bytes
        self._held = bytearray()
        self._empty = 0
        self._body: Body | None = None
        self._keep_alive = True
        self._over = False

    @property
    def within_head(self) -> bool:
        """Whether a head has begun and has not ended."""
        return bool(self._held) and self._held != b"\r"

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data`, the next bytes of the connection, completes."""
        events: list[Event] = []
        try:
            while data and not self._over:
                data = self._read_head(data, events) if self._body is None else self._read_body(data, events)
        except RoutingError as error:
            self._refuse(error, events)
        except GrammarError as error:
            self._refuse(BadRequestError(f"the request is not valid HTTP/1.1: {error}"), events)
        except TooLongError:
            self._refuse(HeadersTooLargeError(self._limit), events)
        return events

    def close(self) -> None:
        """Ends it: it tells nothing more."""
        self._over = True
        self._held = bytearray()

    def _refuse(self, error: RoutingError, events: list[Event]) -> None:
        self.close()
        events.append(Refused(error))

    def _read_head(self, data: bytes, events: list[Event]) -> bytes:
        """What comes after the head, if that is whole."""
        if self._held:
            return self._read_on(data, events)
        if data[0] <= _SPACE:
            data = self._past_empty_lines(data)
        end = data.find(HEAD_END)
        if end < 0:
            self._hold(data)
            return b""
        self._check_size(end + 4)
        self._begin(data[: end + 4], events)
        return data[end + 4 :]

    def _read_on(self, data: bytes, events: list[Event]) -> bytes:
        """As `_read_head`, after a part of the head that came before."""
        held, before = self._held, len(self._held)
        held += data
        if held[0] <= _SPACE:
            self._held = bytearray()
            return bytes(held)  # it was a carriage return, of an empty line
        end = held.find(HEAD_END, max(before - 3, 0))
        if end < 0:
            self._check_size(len(held))
            check_unfinished(held, before)
            return b""
        self._check_size(end + 4)
        self._held = bytearray()
        self._begin(bytes(held[: end + 4]), events)
        return bytes(held[end + 4 :])

    def _begin(self, data: bytes, events: list[Event]) -> None:
        self._empty = 0
        head = _head_of(read_request_head(data))
        events.append(head)
        self._keep_alive = head.keep_alive
        if head.chunked:
            self._body = Chunked(self._limit)
        elif head.content_length:
            self._body = Sized(head.content_length)
        else:
            self._end(events, ())

    def _hold(self, data: bytes) -> None:
        """Keeps what is no whole head yet, if it can become one."""
        self._held += data
        if data and data != b"\r" and not _METHOD.match(data):
            raise GrammarError("it does not begin with a method")
        self._check_size(len(data))
        check_unfinished(data)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise HeadersTooLargeError(self._limit)

    def _past_empty_lines(self, data: bytes) -> bytes:
        """`data` from where a request begins. Empty lines before it are passed over (RFC 9112, section 2.2)."""
        rest = data.lstrip(b"\r\n")
        before = data[: len(data) - len(rest)]
        if not rest and before.endswith(b"\r"):
            before, rest = before[:-1], b"\r"
        if before.replace(b"\r\n", b""):
            raise GrammarError("a carriage return or a line feed stands alone")
        self._empty += len(before)
        if self._empty > self._limit:
            raise HeadersTooLargeError(self._limit)
        return rest

    def _read_body(self, data: bytes, events: list[Event]) -> bytes:
        """What comes after the body, if that is whole."""
        assert self._body is not None  # noqa: S101 - asked before
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
        raise UnsupportedError(f"HTTP/{version} is not served here, HTTP/1.1 is")
    http_1_1 = version == "1.1"
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in _SPECIAL:
            found.setdefault(name, []).append(value)
    _check_host(found.get(b"host", _NONE), http_1_1=http_1_1)
    length, chunked = length_of(found.get(b"content-length", _NONE), found.get(b"transfer-encoding", _NONE))
    if chunked and not http_1_1:
        raise BadRequestError("HTTP/1.0 has no transfer-encoding")
    connection = tokens_of(headers, b"connection") if b"connection" in found else frozenset()
    if b"upgrade" in found and b"upgrade" in connection:
        _check_upgrade(headers)
    if method == "CONNECT":
        raise UnsupportedError("CONNECT is not served here: this is no forward proxy")
    expects = b"expect" in found and _expects_continue(found[b"expect"], http_1_1=http_1_1)
    keep_alive = keeps_alive(connection, http_1_1=http_1_1)
    return RequestHead(method, _target(method, target), headers, length, chunked, keep_alive, http_1_1, expects)


def _check_host(hosts: list[bytes], *, http_1_1: bool) -> None:
    if len(hosts) > 1 or (http_1_1 and not hosts):
        raise BadRequestError("a request must have one host header")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise BadRequestError("the host header has characters that no host has")


def _check_upgrade(headers: Fields) -> None:
    """An offer to go on in HTTP/2 may be passed over; other protocols are what the client is here for."""
    if tokens_of(headers, b"upgrade") - {b"h2c"}:
        raise UnsupportedError("an upgrade of the connection to another protocol is not served here")


def _expects_continue(expectations: list[bytes], *, http_1_1: bool) -> bool:
    if any(value.lower() != b"100-continue" for value in expectations):
        raise BadRequestError("the only expectation that can be met is 100-continue")
    return http_1_1


def _target(method: str, target: str) -> str:
    if "#" in target:
        raise BadRequestError("a request's target has no fragment")
    if target.startswith("/"):
        return target
    if absolute := _ABSOLUTE.match(target):
        rest = target[absolute.end() :]
        return rest if rest.startswith("/") else f"/{rest}"
    if target == "*" and method == "OPTIONS":
        raise UnsupportedError("OPTIONS * is not served here; ask for the options of a path")
    raise BadRequestError("a request's target must be a path")
