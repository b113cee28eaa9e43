"""Which requests are let in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.domain.errors import BodyTooLargeError, RoutingError, SaturatedError, ShuttingDownError
from app.transports.http.codec.events import RequestHead


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what clients may send; timeouts in seconds."""

    body_bytes: int
    """Largest body, also after decompression."""
    header_bytes: int = 32768
    """Longest head, first line included."""
    in_flight: int = 0
    """Requests at once, 0 for any number."""
    header_timeout: float = 10.0
    """For a whole head, from its first byte."""
    body_timeout: float = 60.0
    """For a whole body."""
    keep_alive: float = 75.0
    """For the next request on a connection."""
    stall: float = 300.0
    """For a client to take some of what was sent to it."""


class Admission:
    """Counts the requests that have come and are not answered, and lets in those that the limits allow."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        """May be replaced at any time."""
        self.draining = False
        """Whether no new request is let in."""
        self._serving = 0
        self._ended = asyncio.Event()

    def enter(self, head: RequestHead) -> RoutingError | None:
        """One more request, and why it can't be let in, if so. Whoever calls this calls `leave` once."""
        self._serving += 1
        limits = self.limits
        if self.draining:
            return ShuttingDownError()
        if limits.in_flight and self._serving > limits.in_flight:
            return SaturatedError("the router has as many requests in flight as it is allowed")
        if head.content_length is not None and head.content_length > limits.body_bytes:
            return BodyTooLargeError(limits.body_bytes)
        return None

    def leave(self) -> None:
        """One less."""
        self._serving -= 1
        if not self._serving:
            self._ended.set()

    async def ended(self) -> None:
        """Returns when all requests are answered."""
        while self._serving:
            self._ended.clear()
            await self._ended.wait()
