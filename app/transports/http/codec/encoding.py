"""Encodes heads and bodies. An invalid header is never written, whether it comes from a plugin or from an endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from app.transports.http.codec.events import Field, Fields
from app.transports.http.codec.framing import is_field

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_EMPTY_LINE = [b"\r\n"]
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


def field_of(name: str, value: str) -> Field:
    """A header from text. Raises `ValueError` if it would not be parsed back as exactly this header."""
    field = (name.encode("latin-1").lower(), value.encode("latin-1").strip(b" \t"))
    if not is_field(*field):
        raise ValueError(f"header {name!r} has an invalid name or value")
    return field


def encode_request(method: str, target: str, headers: Fields) -> bytes:
    """The head of an HTTP/1.1 request."""
    return f"{method} {target} HTTP/1.1\r\n".encode("ascii") + _lines(headers)


def encode_response(status: int, reason: bytes, headers: Fields, *, http_1_1: bool = True) -> bytes:
    """The head of a response. An empty `reason` stands for the standard phrase."""
    line = _STATUS_LINES.get(status)
    if not http_1_1 or line is None or (reason and line[13:-2] != reason):
        if line is not None and not reason:
            reason = line[13:-2]
        line = b"HTTP/1.%d %d %b\r\n" % (http_1_1, status, reason)
    return line + _lines(headers)


def encode_chunk(parts: Sequence[bytes]) -> bytes:
    """`parts` joined into one chunk. At least one must not be empty, since an empty chunk ends the body."""
    if len(parts) == 1:
        return b"%x\r\n%b\r\n" % (len(parts[0]), parts[0])
    return b"%x\r\n%b\r\n" % (sum(map(len, parts)), b"".join(parts))


def encode_last_chunk(trailers: Fields) -> bytes:
    """The end of a chunked body."""
    return b"0\r\n" + _lines(trailers) if trailers else LAST_CHUNK


def _lines(fields: Iterable[Field]) -> bytes:
    return b"".join([b"%b: %b\r\n" % field for field in fields] + _EMPTY_LINE)
