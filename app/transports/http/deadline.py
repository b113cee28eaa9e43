"""A timeout that is often extended and seldom expires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

NEVER = float("inf")


class Deadline:
    """Calls `on_expired` when the time that was last set is over.

    Setting a later time takes no new timer: when the current one fires, it is scheduled again.
    """

    __slots__ = ("_due", "_loop", "_on_expired", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expired: Callable[[], None]) -> None:
        self._loop = loop
        self._on_expired = on_expired
        self._due = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Expires in `seconds` from now, whatever was set before."""
        self._due = due = self._loop.time() + seconds
        timer = self._timer
        if timer is None:
            self._timer = self._loop.call_at(due, self._check)
        elif due < timer.when():
            timer.cancel()
            self._timer = self._loop.call_at(due, self._check)

    def clear(self) -> None:
        """Does not expire until it is set again."""
        self._due = NEVER

    def close(self) -> None:
        """As `clear`, and cancels the timer."""
        self._due = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._due == NEVER:
            return
        if self._loop.time() < self._due - 0.001:  # a loop's clock may be as coarse as this
            self._timer = self._loop.call_at(self._due, self._check)
        else:
            self._due = NEVER
            self._on_expired()
