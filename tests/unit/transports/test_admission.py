"""Which requests are admitted, and when all have ended."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from app.domain.errors import BodyTooLargeError, RoutingError, SaturatedError, ShuttingDownError
from app.transports.admission import Admission


class Bounds(NamedTuple):
    """Limits."""

    body_bytes: int = 10
    in_flight: int = 0


UNLIMITED = Bounds()


def kinds(*errors: RoutingError | None) -> list[type[RoutingError] | None]:
    return [None if error is None else type(error) for error in errors]


@pytest.mark.parametrize(("length", "admitted"), [(None, True), (0, True), (10, True), (11, False), (10**18, False)])
def test_a_body_that_is_announced_as_too_large_is_rejected(length: int | None, admitted: bool) -> None:
    error = Admission().enter(UNLIMITED, length)
    assert kinds(error) == [None if admitted else BodyTooLargeError]


def test_any_number_is_admitted_without_a_limit() -> None:
    admission = Admission()
    assert kinds(*[admission.enter(UNLIMITED, None) for _ in range(1000)]) == [None] * 1000


def test_no_more_are_admitted_than_the_limit_allows() -> None:
    admission, limits = Admission(), Bounds(in_flight=2)
    found = kinds(*[admission.enter(limits, None) for _ in range(4)])
    assert found == [None, None, SaturatedError, SaturatedError]


def test_a_request_that_leaves_makes_room_and_a_rejected_one_does_not() -> None:
    admission, limits = Admission(), Bounds(in_flight=2)
    for _ in range(3):
        admission.enter(limits, None)
    admission.leave()  # the one that was rejected
    assert kinds(admission.enter(limits, None)) == [SaturatedError]
    admission.leave()
    admission.leave()
    assert kinds(admission.enter(limits, None)) == [None]


def test_no_request_is_admitted_while_draining() -> None:
    admission, limits = Admission(), Bounds(in_flight=1)
    admission.draining = True
    found = kinds(admission.enter(limits, 100), admission.enter(limits, None))
    assert found == [ShuttingDownError, ShuttingDownError]


def test_the_limits_are_those_at_the_arrival_and_earlier_requests_count() -> None:
    admission = Admission()
    steps = [(1, None), (2, None), (2, SaturatedError), (0, None), (3, SaturatedError), (6, None)]
    found = kinds(*[admission.enter(Bounds(in_flight=in_flight), None) for in_flight, _ in steps])
    assert found == [kind for _, kind in steps]


def test_saturation_is_reported_before_a_large_body() -> None:
    admission, limits = Admission(), Bounds(in_flight=1)
    admission.enter(limits, None)
    assert kinds(admission.enter(limits, 100)) == [SaturatedError]


async def test_without_requests_all_have_ended() -> None:
    await Admission().ended()


async def test_all_have_ended_when_the_last_one_left() -> None:
    admission = Admission()
    admission.enter(UNLIMITED, None)
    admission.enter(UNLIMITED, None)
    ended = asyncio.create_task(admission.ended())
    await asyncio.sleep(0)
    admission.leave()
    await asyncio.sleep(0)
    assert not ended.done()
    admission.leave()
    async with asyncio.timeout(10):
        await ended


async def test_all_have_not_ended_when_another_one_enters_at_the_last_moment() -> None:
    admission = Admission()
    admission.enter(UNLIMITED, None)
    ended = asyncio.create_task(admission.ended())
    await asyncio.sleep(0)
    admission.leave()
    admission.enter(UNLIMITED, None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not ended.done()
    admission.leave()
    async with asyncio.timeout(10):
        await ended
