"""Which requests are let in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.domain.errors import BodyTooLargeError, RoutingError, SaturatedError, ShuttingDownError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what clients may send."""

    body_bytes: int
    """Largest body, also after decompression."""
    in_flight: int = 0
    """Requests at once, 0 for any number."""


L = TypeVar("L", bound=Limits)


class Admission(Generic[L]):
    """Counts the requests that have come and are not answered, and lets in those that the limits allow."""

    def __init__(self, limits: L) -> None:
        self.limits = limits
        """May be replaced at any time."""
        self.draining = False
        """Whether no new request is let in."""
        self._serving = 0
        self._ended = asyncio.Event()

    def enter(self, length: int | None) -> RoutingError | None:
        """One more request, and why it can't be let in, if so. `length` is that of its body, as far as it is told.

        Whoever calls this calls `leave` once.
        """
        self._serving += 1
        limits = self.limits
        if self.draining:
            return ShuttingDownError()
        if limits.in_flight and self._serving > limits.in_flight:
            return SaturatedError("the router has as many requests in flight as it is allowed")
        if length is not None and length > limits.body_bytes:
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
