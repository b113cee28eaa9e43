"""Who is let in, and when all have left."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.errors import BodyTooLargeError, RoutingError, SaturatedError, ShuttingDownError
from app.transports.admission import Admission, Limits


def kinds(*errors: RoutingError | None) -> list[type[RoutingError] | None]:
    return [None if error is None else type(error) for error in errors]


@pytest.mark.parametrize(("length", "let_in"), [(None, True), (0, True), (10, True), (11, False), (10**18, False)])
def test_a_body_that_says_it_is_too_large_is_not_let_in(length: int | None, let_in: bool) -> None:
    error = Admission(Limits(body_bytes=10)).enter(length)
    assert kinds(error) == [None if let_in else BodyTooLargeError]


def test_any_number_is_let_in_without_a_limit() -> None:
    admission = Admission(Limits(body_bytes=10))
    assert kinds(*[admission.enter(None) for _ in range(1000)]) == [None] * 1000


def test_no_more_are_let_in_than_the_limit_allows() -> None:
    admission = Admission(Limits(body_bytes=10, in_flight=2))
    assert kinds(*[admission.enter(None) for _ in range(4)]) == [None, None, SaturatedError, SaturatedError]


def test_who_leaves_makes_room_and_who_was_not_let_in_does_not() -> None:
    admission = Admission(Limits(body_bytes=10, in_flight=2))
    for _ in range(3):
        admission.enter(None)
    admission.leave()  # the one that was refused
    assert kinds(admission.enter(None)) == [SaturatedError]
    admission.leave()
    admission.leave()
    assert kinds(admission.enter(None)) == [None]


def test_nobody_is_let_in_while_draining() -> None:
    admission = Admission(Limits(body_bytes=10, in_flight=1))
    admission.draining = True
    assert kinds(admission.enter(100), admission.enter(None)) == [ShuttingDownError, ShuttingDownError]


def test_limits_may_change() -> None:
    admission = Admission(Limits(body_bytes=10, in_flight=1))
    admission.enter(None)
    admission.limits = Limits(body_bytes=20, in_flight=2)
    assert kinds(admission.enter(20), admission.enter(None)) == [None, SaturatedError]


def test_a_full_house_is_told_before_a_large_body() -> None:
    admission = Admission(Limits(body_bytes=10, in_flight=1))
    admission.enter(None)
    assert kinds(admission.enter(100)) == [SaturatedError]


async def test_it_has_ended_when_nobody_is_in() -> None:
    await Admission(Limits(body_bytes=10)).ended()


async def test_it_has_ended_when_the_last_one_left() -> None:
    admission = Admission(Limits(body_bytes=10))
    admission.enter(None)
    admission.enter(None)
    ended = asyncio.create_task(admission.ended())
    await asyncio.sleep(0)
    admission.leave()
    await asyncio.sleep(0)
    assert not ended.done()
    admission.leave()
    async with asyncio.timeout(10):
        await ended


async def test_it_has_not_ended_when_another_one_came_at_the_last_moment() -> None:
    admission = Admission(Limits(body_bytes=10))
    admission.enter(None)
    ended = asyncio.create_task(admission.ended())
    await asyncio.sleep(0)
    admission.leave()
    admission.enter(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not ended.done()
    admission.leave()
    async with asyncio.timeout(10):
        await ended
