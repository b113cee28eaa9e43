"""A client's connection: reads requests and has them served one after the other, in order."""

from __future__ import annotations

import asyncio
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
from app.transports.http.request_queue import MAX_QUEUED, RequestQueue
from app.transports.http.response_writer import ResponseWriter
from app.transports.http.service import HttpService

LINGER = 2.0
"""Seconds that a client has to read an error response before its connection is closed. Its input is discarded."""

log = structlog.get_logger("pointsman.http")


class _Wait(Enum):
    """What a connection waits for while it serves no request."""

    REQUEST = auto()
    HEAD = auto()
    BODY = auto()
    FLUSH = auto()  # for the client to receive what was written
    CLOSE = auto()  # for the client to close the connection


class ClientConnection(asyncio.Protocol):
    """One connection, and the task that serves its requests."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        service: Callable[[], HttpService],
        admission: Admission,
        connections: set[ClientConnection],
    ) -> None:
        """`service` returns the current one, which may change. `connections` holds this one while it is open."""
        self._loop = loop
        self._service = service
        self._admission = admission
        self._connections = connections
        self._decoder = RequestDecoder(header_bytes=service().limits.header_bytes)
        self._deadline = Deadline(loop, self._on_timeout)
        self._queue = RequestQueue()
        self._reading: IncomingRequest | None = None
        self._input_ended = False  # further input is ignored
        self._wait: _Wait | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writer: ResponseWriter | None = None
        self._reading_paused = self._writing_paused = False
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when the connection is closed, with everything that was written to it sent or discarded."""

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports don't subclass it
        self._connections.add(self)
        self.task = self._loop.create_task(self._serve_all())
        """Serves the requests, until the connection is lost."""

    def data_received(self, data: bytes) -> None:
        """Bytes from the client arrived."""
        if self._input_ended:
            return
        self._decoder.header_bytes = self._service().limits.header_bytes
        for event in self._decoder.feed(data):
            self._handle(event)
            if self._input_ended:
                break
        if self._wait is None:
            self._pause_reading_if_full()
        else:
            self._after_read()

    def eof_received(self) -> bool:
        """The client sends no more: closes the connection."""
        return False

    def pause_writing(self) -> None:
        """The client receives more slowly than the response is written."""
        self._writing_paused = True
        if self._writer is not None:
            self._writer.pause()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writing_paused = False
        if self._writer is not None:
            self._writer.resume()
        if self._wait is _Wait.FLUSH:
            self._wake()

    def connection_lost(self, _: Exception | None) -> None:
        """The connection is closed, which cancels the request that is being served."""
        self._connections.discard(self)
        self._deadline.close()
        self._decoder.close()
        self._input_ended = True
        for incoming in self._queue:
            if incoming.head is not None:
                self._admission.leave()
        self._queue.clear()
        self.task.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    # -- called by the server

    def drain(self) -> None:
        """Closes the connection if it is idle, else after the current response, which says so if it has not begun."""
        if self._wait in (_Wait.REQUEST, _Wait.HEAD) and not self._queue:
            self._close()
        elif self._writer is not None and not self._writer.begun:
            self._writer.closes = True

    def abort(self) -> None:
        """Closes the connection immediately."""
        self._transport.abort()

    # -- reading

    def _handle(self, event: Event) -> None:
        if isinstance(event, bytes):
            self._receive_body(event)
        elif isinstance(event, RequestHead):
            self._reading = IncomingRequest(event, self._admission.enter(self._service().limits, event.content_length))
            self._queue.append(self._reading)
            if len(self._queue) > MAX_QUEUED:
                self._refuse(BadRequestError(f"more than {MAX_QUEUED} pipelined requests"))
        elif isinstance(event, End) and self._reading is not None:
            self._reading.trailers = event.trailers
            self._reading.whole = True
            self._reading = None
        elif isinstance(event, Refused):
            self._refuse(event.error)

    def _receive_body(self, chunk: bytes) -> None:
        reading = self._reading
        if reading is None or reading.error is not None:
            return
        reading.size += len(chunk)
        reading.pieces.append(chunk)
        limit = self._service().limits.body_bytes
        if reading.size > limit:
            reading.error = BodyTooLargeError(limit)
            reading.pieces = []

    def _refuse(self, error: RoutingError) -> None:
        """Ends the current request, or else the next one, with an error. Ignores all further input."""
        self._input_ended = True
        reading, self._reading = self._reading, None
        if reading is None:
            self._queue.append(IncomingRequest(None, error))
        elif reading.error is None:
            reading.error = error
            reading.pieces = []

    def _pause_reading_if_full(self) -> None:
        queue = self._queue
        if queue and not self._reading_paused and queue.is_full:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # -- serving

    async def _serve_all(self) -> None:
        try:
            while (incoming := await self._next()) is not None:
                if not await self._serve(incoming):
                    return
        except asyncio.CancelledError:
            pass  # the connection was lost
        except ConnectionError:
            self._transport.abort()
        except Exception:  # a bug, which must not end other connections
            log.exception("connection failed")
            self._transport.abort()

    async def _serve(self, incoming: IncomingRequest) -> bool:
        """Returns whether the connection can serve another request."""
        closes = self._admission.draining
        self._writer = writer = ResponseWriter(self._transport, incoming, closes=closes, paused=self._writing_paused)
        try:
            await self._service().serve(incoming, writer)
        finally:
            self._writer = None
            if incoming.head is not None:
                self._admission.leave()
        if not writer.closes:
            if self._writing_paused:
                await self._wait_for(_Wait.FLUSH, self._service().timeouts.idle)
            return True
        if incoming.error is not None and not self._transport.is_closing():
            self._linger()
        else:
            self._close()
        return False

    async def _next(self) -> IncomingRequest | None:
        """The next request, once it is complete or refused; None if the connection is closing."""
        queue = self._queue
        while True:
            if queue and queue[0].ready:
                incoming = queue.popleft()
                if not queue.is_full:
                    self._resume_reading()
                return incoming
            if not queue and self._admission.draining:
                self._close()
                return None
            await self._wait_for(*self._next_wait())

    def _next_wait(self) -> tuple[_Wait, float]:
        timeouts = self._service().timeouts
        if self._queue:
            head = self._queue[0].head
            if head is not None and head.expects_continue and not self._queue[0].size:
                self._transport.write(CONTINUE)
            self._resume_reading()
            return _Wait.BODY, timeouts.body
        if self._decoder.within_head:
            return _Wait.HEAD, timeouts.header
        return _Wait.REQUEST, timeouts.keep_alive

    async def _wait_for(self, wait: _Wait, seconds: float) -> None:
        self._wait = wait
        self._deadline.set(seconds)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._wait = self._waiter = None

    def _after_read(self) -> None:
        """Ends the wait if what it was for has arrived, or starts waiting for the rest of a request's head."""
        queue = self._queue
        if self._wait is _Wait.FLUSH:
            self._pause_reading_if_full()
        elif queue and (self._wait is not _Wait.BODY or queue[0].ready):
            self._wake()
        elif self._wait is _Wait.REQUEST and self._decoder.within_head:
            self._wait = _Wait.HEAD
            self._deadline.set(self._service().timeouts.header)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _on_timeout(self) -> None:
        timeouts = self._service().timeouts
        if self._waiter is not None and self._waiter.done():
            return  # it arrived just in time
        if self._wait in (_Wait.REQUEST, _Wait.CLOSE):
            self._close()
        elif self._wait is _Wait.FLUSH:
            self._transport.abort()
        elif self._wait is _Wait.HEAD:
            self._refuse(ClientTimeoutError(f"the request head did not arrive within {timeouts.header:g} s"))
        elif self._wait is _Wait.BODY:
            self._refuse(ClientTimeoutError(f"the request body did not arrive within {timeouts.body:g} s"))
        self._wake()

    def _close(self) -> None:
        """Closes the connection once the client has received everything, or when that takes too long."""
        self._input_ended = True
        self._transport.close()
        if not self.closed.done():
            self._wait, self._waiter = _Wait.FLUSH, None
            self._deadline.set(self._service().timeouts.idle)

    def _linger(self) -> None:
        """Gives the client time to read the response: with unread input, closing would reset the connection."""
        self._input_ended = True
        self._wait = _Wait.CLOSE
        self._deadline.set(LINGER)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._resume_reading()
