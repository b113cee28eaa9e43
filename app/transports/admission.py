"""Which requests are admitted."""

from __future__ import annotations

import asyncio
from typing import Protocol

from app.domain.errors import BodyTooLargeError, RoutingError, SaturatedError, ShuttingDownError


class Limits(Protocol):
    """Bounds on what clients may send."""

    @property
    def body_bytes(self) -> int:
        """Largest body, also after decompression."""

    @property
    def in_flight(self) -> int:
        """Concurrent requests, 0 for no limit."""


class Admission:
    """Counts the requests that arrived and have no response yet, under whichever limits hold when one arrives."""

    def __init__(self) -> None:
        self.draining = False
        """Whether new requests are rejected."""
        self._serving = 0
        self._ended = asyncio.Event()

    def enter(self, limits: Limits, length: int | None) -> RoutingError | None:
        """Counts one more request, and returns why it must be rejected, if so. `length` is its body's, if announced.

        Whoever calls this calls `leave` once.
        """
        self._serving += 1
        if self.draining:
            return ShuttingDownError()
        if limits.in_flight and self._serving > limits.in_flight:
            return SaturatedError("the router has as many requests in flight as it is allowed")
        if length is not None and length > limits.body_bytes:
            return BodyTooLargeError(limits.body_bytes)
        return None

    def leave(self) -> None:
        """Counts one less."""
        self._serving -= 1
        if not self._serving:
            self._ended.set()

    async def ended(self) -> None:
        """Returns when every request has its response."""
        while self._serving:
            self._ended.clear()
            await self._ended.wait()
