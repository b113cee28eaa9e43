"""A connection to an endpoint, and the response that is received over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from app.domain.errors import UpstreamError, UpstreamTimeoutError
from app.transports.http.codec.events import End, ResponseHead
from app.transports.http.codec.responses import ResponseDecoder, ResponseError
from app.transports.http.deadline import Deadline
from app.transports.http.outgoing import OutgoingRequest
from app.transports.http.response_writer import Sink

HEADER_BYTES = 65536
"""Limit on the head of an endpoint's response, and on its trailers."""


class DroppedError(UpstreamError):
    """The endpoint closed the connection without a response.

    `reused`: the connection had been idle in our pool, so the endpoint may have closed it before it got the request.
    """

    def __init__(self, endpoint: str, cause: str, *, reused: bool) -> None:
        super().__init__(endpoint, cause)
        self.reused = reused


class StalledClientError(ConnectionError):
    """The client stopped reading its response, and did not resume before the timeout."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of an exchange with an endpoint, in seconds."""

    connect: float
    """To get a connection."""
    response: float
    """From the request to the head of the response."""
    idle: float
    """Between two chunks of the response body, and for a client that stopped reading to resume."""


class Response:
    """An endpoint's response to one request: its head, then its body, which goes straight to the client's writer."""

    __slots__ = (
        "_chunks",
        "_connection",
        "_end",
        "_ended",
        "_failure",
        "_paused",
        "_writer",
        "begun",
        "endpoint",
        "head",
    )

    head: ResponseHead

    def __init__(self, endpoint: str, connection: EndpointConnection, begun: asyncio.Future[None]) -> None:
        self.endpoint = endpoint
        self.begun = begun
        """Done once `head` is set, or failed with the error that came instead."""
        self._connection = connection
        self._chunks: list[bytes] = []
        self._end: End | None = None
        self._ended: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._writer: Sink | None = None
        self._paused = False

    def pass_on(self, writer: Sink) -> asyncio.Future[None] | None:
        """Streams the body to `writer`. Returns None if the body is complete already, else a future of its completion.

        Raises, as the future does, `UpstreamError` if the endpoint aborts or stalls, `StalledClientError` if the client
        stalls.
        """
        chunks, self._chunks = self._chunks, []
        writer.write(chunks, self._end)
        if self._failure is not None:
            raise self._failure
        if self._end is not None:
            return None
        self._writer = writer
        self._ended = self._connection.new_future()
        writer.attach(self)
        return self._ended

    def close(self) -> None:
        """Returns the connection to the pool if the response is complete and allows it, otherwise closes it."""
        self._writer = None
        self._connection.release(reusable=self._end is not None and self._end.reusable)

    def pause(self) -> None:
        """The client has stopped reading."""
        self._paused = True
        self._connection.pause()

    def resume(self) -> None:
        """The client has resumed reading."""
        self._paused = False
        self._connection.resume()

    # -- called by the connection

    def begin(self, head: ResponseHead) -> None:
        """The head has arrived."""
        self.head = head
        if not self.begun.done():
            self.begun.set_result(None)

    def push(self, chunks: list[bytes], end: End | None) -> None:
        """Chunks of the body have arrived, possibly none."""
        self._end = end
        if self._writer is None:
            self._chunks += chunks
        elif chunks or end is not None:
            self._writer.write(chunks, end)
            if end is not None and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def stall(self, timeouts: Timeouts) -> None:
        """A timeout has expired."""
        if not self.begun.done():
            self.fail(UpstreamTimeoutError(self.endpoint, f"no response within {timeouts.response:g} s"))
        elif self._paused:
            self.fail(StalledClientError(f"the client read nothing for {timeouts.idle:g} s"))
        else:
            self.fail(UpstreamError(self.endpoint, f"it sent nothing more for {timeouts.idle:g} s"))

    def fail(self, failure: Exception) -> None:
        """The response can't be completed. Without effect if it is complete, or failed before."""
        if self._end is not None or self._failure is not None:
            return
        self._failure = failure
        waiting = self._ended if self.begun.done() else self.begun
        if waiting is not None and not waiting.done():
            waiting.set_exception(failure)


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

    def send(self, endpoint: str, host: bytes, outgoing: OutgoingRequest, timeouts: Timeouts) -> Response:
        """Sends a request. Nothing of the response has arrived when this returns."""
        self._timeouts = timeouts
        self._received = False
        self._decoder.expect(head_only=outgoing.method == "HEAD")
        self._response = response = Response(endpoint, self, self._loop.create_future())
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
        if end is None:
            self._deadline.set(self._timeouts.idle)
        response.push([event for event in events if isinstance(event, bytes)], end)

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
        else:
            response.fail(DroppedError(response.endpoint, cause, reused=self._used and not self._received))

    def _abort(self, failure: Exception) -> None:
        response = self._response
        if response is not None and self._used and not response.begun.done():  # maybe left of the last response
            failure = DroppedError(response.endpoint, str(failure), reused=True)
        if response is not None:
            response.fail(failure)
        self._transport.abort()

    def _timed_out(self) -> None:
        if self._response is not None:
            self._response.stall(self._timeouts)
            self._transport.abort()
