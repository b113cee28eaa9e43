"""A client's connection: reads requests, has them served one after the other, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import cast

import structlog

from app.domain.errors import BadRequestError, BodyTooLargeError, ClientTimeoutError, RoutingError
from app.transports.admission import Admission
from app.transports.http.codec.encoding import CONTINUE
from app.transports.http.codec.events import End, Event, Refused, RequestHead
from app.transports.http.codec.requests import RequestDecoder
from app.transports.http.deadline import Deadline
from app.transports.http.incoming import IncomingRequest
from app.transports.http.response_writer import ResponseWriter
from app.transports.http.service import HttpService

FEW_QUEUED = 16
"""Requests that wait for their turn on one connection before no more is read from it."""

MOST_QUEUED = 128
"""Requests that may wait: one read can bring more than a few."""

QUEUED_BYTES = 256 * 1024
"""The same in bytes."""

LINGER = 2.0
"""Seconds that a client whose request was refused has to read why; what it sends until then is dropped."""

log = structlog.get_logger("pointsman.http")


class _Wait(Enum):
    """What a connection waits for while it serves nothing."""

    REQUEST = auto()
    HEAD = auto()
    BODY = auto()
    CLIENT = auto()
    """That the client takes what was sent."""
    CLOSE = auto()
    """That the client closes."""


class ClientConnection(asyncio.Protocol):
    """One connection, with one task that serves its requests as long as it lasts."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        service: Callable[[], HttpService],
        admission: Admission,
        connections: set[ClientConnection],
    ) -> None:
        """`service` gives the current one; it may change at any time. `connections` holds the connection while it is
        open."""
        self._loop = loop
        self._service = service
        self._admission = admission
        self._connections = connections
        self._decoder = RequestDecoder(header_bytes=service().limits.header_bytes)
        self._deadline = Deadline(loop, self._too_late)
        self._queue: deque[IncomingRequest] = deque()
        self._reading: IncomingRequest | None = None
        self._last = False  # nothing more is read after what is in the queue
        self._wait: _Wait | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writer: ResponseWriter | None = None
        self._held_back = self._paused = False
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when the connection is gone, and all that was written to it with it."""

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class
        self._connections.add(self)
        self.task = self._loop.create_task(self._serve_all())
        """Ends with the connection."""

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._last:
            return
        self._decoder.header_bytes = self._service().limits.header_bytes
        for event in self._decoder.feed(data):
            self._take(event)
            if self._last:
                break
        if self._wait is None:
            self._hold_back()
        else:
            self._look_again()

    def eof_received(self) -> bool:
        """The client sends no more, and is taken to be gone."""
        return False

    def pause_writing(self) -> None:
        """The client takes less than is sent."""
        self._paused = True
        if self._writer is not None:
            self._writer.pause()

    def resume_writing(self) -> None:
        """The client has taken what was sent."""
        self._paused = False
        if self._writer is not None:
            self._writer.resume()
        if self._wait is _Wait.CLIENT:
            self._wake()

    def connection_lost(self, _: Exception | None) -> None:
        """The connection is gone, and with it the request under way."""
        self._connections.discard(self)
        self._deadline.close()
        self._decoder.close()
        self._last = True
        for incoming in self._queue:
            if incoming.head is not None:
                self._admission.leave()
        self._queue.clear()
        self.task.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    # -- called by the server

    def drain(self) -> None:
        """Ends an idle connection; one that is in use ends with its answer, which says so if it has not begun."""
        if self._wait in (_Wait.REQUEST, _Wait.HEAD) and not self._queue:
            self._close()
        elif self._writer is not None and not self._writer.begun:
            self._writer.closes = True

    def abort(self) -> None:
        """Ends it now."""
        self._transport.abort()

    # -- reading

    def _take(self, event: Event) -> None:
        if isinstance(event, bytes):
            self._take_piece(event)
        elif isinstance(event, RequestHead):
            self._reading = IncomingRequest(event, self._admission.enter(self._service().limits, event.content_length))
            self._queue.append(self._reading)
            if len(self._queue) > MOST_QUEUED:
                self._refuse(BadRequestError(f"more than {MOST_QUEUED} requests came before their turn"))
        elif isinstance(event, End) and self._reading is not None:
            self._reading.trailers = event.trailers
            self._reading.whole = True
            self._reading = None
        elif isinstance(event, Refused):
            self._refuse(event.error)

    def _take_piece(self, piece: bytes) -> None:
        reading = self._reading
        if reading is None or reading.error is not None:
            return
        reading.size += len(piece)
        reading.pieces.append(piece)
        limit = self._service().limits.body_bytes
        if reading.size > limit:
            reading.error = BodyTooLargeError(limit)
            reading.pieces = []

    def _refuse(self, error: RoutingError) -> None:
        """Nothing that comes after this can be read."""
        self._last = True
        reading, self._reading = self._reading, None
        if reading is None:
            self._queue.append(IncomingRequest(None, error))
        elif reading.error is None:
            reading.error = error
            reading.pieces = []

    def _hold_back(self) -> None:
        """Reads no more while enough waits for its turn."""
        queue = self._queue
        if queue and not self._held_back and _is_enough(queue):
            self._held_back = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._held_back:
            self._held_back = False
            self._transport.resume_reading()

    # -- serving

    async def _serve_all(self) -> None:
        try:
            while (incoming := await self._next()) is not None:
                if not await self._answer(incoming):
                    return
        except asyncio.CancelledError:
            pass  # the connection is lost
        except ConnectionError:
            self._transport.abort()
        except Exception:  # a fault of ours, which ends this connection and no other
            log.exception("connection failed")
            self._transport.abort()

    async def _answer(self, incoming: IncomingRequest) -> bool:
        """Whether the connection can take another request."""
        closes = self._admission.draining
        self._writer = writer = ResponseWriter(self._transport, incoming, closes=closes, paused=self._paused)
        try:
            await self._service().serve(incoming, writer)
        finally:
            self._writer = None
            if incoming.head is not None:
                self._admission.leave()
        if not writer.closes:
            if self._paused:
                await self._until(_Wait.CLIENT, self._service().timeouts.idle)
            return True
        if incoming.error is not None and not self._transport.is_closing():
            self._linger()
        else:
            self._close()
        return False

    async def _next(self) -> IncomingRequest | None:
        """The next request when it is whole or refused; None when the connection is to end."""
        queue = self._queue
        while True:
            if queue and queue[0].ready:
                incoming = queue.popleft()
                if not _is_enough(queue):
                    self._read_on()
                return incoming
            if not queue and self._admission.draining:
                self._close()
                return None
            await self._until(*self._what_is_missing())

    def _what_is_missing(self) -> tuple[_Wait, float]:
        timeouts = self._service().timeouts
        if self._queue:
            head = self._queue[0].head
            if head is not None and head.expects_continue and not self._queue[0].size:
                self._transport.write(CONTINUE)
            self._read_on()
            return _Wait.BODY, timeouts.body
        if self._decoder.within_head:
            return _Wait.HEAD, timeouts.header
        return _Wait.REQUEST, timeouts.keep_alive

    async def _until(self, wait: _Wait, seconds: float) -> None:
        self._wait = wait
        self._deadline.set(seconds)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._wait = self._waiter = None

    def _look_again(self) -> None:
        """After more was read: whether what was waited for has come, or something else is missing now."""
        queue = self._queue
        if self._wait is _Wait.CLIENT:
            self._hold_back()
        elif queue and (self._wait is not _Wait.BODY or queue[0].ready):
            self._wake()
        elif self._wait is _Wait.REQUEST and self._decoder.within_head:
            self._wait = _Wait.HEAD
            self._deadline.set(self._service().timeouts.header)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _too_late(self) -> None:
        timeouts = self._service().timeouts
        if self._waiter is not None and self._waiter.done():
            return  # it came at the last moment
        if self._wait in (_Wait.REQUEST, _Wait.CLOSE):
            self._close()
        elif self._wait is _Wait.CLIENT:
            self._transport.abort()
        elif self._wait is _Wait.HEAD:
            self._refuse(ClientTimeoutError(f"the request's head did not come within {timeouts.header:g} s"))
        elif self._wait is _Wait.BODY:
            self._refuse(ClientTimeoutError(f"the body did not come within {timeouts.body:g} s"))
        self._wake()

    def _close(self) -> None:
        """Ends the connection when the client has taken all that was written, or takes too long for it."""
        self._last = True
        self._transport.close()
        if not self.closed.done():
            self._wait, self._waiter = _Wait.CLIENT, None
            self._deadline.set(self._service().timeouts.idle)

    def _linger(self) -> None:
        """Lets the client read the answer: closing at once would reset the connection under it."""
        self._last = True
        self._wait = _Wait.CLOSE
        self._deadline.set(LINGER)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._read_on()


def _is_enough(queue: deque[IncomingRequest]) -> bool:
    return len(queue) > FEW_QUEUED or sum(incoming.size for incoming in queue) > QUEUED_BYTES
