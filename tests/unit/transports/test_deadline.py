"""A time limit that is set often: when it passes, and how few timers it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from app.transports.http.deadline import Deadline


class Timer:
    """A call that is due."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.cancelled = at, call, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop whose time is the test's."""

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
        """When the timers go off that are left."""
        return [timer.at for timer in self.timers if not timer.cancelled]

    def go_on(self, seconds: float) -> None:
        """Time passes, and timers go off when they are due."""
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
def passed() -> list[float]:
    """When the deadline passed."""
    return []


@pytest.fixture
def deadline(loop: Loop, passed: list[float]) -> Deadline:
    return Deadline(cast(asyncio.AbstractEventLoop, cast(Any, loop)), lambda: passed.append(loop.now))


def test_one_that_is_not_set_takes_no_timer(deadline: Deadline, loop: Loop) -> None:
    deadline.clear()
    deadline.close()
    assert loop.timers == []


def test_it_passes_once_when_its_time_is_over(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    loop.go_on(4.9)
    assert passed == []
    loop.go_on(100)
    assert (passed, loop.due) == ([105.0], [])


def test_setting_it_later_takes_no_other_timer(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    for _ in range(4):
        loop.go_on(1)
        deadline.set(5)
    assert (loop.due, len(loop.timers)) == ([105.0], 1)
    loop.go_on(1)
    assert (passed, loop.due) == ([], [109.0])
    loop.go_on(4)
    assert passed == [109.0]


def test_setting_it_earlier_counts(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(75)
    deadline.set(10)
    assert loop.due == [110.0]
    loop.go_on(100)
    assert (passed, loop.due) == ([110.0], [])


def test_one_that_is_cleared_does_not_pass(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    deadline.clear()
    loop.go_on(10)
    assert (passed, loop.due) == ([], [])


def test_one_that_is_set_again_after_it_was_cleared_passes(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    deadline.clear()
    deadline.set(7)
    loop.go_on(10)
    assert passed == [107.0]


def test_one_that_is_closed_leaves_no_timer(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    deadline.close()
    assert loop.due == []
    loop.go_on(10)
    assert passed == []


def test_one_that_passed_can_be_set_again(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(1)
    loop.go_on(2)
    deadline.set(1)
    loop.go_on(2)
    assert passed == [101.0, 103.0]


def test_it_can_be_set_where_it_passes(loop: Loop) -> None:
    def again() -> None:
        passed.append(loop.now)
        if len(passed) < 3:
            deadline.set(1)

    passed: list[float] = []
    deadline = Deadline(cast(Any, loop), again)
    deadline.set(1)
    loop.go_on(10)
    assert passed == [101.0, 102.0, 103.0]


def test_a_timer_that_goes_off_a_little_early_is_on_time(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    (timer,) = loop.timers
    loop.now = 104.9995
    timer.call()
    assert passed == [104.9995]


def test_a_timer_that_goes_off_far_too_early_waits_on(deadline: Deadline, loop: Loop, passed: list[float]) -> None:
    deadline.set(5)
    timer = loop.timers.pop()
    loop.now = 104.0
    timer.call()
    assert (passed, loop.due) == ([], [105.0])


async def test_it_passes_in_a_real_loop() -> None:
    passed = asyncio.Event()
    deadline = Deadline(asyncio.get_running_loop(), passed.set)
    deadline.set(20)
    deadline.set(0.01)
    async with asyncio.timeout(10):
        await passed.wait()
