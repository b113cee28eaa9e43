"""The response to a request to an endpoint, while it is received."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from app.domain.errors import UpstreamError, UpstreamTimeoutError
from app.parsing.responses import is_event_stream
from app.transports.http.codec.events import End, ResponseHead
from app.transports.http.headers import value_of
from app.transports.http.response_writer import Sink


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
    """From the request to the head of the response, or to the first bytes of an event stream whose head is held."""
    idle: float
    """Between two chunks of the response body, and for a client that stopped reading to resume."""


OnHead = Callable[[int], None]


class Connection(Protocol):
    """The connection over which a response is received."""

    def new_future(self) -> asyncio.Future[None]:
        """A future of the connection's event loop."""

    def pause(self) -> None:
        """Stops reading."""

    def resume(self) -> None:
        """Resumes reading."""

    def release(self, *, reusable: bool) -> None:
        """Ends the exchange. The connection becomes idle if it is `reusable`, otherwise it is aborted."""


class Response:
    """An endpoint's response to one request: its head, then its body, which goes straight to the client's writer."""

    __slots__ = (
        "_chunks",
        "_connection",
        "_end",
        "_ended",
        "_failure",
        "_hold_stream_head",
        "_on_head",
        "_paused",
        "_writer",
        "begun",
        "endpoint",
        "head",
        "held",
    )

    head: ResponseHead

    def __init__(
        self,
        endpoint: str,
        connection: Connection,
        begun: asyncio.Future[None],
        *,
        on_head: OnHead | None = None,
        hold_stream_head: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.begun = begun
        """Done once `head` is set and not `held` any more, or failed with the error that came instead."""
        self.held = False
        """Whether the head of an event stream has arrived, and nothing of its body."""
        self._connection = connection
        self._on_head = on_head
        self._hold_stream_head = hold_stream_head
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
        if self._on_head is not None:
            self._on_head(head.status)
        self.held = self._hold_stream_head and _may_be_held(head)
        if not self.held and not self.begun.done():
            self.begun.set_result(None)

    def push(self, chunks: list[bytes], end: End | None) -> None:
        """Chunks of the body have arrived, possibly none."""
        self._end = end
        if self.held and (chunks or end is not None):
            self._release_head(complete=not chunks)
        if self._writer is None:
            self._chunks += chunks
        elif chunks or end is not None:
            self._writer.write(chunks, end)
            if end is not None and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def stall(self, timeouts: Timeouts) -> None:
        """A timeout has expired."""
        if self.held:
            cause = f"no event within {timeouts.response:g} s, though its response head arrived"
            self.fail(UpstreamTimeoutError(self.endpoint, cause))
        elif not self.begun.done():
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

    def _release_head(self, *, complete: bool) -> None:
        """The body has begun. `complete`: it has ended instead, without a byte."""
        self.held = False
        if self.begun.done():
            return
        if complete:
            self.begun.set_exception(UpstreamError(self.endpoint, "it ended its event stream without an event"))
        else:
            self.begun.set_result(None)


def _may_be_held(head: ResponseHead) -> bool:
    """Whether it is the head of an event stream that has a body."""
    return (
        HTTPStatus.OK <= head.status < HTTPStatus.MULTIPLE_CHOICES
        and not head.bodiless
        and head.content_length != 0
        and is_event_stream(value_of(head.headers, b"content-type"))
    )
