"""Writes one answer to a client, and holds its source back while the client takes nothing."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from http import HTTPStatus
from typing import Protocol

from app.parsing.usage import UsageReader
from app.transports.http.codec.encoding import encode_chunk, encode_last_chunk, encode_response
from app.transports.http.codec.events import End, Field, ResponseHead
from app.transports.http.headers import trailing
from app.transports.http.incoming import IncomingRequest

_CLOSE: Field = (b"connection", b"close")
_KEEP_ALIVE: Field = (b"connection", b"keep-alive")
_CHUNKED: Field = (b"transfer-encoding", b"chunked")


class Source(Protocol):
    """Where an answer's body comes from."""

    def pause(self) -> None:
        """Nothing more for now."""

    def resume(self) -> None:
        """Go on."""


class Sink(Protocol):
    """Where an answer's body goes."""

    def write(self, pieces: Sequence[bytes], end: End | None = None) -> None:
        """More of it, and with `end` the end of it."""

    def attach(self, source: Source) -> None:
        """Where it comes from, to be held back when it is too much."""


class ResponseWriter:
    """The answer to one request."""

    __slots__ = (
        "_chunked", "_head", "_http_1_1", "_paused", "_source", "_transport", "begun", "closes", "sent", "usage",
    )  # fmt: skip

    def __init__(self, transport: asyncio.Transport, incoming: IncomingRequest, *, closes: bool, paused: bool) -> None:
        """`closes`: the connection ends with this answer; `paused`: its client takes nothing at the moment."""
        head = incoming.head
        self._transport = transport
        self._http_1_1 = head is None or head.http_1_1
        self._paused = paused
        self._source: Source | None = None
        self._head = b""
        self._chunked = False
        self.closes = closes or not incoming.whole or head is None or not head.keep_alive
        """Whether the connection ends with this answer."""
        self.begun = False
        """Whether the client has got some of it."""
        self.sent = 0
        """Bytes of the body so far."""
        self.usage: UsageReader | None = None
        """Who reads in the body what it cost."""

    def whole(self, status: int, fields: Sequence[Field], body: bytes, *, with_body: bool = True) -> None:
        """An answer of the router's own; without its body to a request of method HEAD."""
        fields = [*fields, (b"content-length", b"%d" % len(body)), *self._connection()]
        head = encode_response(status, b"", fields, http_1_1=self._http_1_1)
        self.begun = True
        self._write(head + body if with_body else head)

    def begin(self, head: ResponseHead, fields: list[Field]) -> None:
        """The head of an answer whose body is to follow by `write`, with which it goes out."""
        if head.status == HTTPStatus.NO_CONTENT:
            fields = [field for field in fields if field[0] != b"content-length"]  # RFC 9110, section 8.6
        if not head.bodiless and head.content_length is None:
            if self._http_1_1:
                self._chunked = True
                fields.append(_CHUNKED)
            else:
                self.closes = True  # for HTTP/1.0 the connection's end is the body's
        fields += self._connection()
        self._head = encode_response(head.status, head.reason, fields, http_1_1=self._http_1_1)
        self.begun = True

    def write(self, pieces: Sequence[bytes], end: End | None = None) -> None:
        """More of the body, and with `end` the end of it."""
        out: list[bytes] = []
        if self._head:
            out.append(self._head)
            self._head = b""
        if pieces:
            self.sent += sum(map(len, pieces))
            if self.usage is not None:
                for piece in pieces:
                    self.usage.feed(piece)
            if self._chunked:
                out.append(encode_chunk(pieces))
            else:
                out += pieces
        if end is not None and self._chunked:
            out.append(encode_last_chunk(trailing(end.trailers)))
        if out:
            self._write(out[0] if len(out) == 1 else b"".join(out))

    def break_off(self) -> None:
        """Ends the client's connection without the end of the body, since the body has none."""
        self.closes = True
        if self._head:
            self._write(self._head)
        if self._http_1_1:
            self._transport.close()
        else:
            _reset(self._transport)  # without chunks only that tells a break from an end

    def attach(self, source: Source) -> None:
        """Where the body comes from, to be held back as long as the client takes nothing."""
        self._source = source
        if self._paused:
            source.pause()

    def pause(self) -> None:
        """The client takes nothing."""
        self._paused = True
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        """The client takes something again."""
        self._paused = False
        if self._source is not None:
            self._source.resume()

    def _connection(self) -> tuple[Field, ...]:
        if self.closes:
            return (_CLOSE,)
        return () if self._http_1_1 else (_KEEP_ALIVE,)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def _reset(transport: asyncio.Transport) -> None:
    """Ends a connection so that the other side can't take it for an end that was meant."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
