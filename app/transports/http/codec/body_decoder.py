"""Where bodies end: counted, chunk by chunk, or with the connection."""

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
_SIZE_BEGINS = re.compile(rb"[0-9A-Fa-f]{1,16}|\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED))
"""The line before a chunk: its size, and extensions, without white space between them. Those are not looked at."""


@lru_cache(maxsize=4096)
def _size_of(line: bytes) -> int:
    """The size that the line before a chunk tells; 0 as well if it tells more than that, or none."""
    return int(line, 16) if _SIZE.fullmatch(line) else 0


class TooLongError(Exception):
    """A line of chunked framing, or trailers, over the limit."""


class Body(Protocol):
    """Reads one body."""

    trailers: Sequence[Field]

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """Adds the pieces that `data` holds to `events`. Returns what comes after the body, None if it goes on.

        Raises `GrammarError` or `TooLongError`.
        """


class Sized:
    """A body of a known length, not 0."""

    __slots__ = ("_left",)

    trailers: Sequence[Field] = ()

    def __init__(self, length: int) -> None:
        self._left = length

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """A piece is `data` itself where that is all of the body's."""
        left = self._left
        if len(data) > left:
            events.append(data[:left])
            return data[left:]
        events.append(data)
        self._left = left = left - len(data)
        return None if left else b""


class UntilClose:
    """A body that ends with the connection."""

    __slots__ = ()

    trailers: Sequence[Field] = ()

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """All of it."""
        events.append(data)
        return None


class Chunked:
    """A chunked body (RFC 9112, section 7.1)."""

    __slots__ = ("_extra", "_held", "_in_trailers", "_left", "_limit", "_needs_line_end", "_seen", "trailers")

    def __init__(self, limit: int) -> None:
        """`limit` in bytes is for each line before a chunk, for all their extensions, and for all trailers."""
        self._limit = limit
        self._held = bytearray()
        self._seen = 0
        self._left = self._extra = 0
        self._needs_line_end = self._in_trailers = False
        self.trailers: Sequence[Field] = ()

    def read(self, data: bytes, events: list[Event]) -> bytes | None:
        """Pieces are chunks, or parts of them."""
        if self._held:
            self._held += data
            if not self._can_go_on():
                return None
            data = bytes(self._held)
            self._held = bytearray()
        at: int | None = 0
        if not self._left and not self._needs_line_end and not self._in_trailers:
            at = self._read_whole(data, events)
            if at == len(data):
                return None
        while at is not None and not self._in_trailers:
            at = self._read_data(data, at, events) if self._left or self._needs_line_end else self._read_size(data, at)
        return None if at is None else self._read_trailers(data, at)

    def _can_go_on(self) -> bool:
        """Whether what is held, which had no end so far, has got one."""
        held, seen = self._held, self._seen
        self._seen = len(held)
        if self._in_trailers:
            return held.startswith(_CRLF) or self._has(HEAD_END, seen)
        return self._needs_line_end or self._has(_CRLF, seen)

    def _has(self, end: bytes, seen: int) -> bool:
        if self._held.find(end, max(seen - 3, 0)) >= 0:
            return True
        if len(self._held) > self._limit:
            raise TooLongError
        check_unfinished(self._held, seen)
        return False

    @staticmethod
    def _read_whole(data: bytes, events: list[Event]) -> int:
        """Takes the whole chunks that `data` begins with, which is how streams come. Returns where they end."""
        at = 0
        while (line_end := data.find(_CRLF, at)) >= 0:
            size = _size_of(data[at:line_end])
            end = line_end + 2 + size
            if not size or data[end : end + 2] != _CRLF:
                break  # the last chunk, one that is not whole, or none
            events.append(data[line_end + 2 : end])
            at = end + 2
        return at

    def _read_size(self, data: bytes, at: int) -> int | None:
        end = data.find(_CRLF, at)
        if (end if end >= 0 else len(data)) - at > self._limit:
            raise TooLongError
        if end < 0:
            self._hold(data, at)
            if not _SIZE_BEGINS.match(data, at):
                raise GrammarError("a chunk's size is none")
            return None
        line = _CHUNK.fullmatch(data, at, end)
        if line is None:
            raise GrammarError("a chunk's size is none")
        self._extra += len(line[0]) - len(line[1])
        if self._extra > self._limit:
            raise TooLongError
        self._left = int(line[1], 16)
        self._in_trailers = not self._left
        self._needs_line_end = not self._in_trailers
        return end + 2

    def _read_data(self, data: bytes, at: int, events: list[Event]) -> int | None:
        if self._left:
            piece = data[at : at + self._left]
            if piece:
                events.append(piece)
            self._left -= len(piece)
            at += len(piece)
            if self._left:
                return None
        end = data[at : at + 2]
        if not _CRLF.startswith(end):
            raise GrammarError("a chunk does not end where its size says")
        if len(end) < len(_CRLF):
            self._hold(data, at)
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
            self._hold(data, at)
            return None
        self.trailers = read_trailers(data[at : end + 4])
        return data[end + 4 :]

    def _hold(self, data: bytes, at: int) -> None:
        """Keeps what is not a whole line yet, if it can become one."""
        self._held = bytearray(data[at:])
        self._seen = len(self._held)
        check_unfinished(self._held)
