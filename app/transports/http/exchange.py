"""A connection to an endpoint, and the answer that comes over it."""

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
"""Longest head of an endpoint's answer."""


class DroppedError(UpstreamError):
    """The endpoint closed the connection without an answer. `reused`: it had been idle in our pool before."""

    def __init__(self, endpoint: str, cause: str, *, reused: bool) -> None:
        super().__init__(endpoint, cause)
        self.reused = reused


class StalledClientError(ConnectionError):
    """The client took nothing of its answer for too long."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long is waited for endpoints, in seconds."""

    connect: float
    """For a connection."""
    response: float
    """For the head of an answer."""
    idle: float
    """For the next piece of its body, and for the client to take some of it."""


class Response:
    """What an endpoint answers to one request: its head, then its body, which goes straight to the client's writer."""

    __slots__ = (
        "_connection",
        "_end",
        "_ended",
        "_failure",
        "_paused",
        "_pieces",
        "_writer",
        "begun",
        "endpoint",
        "head",
    )

    head: ResponseHead

    def __init__(self, endpoint: str, connection: EndpointConnection, begun: asyncio.Future[None]) -> None:
        self.endpoint = endpoint
        self.begun = begun
        """Done when `head` is there, or with the error that came instead."""
        self._connection = connection
        self._pieces: list[bytes] = []
        self._end: End | None = None
        self._ended: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._writer: Sink | None = None
        self._paused = False

    def pass_on(self, writer: Sink) -> asyncio.Future[None] | None:
        """Passes the body on as it comes; None if that is all of it already, else what is done when it is all.

        Raises, as the future does, `UpstreamError` when the endpoint breaks off or stalls, `StalledClientError` when
        the client does.
        """
        pieces, self._pieces = self._pieces, []
        writer.write(pieces, self._end)
        if self._failure is not None:
            raise self._failure
        if self._end is not None:
            return None
        self._writer = writer
        self._ended = self._connection.new_future()
        writer.attach(self)
        return self._ended

    def close(self) -> None:
        """Gives the connection back if the answer came to its end, else closes it."""
        self._writer = None
        self._connection.release(reusable=self._end is not None and self._end.reusable)

    def pause(self) -> None:
        """The client takes nothing."""
        self._paused = True
        self._connection.pause()

    def resume(self) -> None:
        """The client takes something again."""
        self._paused = False
        self._connection.resume()

    # -- called by the connection

    def begin(self, head: ResponseHead) -> None:
        """Its head has come."""
        self.head = head
        if not self.begun.done():
            self.begun.set_result(None)

    def push(self, pieces: list[bytes], end: End | None) -> None:
        """What came of the body, at times nothing."""
        self._end = end
        if self._writer is None:
            self._pieces += pieces
        elif pieces or end is not None:
            self._writer.write(pieces, end)
            if end is not None and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def stall(self, patience: Timeouts) -> None:
        """It took too long."""
        if not self.begun.done():
            self.fail(UpstreamTimeoutError(self.endpoint, f"no answer within {patience.response:g} s"))
        elif self._paused:
            self.fail(StalledClientError(f"the client took nothing for {patience.idle:g} s"))
        else:
            self.fail(UpstreamError(self.endpoint, f"no more for {patience.idle:g} s"))

    def fail(self, failure: Exception) -> None:
        """It has no end."""
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
        self._deadline = Deadline(loop, self._too_late)
        self._answer: Response | None = None
        self._used = self._heard = self._held_back = False
        self._transport: asyncio.Transport
        self._patience: Timeouts
        self.idle_since = 0.0
        """Time of the loop's clock."""

    # -- called by those who send requests

    def new_future(self) -> asyncio.Future[None]:
        """Of the loop that the connection lives in."""
        return self._loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent."""
        return not self._transport.is_closing()

    def send(self, endpoint: str, host: bytes, outgoing: OutgoingRequest, patience: Timeouts) -> Response:
        """Sends a request; the answer is yet to come."""
        self._patience = patience
        self._heard = False
        self._decoder.expect(head_only=outgoing.method == "HEAD")
        self._answer = answer = Response(endpoint, self, self._loop.create_future())
        parts = outgoing.encoded(host)
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)
        self._deadline.set(patience.response)
        return answer

    def release(self, *, reusable: bool) -> None:
        """The exchange is over."""
        self._answer = None
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
        """Ends it now."""
        self._transport.abort()

    def pause(self) -> None:
        """Reads no more for now."""
        if not self._held_back and self.is_open:
            self._held_back = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Reads on."""
        if self._held_back and self.is_open:
            self._held_back = False
            self._deadline.set(self._patience.idle)
            self._transport.resume_reading()

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Bytes from the endpoint."""
        answer = self._answer
        self._heard = True
        try:
            events = self._decoder.feed(data)
        except ResponseError as error:
            self._break_off(UpstreamError(answer.endpoint if answer else "", str(error)))
            return
        if answer is None:
            return
        if not events:
            return
        first, last = events[0], events[-1]
        if isinstance(first, ResponseHead):
            answer.begin(first)
        end = last if isinstance(last, End) else None
        if end is None:
            self._deadline.set(self._patience.idle)
        answer.push([event for event in events if isinstance(event, bytes)], end)

    def eof_received(self) -> bool:
        """The endpoint sends no more."""
        if self._answer is None:
            return False
        try:
            for event in self._decoder.end():
                if isinstance(event, End):
                    self._answer.push([], event)
        except ResponseError as error:
            self._fail(str(error))
        return False

    def connection_lost(self, _: Exception | None) -> None:
        """The connection is gone."""
        self._deadline.close()
        self._decoder.close()
        self._fail("it closed the connection")
        self._on_lost(self)

    # -- failures

    def _fail(self, cause: str) -> None:
        answer = self._answer
        if answer is None:
            return
        if answer.begun.done():
            answer.fail(UpstreamError(answer.endpoint, "it broke off its answer"))
        else:
            answer.fail(DroppedError(answer.endpoint, cause, reused=self._used and not self._heard))

    def _break_off(self, failure: Exception) -> None:
        answer = self._answer
        if answer is not None and self._used and not answer.begun.done():  # it may be left of the answer before
            failure = DroppedError(answer.endpoint, str(failure), reused=True)
        if answer is not None:
            answer.fail(failure)
        self._transport.abort()

    def _too_late(self) -> None:
        if self._answer is not None:
            self._answer.stall(self._patience)
            self._transport.abort()
