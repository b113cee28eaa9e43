"""A connection to an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from app.domain.errors import UpstreamError
from app.transports.http.codec.events import End, ResponseHead
from app.transports.http.codec.responses import ResponseDecoder, ResponseError
from app.transports.http.deadline import Deadline
from app.transports.http.outgoing import OutgoingRequest
from app.transports.http.response import DroppedError, OnHead, Response, Timeouts

HEADER_BYTES = 65536
"""Limit on the head of an endpoint's response, and on its trailers."""


class EndpointConnection(asyncio.Protocol):
    """One connection to an endpoint: busy with one exchange, or idle."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_open: Callable[[EndpointConnection], None],
        on_idle: Callable[[EndpointConnection], None],
        on_lost: Callable[[EndpointConnection], None],
    ) -> None:
        self._loop = loop
        self._on_open, self._on_idle, self._on_lost = on_open, on_idle, on_lost
        self._decoder = ResponseDecoder(header_bytes=HEADER_BYTES)
        self._deadline = Deadline(loop, self._timed_out)
        self._response: Response | None = None
        self._used = self._received = self._reading_paused = False
        self._transport: asyncio.Transport
        self._timeouts: Timeouts
        self.idle_since = 0.0
        """Seconds on the event loop's clock."""

    # -- called by those who send requests

    def new_future(self) -> asyncio.Future[None]:
        """A future of the connection's event loop."""
        return self._loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent."""
        return not self._transport.is_closing()

    def send(
        self,
        endpoint: str,
        host: bytes,
        outgoing: OutgoingRequest,
        timeouts: Timeouts,
        *,
        on_head: OnHead | None = None,
        hold_stream_head: bool = False,
    ) -> Response:
        """Sends a request. Nothing of the response has arrived when this returns.

        `on_head` is called with the status when the head arrives. With `hold_stream_head` an event stream begins with
        the first bytes of its body, and not with its head.
        """
        self._timeouts = timeouts
        self._received = False
        self._decoder.expect(head_only=outgoing.method == "HEAD")
        self._response = response = Response(
            endpoint, self, self._loop.create_future(), on_head=on_head, hold_stream_head=hold_stream_head
        )
        parts = outgoing.encoded(host)
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)
        self._deadline.set(timeouts.response)
        return response

    def release(self, *, reusable: bool) -> None:
        """Ends the exchange. The connection becomes idle if it is `reusable`, otherwise it is aborted."""
        self._response = None
        if not self.is_open:
            return
        if not reusable or self._transport.get_write_buffer_size():
            self._transport.abort()
            return
        self.resume()
        self._deadline.clear()
        self._used = True
        self.idle_since = self._loop.time()
        self._on_idle(self)

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()

    def pause(self) -> None:
        """Stops reading."""
        if not self._reading_paused and self.is_open:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Resumes reading."""
        if self._reading_paused and self.is_open:
            self._reading_paused = False
            self._deadline.set(self._timeouts.idle)
            self._transport.resume_reading()

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """The endpoint sent `data`."""
        response = self._response
        self._received = True
        try:
            events = self._decoder.feed(data)
        except ResponseError as error:
            self._abort(UpstreamError(response.endpoint if response else "", str(error)))
            return
        if response is None:
            return
        if not events:
            return
        first, last = events[0], events[-1]
        if isinstance(first, ResponseHead):
            response.begin(first)
        end = last if isinstance(last, End) else None
        response.push([event for event in events if isinstance(event, bytes)], end)
        if end is None and not response.held:
            self._deadline.set(self._timeouts.idle)

    def eof_received(self) -> bool:
        """The endpoint closed its side of the connection."""
        if self._response is None:
            return False
        try:
            for event in self._decoder.end():
                if isinstance(event, End):
                    self._response.push([], event)
        except ResponseError as error:
            self._fail(str(error))
        return False

    def connection_lost(self, _: Exception | None) -> None:
        """The connection is closed."""
        self._deadline.close()
        self._decoder.close()
        self._fail("it closed the connection")
        self._on_lost(self)

    # -- failures

    def _fail(self, cause: str) -> None:
        response = self._response
        if response is None:
            return
        if response.begun.done():
            response.fail(UpstreamError(response.endpoint, "it closed the connection before the end of its response"))
        elif response.held:
            response.fail(UpstreamError(response.endpoint, "it closed the connection before the first event"))
        else:
            response.fail(DroppedError(response.endpoint, cause, reused=self._used and not self._received))

    def _abort(self, failure: Exception) -> None:
        response = self._response
        if response is not None and self._used and not response.begun.done() and not response.held:
            # maybe left of the last response
            failure = DroppedError(response.endpoint, str(failure), reused=True)
        if response is not None:
            response.fail(failure)
        self._transport.abort()

    def _timed_out(self) -> None:
        if self._response is not None:
            self._response.stall(self._timeouts)
            self._transport.abort()
