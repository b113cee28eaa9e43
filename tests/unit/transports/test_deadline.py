"""A timeout that is extended often: when it expires, and how few timers it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from app.transports.http.deadline import Deadline


class Timer:
    """A scheduled call."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.cancelled = at, call, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop whose time is set by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, call))
        return self.timers[-1]

    @property
    def due(self) -> list[float]:
        """When the remaining timers fire."""
        return [timer.at for timer in self.timers if not timer.cancelled]

    def advance(self, seconds: float) -> None:
        """Advances the time, and fires timers when they are due."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if not timer.cancelled and timer.at <= end]:
            first = min(due, key=Timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.at)
            first.call()
        self.now = end


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def expired() -> list[float]:
    """The times when the deadline expired."""
    return []


@pytest.fixture
def deadline(loop: Loop, expired: list[float]) -> Deadline:
    return Deadline(cast(asyncio.AbstractEventLoop, cast(Any, loop)), lambda: expired.append(loop.now))


def test_an_unset_deadline_takes_no_timer(deadline: Deadline, loop: Loop) -> None:
    deadline.clear()
    deadline.close()
    assert loop.timers == []


def test_it_expires_once(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(5)
    loop.advance(4.9)
    assert expired == []
    loop.advance(100)
    assert (expired, loop.due) == ([105.0], [])


def test_extending_it_takes_no_other_timer(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(5)
    for _ in range(4):
        loop.advance(1)
        deadline.set(5)
    assert (loop.due, len(loop.timers)) == ([105.0], 1)
    loop.advance(1)
    assert (expired, loop.due) == ([], [109.0])
    loop.advance(4)
    assert expired == [109.0]


def test_it_can_be_shortened(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(75)
    deadline.set(10)
    assert loop.due == [110.0]
    loop.advance(100)
    assert (expired, loop.due) == ([110.0], [])


def test_a_cleared_deadline_does_not_expire(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(5)
    deadline.clear()
    loop.advance(10)
    assert (expired, loop.due) == ([], [])


def test_a_cleared_deadline_can_be_set_again(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(5)
    deadline.clear()
    deadline.set(7)
    loop.advance(10)
    assert expired == [107.0]


def test_a_closed_deadline_leaves_no_timer(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(5)
    deadline.close()
    assert loop.due == []
    loop.advance(10)
    assert expired == []


def test_an_expired_deadline_can_be_set_again(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(1)
    loop.advance(2)
    deadline.set(1)
    loop.advance(2)
    assert expired == [101.0, 103.0]


def test_it_can_be_set_by_its_callback(loop: Loop) -> None:
    def again() -> None:
        expired.append(loop.now)
        if len(expired) < 3:
            deadline.set(1)

    expired: list[float] = []
    deadline = Deadline(cast(Any, loop), again)
    deadline.set(1)
    loop.advance(10)
    assert expired == [101.0, 102.0, 103.0]


def test_a_timer_that_fires_a_little_early_is_on_time(deadline: Deadline, loop: Loop, expired: list[float]) -> None:
    deadline.set(5)
    (timer,) = loop.timers
    loop.now = 104.9995
    timer.call()
    assert expired == [104.9995]


def test_a_timer_that_fires_much_too_early_is_scheduled_again(
    deadline: Deadline, loop: Loop, expired: list[float]
) -> None:
    deadline.set(5)
    timer = loop.timers.pop()
    loop.now = 104.0
    timer.call()
    assert (expired, loop.due) == ([], [105.0])


async def test_it_expires_in_a_real_loop() -> None:
    expired = asyncio.Event()
    deadline = Deadline(asyncio.get_running_loop(), expired.set)
    deadline.set(20)
    deadline.set(0.01)
    async with asyncio.timeout(10):
        await expired.wait()
