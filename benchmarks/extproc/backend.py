"""The model servers behind the proxy: one process that listens on several ports, and does as little as it can.

    python -m extproc.backend PORT...

A request whose body has `"stream":true` gets 50 events, each in a chunk and a write of its own, 10 ms apart; any other
gets a JSON answer of 300 bytes. `GET /stats` tells how many events were sent, `GET /metrics` what an idle vLLM tells.
"""

from __future__ import annotations

import asyncio
import re
import sys

import uvloop

EVENTS = 50
PACE = 0.01
"""Seconds between two events."""

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"demo","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"%s"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":256,"completion_tokens":32,"total_tokens":288}}'
) % (b"word " * 14)
EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"demo",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
METRICS = b"".join(
    b"# TYPE %s gauge\n%s 0\n" % (name, name)
    for name in (b"vllm:num_requests_running", b"vllm:num_requests_waiting", b"vllm:kv_cache_usage_perc")
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def page(kind: bytes, body: bytes) -> bytes:
    """A whole answer."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind, len(body), body)


WHOLE = page(b"application/json", ANSWER)


class Backend(asyncio.Protocol):
    """One connection, without pipelining."""

    events = 0
    """Sent by all connections."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or not self._complete(end):
            return
        request = bytes(self._buffer)
        self._buffer.clear()
        self._answer(request)

    def _complete(self, end: int) -> bool:
        if self._buffer.startswith(b"GET"):
            return True
        length = LENGTH.search(self._buffer, 0, end + 2)
        if length is None:
            return self._buffer.endswith(b"\r\n0\r\n\r\n")
        return len(self._buffer) >= end + 4 + int(length[1])

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET /metrics"):
            self._transport.write(page(b"text/plain; version=0.0.4", METRICS))
        elif request.startswith(b"GET /stats"):
            self._transport.write(page(b"text/plain", b"%d" % Backend.events))
        elif b'"stream":true' in request:
            self._transport.write(STREAM_HEAD)
            self._left = EVENTS
            self._next()
        else:
            self._transport.write(WHOLE)

    def _next(self) -> None:
        if self._transport is None:
            return
        self._transport.write(b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
        Backend.events += 1
        self._left -= 1
        if self._left:
            asyncio.get_running_loop().call_later(PACE, self._next)
        else:
            self._transport.write(b"0\r\n\r\n")


async def serve(ports: list[int]) -> None:
    """Until it is ended."""
    loop = asyncio.get_running_loop()
    for port in ports:
        await loop.create_server(Backend, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve([int(argument) for argument in sys.argv[1:]]))
