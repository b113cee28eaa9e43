"""Writes one response to a client, and pauses the response's source while the client does not read."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

from app.transports.http.codec.encoding import encode_chunk, encode_last_chunk, encode_response
from app.transports.http.codec.events import End, Field, ResponseHead
from app.transports.http.headers import trailing
from app.transports.http.incoming import IncomingRequest

_CLOSE: Field = (b"connection", b"close")
_KEEP_ALIVE: Field = (b"connection", b"keep-alive")
_CHUNKED: Field = (b"transfer-encoding", b"chunked")


class Source(Protocol):
    """Where a response body comes from."""

    def pause(self) -> None:
        """Stops sending."""

    def resume(self) -> None:
        """Resumes sending."""


class Sink(Protocol):
    """Where a response body goes to."""

    def write(self, chunks: Sequence[bytes], end: End | None = None) -> None:
        """Takes the next chunks of the body. With `end` they are the last."""

    def attach(self, source: Source) -> None:
        """Sets the source of the body, to be paused while it sends too fast."""


class ResponseWriter:
    """The response to one request."""

    __slots__ = (
        "_chunked", "_head", "_http_1_1", "_paused", "_source", "_transport", "begun", "closes", "relay",
    )  # fmt: skip

    def __init__(self, transport: asyncio.Transport, incoming: IncomingRequest, *, closes: bool, paused: bool) -> None:
        """`closes`: the connection closes after this response. `paused`: the client does not read at the moment."""
        head = incoming.head
        self._transport = transport
        self._http_1_1 = head is None or head.http_1_1
        self._paused = paused
        self._source: Source | None = None
        self._head = b""
        self._chunked = False
        self.closes = closes or not incoming.whole or head is None or not head.keep_alive
        """Whether the connection closes after this response."""
        self.begun = False
        """Whether the response has begun, so that no other can be sent instead."""
        self.relay: Callable[[Sequence[bytes]], None] | None = None
        """If set, is called with the chunks of the body once they are written."""

    def send(self, status: int, fields: Sequence[Field], body: bytes, *, with_body: bool = True) -> None:
        """Sends a complete response of the router's own. `with_body` is false for a request of method HEAD."""
        fields = [*fields, (b"content-length", b"%d" % len(body)), *self._connection()]
        head = encode_response(status, b"", fields, http_1_1=self._http_1_1)
        self.begun = True
        self._write(head + body if with_body else head)

    def begin(self, head: ResponseHead, fields: list[Field]) -> None:
        """Begins a response. Its head is sent with the first `write` of its body."""
        if head.status == HTTPStatus.NO_CONTENT:
            fields = [field for field in fields if field[0] != b"content-length"]  # RFC 9110, section 8.6
        if not head.bodiless and head.content_length is None:
            if self._http_1_1:
                self._chunked = True
                fields.append(_CHUNKED)
            else:
                self.closes = True  # in HTTP/1.0 the end of the connection is the end of the body
        fields += self._connection()
        self._head = encode_response(head.status, head.reason, fields, http_1_1=self._http_1_1)
        self.begun = True

    def write(self, chunks: Sequence[bytes], end: End | None = None) -> None:
        """Writes the next chunks of the body. With `end` they are the last."""
        out: list[bytes] = []
        if self._head:
            out.append(self._head)
            self._head = b""
        if chunks:
            if self._chunked:
                out.append(encode_chunk(chunks))
            else:
                out += chunks
        if end is not None and self._chunked:
            out.append(encode_last_chunk(trailing(end.trailers)))
        if out:
            self._write(out[0] if len(out) == 1 else b"".join(out))
        if chunks and self.relay is not None:
            self.relay(chunks)

    def break_off(self) -> None:
        """Closes the connection in a way that shows that the body is incomplete."""
        self.closes = True
        if self._head:
            self._write(self._head)
        if self._http_1_1:
            self._transport.close()
        else:
            _reset(self._transport)  # HTTP/1.0 has no chunks whose end could be missing

    def attach(self, source: Source) -> None:
        """Sets the source of the body, which is paused while the client does not read."""
        self._source = source
        if self._paused:
            source.pause()

    def pause(self) -> None:
        """The client has stopped reading."""
        self._paused = True
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        """The client has resumed reading."""
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
    """Resets the connection, which the client can't mistake for an orderly close."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
