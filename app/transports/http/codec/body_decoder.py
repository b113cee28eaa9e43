"""Decodes bodies: framed by a length, by chunks, or by the end of the connection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from app.transports.http.codec.events import Event, Field
from app.transports.http.codec.heads import HEAD_END, GrammarError, check_unfinished, read_trailers

_CRLF = b"\r\n"
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb"\"(?:[\t !#-\[\]-~]|\\[\t -~])*\""
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_SIZE_PREFIX = re.compile(rb"[0-9A-Fa-f]{1,16}|\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED))
"""A chunk header: the size, then extensions, without whitespace between them. Extensions are ignored."""


@lru_cache(maxsize=4096)
def _size_of(line: bytes) -> int:
    """The size in a chunk header; also 0 if the header has extensions or is invalid."""
    return int(line, 16) if _SIZE.fullmatch(line) else 0


class TooLongError(Exception):
    """A chunk header or the trailers exceed the limit."""


class Body(Protocol):
    """Decodes one body."""

    trailers: Sequence[Field]

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """Appends the body data in `data` to `events`. Returns the bytes after the body, None if the body continues.

        Raises `GrammarError` or `TooLongError`.
        """


class Sized:
    """A body of a known length, which is not 0."""

    __slots__ = ("_remaining",)

    trailers: Sequence[Field] = ()

    def __init__(self, length: int) -> None:
        self._remaining = length

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """Appends `data` itself, uncopied, if all of it belongs to the body."""
        remaining = self._remaining
        if len(data) > remaining:
            events.append(data[:remaining])
            return data[remaining:]
        events.append(data)
        self._remaining = remaining = remaining - len(data)
        return None if remaining else b""


class UntilClose:
    """A body that ends with the connection."""

    __slots__ = ()

    trailers: Sequence[Field] = ()

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """Appends all of `data`."""
        events.append(data)
        return None


class Chunked:
    """A chunked body (RFC 9112, section 7.1)."""

    __slots__ = (
        "_buffer", "_extension_bytes", "_in_trailers", "_limit", "_needs_line_end", "_remaining", "_scanned",
        "trailers",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        """`limit`, in bytes, applies to each chunk header, to all extensions together, and to all trailers together."""
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0
        self._remaining = self._extension_bytes = 0
        self._needs_line_end = self._in_trailers = False
        self.trailers: Sequence[Field] = ()

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """Appends whole chunks, or parts of them."""
        if self._buffer:
            self._buffer += data
            if not self._can_continue():
                return None
            data = bytes(self._buffer)
            self._buffer = bytearray()
        at: int | None = 0
        if not self._remaining and not self._needs_line_end and not self._in_trailers:
            at = self._read_whole_chunks(data, events)
            if at == len(data):
                return None
        while at is not None and not self._in_trailers:
            if self._remaining or self._needs_line_end:
                at = self._read_data(data, at, events)
            else:
                at = self._read_size(data, at)
        return None if at is None else self._read_trailers(data, at)

    def _can_continue(self) -> bool:
        """Whether the buffered line or trailers, incomplete until now, are complete."""
        buffer, scanned = self._buffer, self._scanned
        self._scanned = len(buffer)
        if self._in_trailers:
            return buffer.startswith(_CRLF) or self._contains(HEAD_END, scanned)
        return self._needs_line_end or self._contains(_CRLF, scanned)

    def _contains(self, end: bytes, scanned: int) -> bool:
        if self._buffer.find(end, max(scanned - 3, 0)) >= 0:
            return True
        if len(self._buffer) > self._limit:
            raise TooLongError
        check_unfinished(self._buffer, scanned)
        return False

    @staticmethod
    def _read_whole_chunks(data: bytes, events: list[Event]) -> int:
        """The fast path: streams usually arrive in whole chunks. Returns the position after those at the start."""
        at = 0
        while (line_end := data.find(_CRLF, at)) >= 0:
            size = _size_of(data[at:line_end])
            end = line_end + 2 + size
            if not size or data[end : end + 2] != _CRLF:
                break  # the last chunk, an incomplete one, or an invalid one
            events.append(data[line_end + 2 : end])
            at = end + 2
        return at

    def _read_size(self, data: bytes, at: int) -> int | None:
        end = data.find(_CRLF, at)
        if (end if end >= 0 else len(data)) - at > self._limit:
            raise TooLongError
        if end < 0:
            self._keep(data, at)
            if not _SIZE_PREFIX.match(data, at):
                raise GrammarError("a chunk must start with its size in hexadecimal digits")
            return None
        line = _CHUNK.fullmatch(data, at, end)
        if line is None:
            raise GrammarError("a chunk must start with its size in hexadecimal digits, then CRLF or extensions")
        self._extension_bytes += len(line[0]) - len(line[1])
        if self._extension_bytes > self._limit:
            raise TooLongError
        self._remaining = int(line[1], 16)
        self._in_trailers = not self._remaining
        self._needs_line_end = not self._in_trailers
        return end + 2

    def _read_data(self, data: bytes, at: int, events: list[Event]) -> int | None:
        if self._remaining:
            part = data[at : at + self._remaining]
            if part:
                events.append(part)
            self._remaining -= len(part)
            at += len(part)
            if self._remaining:
                return None
        end = data[at : at + 2]
        if not _CRLF.startswith(end):
            raise GrammarError("a chunk is longer or shorter than its size")
        if len(end) < len(_CRLF):
            self._keep(data, at)
            return None
        self._needs_line_end = False
        return at + 2

    def _read_trailers(self, data: bytes, at: int) -> bytes | None:
        if data.startswith(_CRLF, at):
            return data[at + 2 :]
        end = data.find(HEAD_END, at)
        if (end + 4 if end >= 0 else len(data)) - at > self._limit:
            raise TooLongError
        if end < 0:
            self._keep(data, at)
            return None
        self.trailers = read_trailers(data[at : end + 4])
        return data[end + 4 :]

    def _keep(self, data: bytes, at: int) -> None:
        """Buffers an incomplete line, unless it can't become a valid one."""
        self._buffer = bytearray(data[at:])
        self._scanned = len(self._buffer)
        check_unfinished(self._buffer)
