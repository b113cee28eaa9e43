"""The requests that run on one pipeline; its plugins are stopped after the last of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.domain.errors import NoEndpointsError, UpstreamError
from app.routing.pipeline import OpenRoutes
from pointsman.testing import make_request
from tests.unit.routing.given import Setup


async def ended(routes: OpenRoutes) -> bool:
    """Whether `ended` returns, once everything went on as far as it can."""
    waiting = asyncio.create_task(routes.ended())
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    return not waiting.cancelled()


async def test_without_requests_ended_returns_at_once() -> None:
    await OpenRoutes().ended()


async def test_ended_returns_after_the_last_request() -> None:
    routes, seen = OpenRoutes(), []
    for _ in range(3):
        routes.enter()
    for _ in range(3):
        seen.append(await ended(routes))
        routes.leave()
    assert (seen, await ended(routes)) == ([False] * 3, True)


async def test_ended_also_waits_for_a_request_that_begins_when_the_last_one_ends() -> None:
    routes = OpenRoutes()
    routes.enter()
    waiting = asyncio.create_task(routes.ended())
    await asyncio.sleep(0)
    routes.leave()
    routes.enter()
    for _ in range(5):
        await asyncio.sleep(0)
    early = waiting.done()
    routes.leave()
    await waiting
    assert not early


async def test_several_tasks_may_wait() -> None:
    routes = OpenRoutes()
    routes.enter()
    waiting = [asyncio.create_task(routes.ended()) for _ in range(3)]
    await asyncio.sleep(0)
    routes.leave()
    await asyncio.gather(*waiting)
    assert await ended(routes)


async def test_a_cancelled_wait_does_not_affect_others() -> None:
    routes = OpenRoutes()
    routes.enter()
    assert not await ended(routes)
    waiting = asyncio.create_task(routes.ended())
    await asyncio.sleep(0)
    routes.leave()
    await waiting


# -- what counts as a request


async def test_a_request_is_open_as_long_as_its_block() -> None:
    setup = Setup()
    routes, seen = setup.router.pipeline.open, []
    seen.append(await ended(routes))
    async with setup.router.route(make_request()):
        seen.append(await ended(routes))
    assert [*seen, await ended(routes)] == [True, False, True]


async def test_a_request_is_open_while_its_facts_are_gathered() -> None:
    go = asyncio.Event()

    class Slow:
        async def produce(self, *_: Any) -> Any:
            await go.wait()
            return {}

    setup = Setup(producers=[Slow()])

    async def request() -> None:
        async with setup.router.route(make_request()):
            pass

    task = asyncio.create_task(request())
    await asyncio.sleep(0)
    early = await ended(setup.router.pipeline.open)
    go.set()
    await task
    assert (early, await ended(setup.router.pipeline.open)) == (False, True)


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), LookupError("oh"), UpstreamError("a", "refused")],
    ids=lambda e: type(e).__name__,
)
async def test_a_request_that_ends_with_an_error_is_no_longer_open(error: BaseException) -> None:
    setup = Setup()
    with pytest.raises(type(error)):
        async with setup.router.route(make_request()):
            raise error
    assert await ended(setup.router.pipeline.open)


async def test_a_refused_request_is_not_open() -> None:
    setup = Setup()
    setup.pool.replace_all([])
    with pytest.raises(NoEndpointsError):
        async with setup.router.route(make_request()):
            pass
    assert await ended(setup.router.pipeline.open)


async def test_a_request_is_open_only_on_the_pipeline_of_its_router() -> None:
    setup = Setup()
    before, after = setup.router.pipeline.open, setup.next_router().pipeline.open
    async with setup.router.route(make_request()):
        within = (await ended(before), await ended(after))
    assert (within, await ended(before)) == ((False, True), True)
