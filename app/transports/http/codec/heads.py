"""The grammar of heads and trailers, which is llhttp's. They come whole, however they came over the wire."""

from __future__ import annotations

import re
from typing import NamedTuple

import httptools

from app.transports.http.codec.events import Field

HEAD_END = b"\r\n\r\n"

_LONE = re.compile(rb"\r(?!\n|\Z)|(?<!\r)\n")
_FIRST_OF_REQUEST = re.compile(rb"[A-Z-]+ [\x21-\x7e\x80-\xff]+( HTTP/[0-9]\.[0-9])?\r\n")
_FIRST_OF_RESPONSE = re.compile(rb"HTTP/[0-9]\.[0-9] [0-9]{3}( [\t\x20-\x7e\x80-\xff]*)?\r\n")

_NOT_TRAILING = frozenset((b"connection", b"content-length", b"transfer-encoding"))
"""Says how a message is to be read, which it is too late for after its body (RFC 9110, section 6.5.1)."""

_REQUEST_LINE = b"GET / HTTP/1.1\r\n"


class GrammarError(Exception):
    """It is not valid HTTP/1.1, for the reason that the text gives."""


class RequestLine(NamedTuple):
    """The first line of a request, and its headers."""

    method: str
    target: str
    version: str
    headers: list[Field]


class StatusLine(NamedTuple):
    """The first line of an answer, and its headers."""

    status: int
    reason: bytes
    version: str
    headers: list[Field]


class _Seen:
    """What a parser tells."""

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
    """`head` ends with its empty line. Raises `GrammarError`."""
    first = _FIRST_OF_REQUEST.match(head)
    if first is None:
        raise GrammarError("its first line is not a method, a target and a version, with a space between them")
    if not first[1]:
        check_unfinished(head)
        return RequestLine("", "", "0.9", [])
    seen = _Seen()
    parser = httptools.HttpRequestParser(seen)
    _feed(parser, head, seen)
    return RequestLine(parser.get_method().decode(), seen.text.decode("ascii"), parser.get_http_version(), seen.fields)


def read_response_head(head: bytes) -> StatusLine:
    """`head` ends with its empty line. Raises `GrammarError`."""
    if not _FIRST_OF_RESPONSE.match(head):
        raise GrammarError("its first line is not a version, a status and a reason")
    seen = _Seen()
    parser = httptools.HttpResponseParser(seen)
    _feed(parser, head, seen)
    return StatusLine(parser.get_status_code(), seen.text, parser.get_http_version(), seen.fields)


def read_trailers(section: bytes) -> list[Field]:
    """`section` ends with its empty line. Raises `GrammarError`."""
    fields = read_request_head(_REQUEST_LINE + section).headers
    if any(name in _NOT_TRAILING for name, _ in fields):
        raise GrammarError("a trailer says how the message is to be read")
    return fields


def check_unfinished(data: bytes | bytearray, start: int = 0) -> None:
    """Raises `GrammarError` if `data`, the beginning of lines, can't become any: their ends are what is wrong.

    What stands before `start` was looked at before.
    """
    if _LONE.search(data, max(start - 1, 0)):
        raise GrammarError("a carriage return or a line feed stands alone")


def _feed(parser: httptools.HttpRequestParser | httptools.HttpResponseParser, head: bytes, seen: _Seen) -> None:
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        if not seen.complete:  # else it is of the body, which is not for this parser
            raise GrammarError(str(error).lower()) from error
    if not seen.complete:
        raise GrammarError("its head does not end where its empty line is")
