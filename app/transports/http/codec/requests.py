"""Reads requests."""

from __future__ import annotations

import re
from typing import NoReturn

import httptools

from app.domain.errors import BadRequestError, HeadersTooLargeError, RoutingError, UnsupportedError
from app.transports.http.codec.events import End, Event, Field, Refused, RequestHead
from app.transports.http.codec.framing import length_of, tokens_of

_HOST = re.compile(rb"[A-Za-z0-9.\-_~!$&'()*+,;=:%\[\]]*")
_ABSOLUTE = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_LONE_FEED = "the request is not valid HTTP/1.1: a carriage return or a line feed stands alone"
_SPACE = 0x20
_NONE: list[bytes] = []
_SPECIAL = frozenset((b"content-length", b"transfer-encoding", b"host", b"expect", b"upgrade"))


class RequestDecoder:
    """What a client sends, as events: for each request a `RequestHead`, pieces of its body as `bytes`, an `End`.

    The first fault gives a `Refused`; from then on everything is ignored, as it is after a request that is the last by
    its own headers.
    """

    def __init__(self, *, header_bytes: int) -> None:
        """`header_bytes` bounds a head, first line included, and trailers."""
        self._limit = header_bytes
        self._events: list[Event] = []
        self._over = False
        self._held = b""
        self._begins = 0
        self._begin()
        self._parser = httptools.HttpRequestParser(self)

    @property
    def within_head(self) -> bool:
        """Whether a head has begun and has not ended."""
        return self._begun and not self._in_body

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data`, the next bytes of the connection, completes."""
        if self._over:
            return []
        self._events = []
        try:
            self._read(data)
        except RoutingError as error:
            self._refuse(error)
        except httptools.HttpParserCallbackError as error:
            self._refuse(_cause_of(error))
        except httptools.HttpParserError as error:
            if not self._over:  # else it is data after a request that is the last
                self._refuse(BadRequestError(f"the request is not valid HTTP/1.1: {str(error).lower()}"))
        return self._events

    def close(self) -> None:
        """Ends it; it and its parser refer to each other."""
        self._over = True
        del self._parser

    def _read(self, data: bytes) -> None:
        self._silent += len(data)
        if not self._begun and (self._held or data[0] <= _SPACE):
            data = self._past_empty_lines(data)
        self._begins = 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._pass_over(upgrade, data)
        if self._silent > self._limit:
            raise HeadersTooLargeError(self._limit)
        if not self._begun and data.endswith(b"\r"):
            self._held = b"\r"
        if self._begins > 1 and _lone_feeds(data) > sum(_lone_feeds(e) for e in self._events if isinstance(e, bytes)):
            raise BadRequestError(_LONE_FEED)

    def _pass_over(self, upgrade: httptools.HttpParserUpgrade, data: bytes) -> None:
        """Goes on in HTTP/1.1 after an offer of HTTP/2, which is not taken."""
        while not self._over:
            data = data[upgrade.args[0] :]
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as another:
                upgrade = another
            else:
                return

    def _past_empty_lines(self, data: bytes) -> bytes:
        """`data` from where a request begins. Empty lines before it are passed over (RFC 9112, section 2.2)."""
        data = self._held + data
        self._held = b""
        rest = data.lstrip(b"\r\n")
        before = data[: len(data) - len(rest)]
        if not rest and before.endswith(b"\r"):
            self._held, before = b"\r", before[:-1]
        if before.replace(b"\r\n", b""):
            raise BadRequestError(_LONE_FEED)
        return rest

    def _refuse(self, error: RoutingError) -> None:
        self._over = True
        self._events.append(Refused(error))

    def _begin(self) -> None:
        self._url = b""
        self._fields: list[Field] = []
        self._silent = 0
        self._begun = self._in_body = False

    # -- called by the parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self._begun = True
        self._begins += 1

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self._silent > self._limit:  # most of it may be of the body
            self._measure(len(self._url))
        head = self._head()
        self._keep_alive = head.keep_alive
        self._fields = []
        self._silent = 0
        self._in_body = True
        self._events.append(head)

    def on_chunk_header(self) -> None:
        """A chunk's first line was read."""
        self._silent = 0

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._silent = 0
        self._events.append(piece)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._fields and self._silent > self._limit:
            self._measure(0)
        self._events.append(End(self._fields))
        self._over = not self._keep_alive
        self._begin()

    # -- what the headers say

    def _measure(self, size: int) -> None:
        if size + sum(len(name) + len(value) + 4 for name, value in self._fields) > self._limit:
            raise HeadersTooLargeError(self._limit)

    def _head(self) -> RequestHead:
        parser, headers = self._parser, self._fields
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise UnsupportedError(f"HTTP/{version} is not served here, HTTP/1.1 is")
        http_1_1 = version == "1.1"
        method = parser.get_method().decode()
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            if name in _SPECIAL:
                found.setdefault(name, []).append(value)
        _check_host(found.get(b"host", _NONE), http_1_1=http_1_1)
        length, chunked = length_of(found.get(b"content-length", _NONE), found.get(b"transfer-encoding", _NONE))
        if chunked and not http_1_1:
            raise BadRequestError("HTTP/1.0 has no transfer-encoding")
        if b"upgrade" in found and parser.should_upgrade():
            _check_upgrade(found[b"upgrade"])
        if method == "CONNECT":
            raise UnsupportedError("CONNECT is not served here: this is no forward proxy")
        expects = b"expect" in found and _expects_continue(found[b"expect"], http_1_1=http_1_1)
        target = _target(method, self._url.decode("ascii"))
        keep_alive = parser.should_keep_alive()
        return RequestHead(method, target, headers, length, chunked, keep_alive, http_1_1, expects)


def _check_host(hosts: list[bytes], *, http_1_1: bool) -> None:
    if len(hosts) > 1 or (http_1_1 and not hosts):
        raise BadRequestError("a request must have one host header")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise BadRequestError("the host header has characters that no host has")


def _check_upgrade(offers: list[bytes]) -> None:
    """An offer to go on in HTTP/2 may be passed over; other protocols are what the client is here for."""
    wanted = tokens_of([(b"upgrade", value) for value in offers], b"upgrade") - {b"h2c"}
    if wanted:
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


def _lone_feeds(data: bytes) -> int:
    return data.count(b"\n") - data.count(b"\r\n")


def _cause_of(error: Exception) -> RoutingError:
    cause = error.__cause__ or error.__context__
    return cause if isinstance(cause, RoutingError) else _raise(error)


def _raise(error: Exception) -> NoReturn:
    raise error
