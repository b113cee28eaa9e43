"""Parses heads and trailers by llhttp's grammar. Each is parsed whole, however it arrived."""

from __future__ import annotations

import re
from typing import NamedTuple

import httptools

from app.transports.http.codec.events import Field

HEAD_END = b"\r\n\r\n"

_BARE_CR_OR_LF = re.compile(rb"\r(?!\n|\Z)|(?<!\r)\n")
_REQUEST_LINE = re.compile(rb"[A-Z-]+ [\x21-\x7e\x80-\xff]+( HTTP/[0-9]\.[0-9])?\r\n")
_STATUS_LINE = re.compile(rb"HTTP/[0-9]\.[0-9] [0-9]{3}( [\t\x20-\x7e\x80-\xff]*)?\r\n")

_NOT_TRAILERS = frozenset((b"connection", b"content-length", b"transfer-encoding"))
"""They define how to read a message, which can't change after its body (RFC 9110, section 6.5.1)."""

_ANY_REQUEST_LINE = b"GET / HTTP/1.1\r\n"


class GrammarError(Exception):
    """The bytes are not valid HTTP/1.1; the text says why."""


class RequestLine(NamedTuple):
    """The request line and the headers."""

    method: str
    target: str
    version: str
    headers: list[Field]


class StatusLine(NamedTuple):
    """The status line and the headers of a response."""

    status: int
    reason: bytes
    version: str
    headers: list[Field]


class _Callbacks:
    """Collects what a parser reports."""

    __slots__ = ("complete", "fields", "text")

    def __init__(self) -> None:
        self.text = b""
        self.fields: list[Field] = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.text += url

    def on_status(self, reason: bytes) -> None:
        self.text += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True


def read_request_head(head: bytes) -> RequestLine:
    """Parses `head`, which ends with its empty line. Raises `GrammarError`."""
    first = _REQUEST_LINE.match(head)
    if first is None:
        raise GrammarError("the first line must be a method, a target and a version, separated by single spaces")
    if not first[1]:
        check_unfinished(head)
        return RequestLine("", "", "0.9", [])
    found = _Callbacks()
    parser = httptools.HttpRequestParser(found)
    _feed(parser, head, found)
    method, target = parser.get_method().decode(), found.text.decode("ascii")
    return RequestLine(method, target, parser.get_http_version(), found.fields)


def read_response_head(head: bytes) -> StatusLine:
    """Parses `head`, which ends with its empty line. Raises `GrammarError`."""
    if not _STATUS_LINE.match(head):
        raise GrammarError("the first line must be a version, a status of three digits and a reason")
    found = _Callbacks()
    parser = httptools.HttpResponseParser(found)
    _feed(parser, head, found)
    return StatusLine(parser.get_status_code(), found.text, parser.get_http_version(), found.fields)


def read_trailers(section: bytes) -> list[Field]:
    """Parses `section`, which ends with its empty line. Raises `GrammarError`."""
    fields = read_request_head(_ANY_REQUEST_LINE + section).headers
    if any(name in _NOT_TRAILERS for name, _ in fields):
        raise GrammarError("connection, content-length and transfer-encoding can't be trailers")
    return fields


def check_unfinished(data: bytes | bytearray, start: int = 0) -> None:
    """Raises `GrammarError` if the incomplete lines in `data` can't become valid, since a line end in them is wrong.

    `data` before `start` has been checked already.
    """
    if _BARE_CR_OR_LF.search(data, max(start - 1, 0)):
        raise GrammarError("bare carriage return or line feed: a line must end with CRLF")


def _feed(parser: httptools.HttpRequestParser | httptools.HttpResponseParser, head: bytes, found: _Callbacks) -> None:
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        if not found.complete:  # otherwise it is about the body, which is not this parser's business
            raise GrammarError(str(error).lower()) from error
    if not found.complete:
        raise GrammarError("the head does not end at its empty line")
