"""A gRPC server with nothing in it but what Envoy needs, to tell what one would save: for this benchmark only.

    python -m extproc.lean --socket PATH --destination HOST:PORT [--style context] [--join]

HTTP/2 on an asyncio protocol. There is one method, so heads are not decoded; TLS, deadlines, compression, keep-alive
pings of our own and bounds on what a peer may send are left out. The style `context` runs a task for each stream, with
the same `read()` and `write()` as gRPC has, and could so take a real handler; `calls` answers at once, without a task.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import Struct

import uvloop
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest, ProcessingResponse
from extproc.answering import Answers

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME = Struct(">HBBBI")  # length in two parts, kind, flags, stream
SETTING = Struct(">HI")
MESSAGE = Struct(">BI")
INITIAL_WINDOW = 4
WIDEST = 2**31 - 1
HEAD = b"\x88\x0f\x10\x10application/grpc"  # :status 200 by its index; content-type by its name's, not to be indexed
TRAILERS = b"\x00\x0bgrpc-status\x010"
RENEWED = 2**24
"""Bytes after which the proxy is told that it may send as many more."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame with its head."""
    size = len(payload)
    return FRAME.pack(size >> 8, size & 255, kind, flags, stream) + payload


class Stream:
    """One call: messages in and out, and how much may still be sent."""

    __slots__ = (
        "_connection",
        "_received",
        "_waiter",
        "begun",
        "buffer",
        "done",
        "ended",
        "number",
        "pending",
        "window",
    )

    def __init__(self, connection: Connection, number: int, window: int) -> None:
        self._connection = connection
        self.number = number
        self.window = window
        self.buffer = b""
        self.pending: deque[bytes] = deque()
        self.begun = self.done = False
        self.ended = False
        self._received: deque[ProcessingRequest] = deque()
        self._waiter: asyncio.Future[None] | None = None

    async def read(self) -> ProcessingRequest | None:
        """The next message; None if there will be none."""
        while not self._received:
            if self.ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._received.popleft()

    async def write(self, message: ProcessingResponse) -> None:
        """Sends a message, together with whatever else is sent in this turn of the event loop."""
        self._connection.send(self, message.SerializeToString())

    def put(self, message: ProcessingRequest | None) -> None:
        """A message has come, or None for the end."""
        if message is None:
            self.ended = True
        else:
            self._received.append(message)
        if self._waiter is not None:
            self._waiter.set_result(None)
            self._waiter = None


class Connection(asyncio.Protocol):
    """The proxy's connection, with its streams."""

    def __init__(self, begin: Callable[[Stream], Callable[[ProcessingRequest | None], None]]) -> None:
        """Calls `begin` with a new stream; what it returns is called with each of its messages."""
        self._begin = begin
        self._streams: dict[int, tuple[Stream, Callable[[ProcessingRequest | None], None]]] = {}
        self._buffer = b""
        self._out: list[bytes] = []
        self._window = self._stream_window = 65535
        self._largest = 16384
        self._unconfirmed = 0
        self._greeted = False
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        settings = SETTING.pack(INITIAL_WINDOW, WIDEST)
        transport.write(frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, (WIDEST - 65535).to_bytes(4)))

    def connection_lost(self, exc: Exception | None) -> None:
        for _, put in list(self._streams.values()):
            put(None)
        self._streams.clear()

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        at, size = 0, len(data)
        if not self._greeted:
            if size < len(PREFACE):
                self._buffer = data
                return
            at, self._greeted = len(PREFACE), True
        while at + 9 <= size:
            high, low, kind, flags, number = FRAME.unpack_from(data, at)
            end = at + 9 + (high << 8 | low)
            if end > size:
                break
            self._frame(kind, flags, number, data[at + 9 : end])
            at = end
        self._buffer = data[at:]

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == DATA:
            self._data(number, payload, ended=bool(flags & END_STREAM))
        elif kind == HEADERS:
            stream = Stream(self, number, self._stream_window)
            self._streams[number] = stream, self._begin(stream)
        elif kind == WINDOW_UPDATE:
            self._widen(number, int.from_bytes(payload))
        elif kind == SETTINGS and not flags & ACK:
            self._settings(payload)
        elif kind == PING and not flags & ACK:
            self._push(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM and number in self._streams:
            self._streams.pop(number)[1](None)
        elif kind == GOAWAY:
            self._loop.call_soon(self._transport.close)

    def _data(self, number: int, payload: bytes, *, ended: bool) -> None:
        self._unconfirmed += len(payload)
        if self._unconfirmed >= RENEWED:
            self._push(frame(WINDOW_UPDATE, 0, 0, self._unconfirmed.to_bytes(4)))
            self._unconfirmed = 0
        if number not in self._streams:
            return
        stream, put = self._streams[number]
        data = stream.buffer + payload if stream.buffer else payload
        at, size = 0, len(data)
        while at + 5 <= size:
            end = at + 5 + MESSAGE.unpack_from(data, at)[1]
            if end > size:
                break
            put(ProcessingRequest.FromString(data[at + 5 : end]))
            at = end
        stream.buffer = data[at:]
        if ended:
            put(None)

    def _settings(self, payload: bytes) -> None:
        for key, value in SETTING.iter_unpack(payload):
            if key == INITIAL_WINDOW:
                for stream, _ in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
        self._push(frame(SETTINGS, ACK, 0))

    def _widen(self, number: int, by: int) -> None:
        if not number:
            self._window += by
            for stream, _ in list(self._streams.values()):
                self._drain(stream)
        elif number in self._streams:
            stream = self._streams[number][0]
            stream.window += by
            self._drain(stream)

    def send(self, stream: Stream, message: bytes) -> None:
        """Sends a message, as far as the proxy takes it; nothing on a stream that it has broken off."""
        if stream.number not in self._streams:
            return
        if not stream.begun:
            stream.begun = True
            self._push(frame(HEADERS, END_HEADERS, stream.number, HEAD))
        data = MESSAGE.pack(0, len(message)) + message
        if len(data) <= self._largest:
            stream.pending.append(data)
        else:
            stream.pending.extend(data[at : at + self._largest] for at in range(0, len(data), self._largest))
        self._drain(stream)

    def _drain(self, stream: Stream) -> None:
        pending = stream.pending
        while pending and len(pending[0]) <= min(self._window, stream.window):
            data = pending.popleft()
            self._window -= len(data)
            stream.window -= len(data)
            self._push(frame(DATA, 0, stream.number, data))
        if stream.done and not pending and self._streams.pop(stream.number, None) is not None:
            self._push(frame(HEADERS, END_HEADERS | END_STREAM, stream.number, TRAILERS))

    def finish(self, stream: Stream) -> None:
        """Ends the call well, once all is sent."""
        stream.done = True
        self._drain(stream)

    def _push(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        self._transport.write(b"".join(self._out))
        self._out.clear()


class Lean:
    """The handlers."""

    def __init__(self, destination: str, *, join: bool) -> None:
        self._answers = partial(Answers, destination, join=join)
        self._tasks: set[asyncio.Task[None]] = set()

    def context(self, stream: Stream) -> Callable[[ProcessingRequest | None], None]:
        task = asyncio.get_running_loop().create_task(self._hold(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return stream.put

    async def _hold(self, stream: Stream) -> None:
        answers = self._answers()
        while not answers.ended and (message := await stream.read()) is not None:
            for response in answers.receive(message):
                await stream.write(response)
        stream._connection.finish(stream)  # noqa: SLF001 - both are parts of one server

    def calls(self, stream: Stream) -> Callable[[ProcessingRequest | None], None]:
        answers, connection = self._answers(), stream._connection  # noqa: SLF001 - both are parts of one server

        def put(message: ProcessingRequest | None) -> None:
            for response in answers.receive(message) if message is not None else ():
                connection.send(stream, response.SerializeToString())
            if message is None or answers.ended:
                connection.finish(stream)

        return put


async def serve(arguments: argparse.Namespace) -> None:
    """Until it is ended."""
    begin = getattr(Lean(arguments.destination, join=arguments.join), arguments.style)
    Path(arguments.socket).unlink(missing_ok=True)
    await asyncio.get_running_loop().create_unix_server(lambda: Connection(begin), arguments.socket)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--destination", required=True)
    parser.add_argument("--style", choices=("context", "calls"), default="context")
    parser.add_argument("--join", action="store_true")
    uvloop.run(serve(parser.parse_args()))
