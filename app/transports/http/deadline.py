"""A time limit that is set at every step and seldom passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

NEVER = float("inf")


class Deadline:
    """Calls `passed` once the time is over that was set last.

    Setting it later costs no timer: the one that runs looks again when it goes off.
    """

    __slots__ = ("_due", "_loop", "_passed", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._due = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """From now on it passes in `seconds`."""
        self._due = due = self._loop.time() + seconds
        timer = self._timer
        if timer is None:
            self._timer = self._loop.call_at(due, self._look)
        elif due < timer.when():
            timer.cancel()
            self._timer = self._loop.call_at(due, self._look)

    def clear(self) -> None:
        """It does not pass until it is set again."""
        self._due = NEVER

    def close(self) -> None:
        """Ends its timer as well."""
        self._due = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._due == NEVER:
            return
        if self._loop.time() < self._due - 0.001:  # a loop's clock may be as coarse as this
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._due = NEVER
            self._passed()
