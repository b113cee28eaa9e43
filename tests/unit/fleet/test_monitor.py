"""The watching of endpoints: who is up, what they say of their load and models, and that no task is left behind."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics
from app.extension.fleet import ScrapeError
from app.fleet.monitor import Binding, FleetMonitor, MonitorOptions
from app.fleet.pool import EndpointPool
from pointsman.testing import FakeClock, make_endpoint
from tests.support.running import until

A, B = make_endpoint("a"), make_endpoint("b")
OFTEN = MonitorOptions(interval=0.001, timeout=60.0, models_interval=10.0)
ONCE = replace(OFTEN, interval=3600.0)
REFUSED = ScrapeError("connection refused", unreachable=True)
GUARD = 10


async def hang(_: Endpoint) -> Any:
    await asyncio.Event().wait()


class Fleet:
    """A monitor over endpoints that answer as they are told. What happens is put into a queue."""

    def __init__(self, options: MonitorOptions = OFTEN, *, bindings: int = 1, interval: float | None = None) -> None:
        self.clock = FakeClock()
        self.happened: asyncio.Queue[str] = asyncio.Queue()
        self.page: Any = {"waiting": 3, "running": 1}
        self.connection: Any = None
        self.models: Any = frozenset({"demo"})
        self.interval = interval
        self.pool = EndpointPool(clock=self.clock, in_flight=lambda _: 0)
        self.pool.replace_all([A])
        self.monitor = FleetMonitor(
            pool=self.pool,
            bindings=[Binding(self, [self])] * bindings,
            list_models=self.list_models,
            probe=self.probe,
            clock=self.clock,
            random=Random(7),
            options=options,
            on_change=lambda endpoint, change: self.happened.put_nowait(f"{endpoint.name} {change}"),
        )

    async def fetch(self, endpoint: Endpoint) -> Any:
        return await self._answer(f"read {endpoint.name}", self.page, endpoint)

    def extract(self, endpoint: Endpoint, payload: Any) -> EndpointMetrics:
        return EndpointMetrics(**payload)

    async def probe(self, endpoint: Endpoint, timeout: float) -> None:  # noqa: ASYNC109
        await self._answer(f"probe {endpoint.name}", self.connection, endpoint)

    async def list_models(self, endpoint: Endpoint, timeout: float) -> Any:  # noqa: ASYNC109
        return await self._answer(f"list {endpoint.name}", self.models, endpoint)

    async def _answer(self, what: str, answer: Any, endpoint: Endpoint) -> Any:
        self.happened.put_nowait(what)
        if isinstance(answer, Exception):
            raise answer
        return await answer(endpoint) if callable(answer) else answer

    async def sees(self, *wanted: str) -> list[str]:
        """Waits until all of `wanted` happened, in that order; returns all that did from now on."""
        seen: list[str] = []
        async with asyncio.timeout(GUARD):
            for what in wanted:
                seen.append(await self.happened.get())
                while seen[-1] != what:
                    seen.append(await self.happened.get())
        return seen

    def forget(self) -> None:
        """What happened so far no longer counts."""
        while not self.happened.empty():
            self.happened.get_nowait()

    def status(self, name: str = "a") -> Any:
        return {status.endpoint.name: status for status in self.pool.statuses()}[name]


@asynccontextmanager
async def watching(fleet: Fleet) -> AsyncIterator[Fleet]:
    """The monitor runs, and has looked at each endpoint once."""
    await fleet.monitor.start()
    try:
        await fleet.monitor.initial_scrape(GUARD)
        yield fleet
    finally:
        await fleet.monitor.stop()


def watched() -> list[str]:
    """Names of the endpoints that a task watches."""
    names = (task.get_name() for task in asyncio.all_tasks())
    return sorted(name.removeprefix("watch ") for name in names if name.startswith("watch "))


# -- metrics


async def test_after_the_first_round_metrics_and_models_are_known() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        assert (fleet.pool.candidates().waiting.tolist(), fleet.status().models) == ([3], frozenset({"demo"}))


async def test_metrics_are_read_again_and_again() -> None:
    async with watching(Fleet()) as fleet:
        await fleet.sees("read a", "read a", "read a")
        assert fleet.status().up


async def test_an_endpoint_that_can_be_read_is_not_probed() -> None:
    async with watching(Fleet()) as fleet:
        assert "probe a" not in await fleet.sees("read a", "read a", "read a")


async def test_a_source_may_have_an_interval_of_its_own() -> None:
    async with watching(Fleet(ONCE, interval=0.001)) as fleet:
        assert await fleet.sees("read a", "read a")


async def test_metrics_of_several_sources_are_put_together() -> None:
    fleet = Fleet(ONCE, bindings=2)
    pages = [{"waiting": 3}, {"running": 1}]

    async def next_page(_: Endpoint) -> Any:
        return pages.pop(0)

    fleet.page = next_page
    async with watching(fleet):
        assert fleet.status().metrics == EndpointMetrics(waiting=3, running=1)


async def test_without_sources_endpoints_are_probed() -> None:
    async with watching(Fleet(bindings=0)) as fleet:
        await fleet.sees("probe a", "probe a")
        assert fleet.status().up


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        pytest.param(ScrapeError("no page of metrics"), "no page of metrics", id="unreadable page"),
        pytest.param(LookupError("oh"), "LookupError: oh", id="bug in a plugin"),
        pytest.param({"wating": 3}, "TypeError: ", id="bug in an extractor"),
    ],
)
async def test_an_endpoint_whose_metrics_can_t_be_had_stays_up(page: Any, reason: str) -> None:
    fleet = Fleet()
    fleet.page = page
    async with watching(fleet):
        await fleet.sees("read a", "read a")
        assert (fleet.status().up, fleet.status().metrics) == (True, None)
        assert fleet.status().reason.startswith(reason)


async def test_a_hanging_metrics_page_does_not_make_an_endpoint_down() -> None:
    fleet = Fleet(replace(OFTEN, timeout=0.001))
    fleet.page, fleet.connection = hang, ConnectionRefusedError("refused")
    async with watching(fleet):
        seen = await fleet.sees("read a", "read a", "read a")
        assert (fleet.status().up, fleet.status().reason) == (True, "no metrics within 0.001 s")
        assert "probe a" not in seen


async def test_unreadable_metrics_are_told_once_until_they_can_be_read_again() -> None:
    fleet = Fleet()
    fleet.page = ScrapeError("cut off")
    async with watching(fleet):
        first = await fleet.sees("read a", "read a", "read a", "read a")
        fleet.page = {}
        await fleet.sees("read a", "read a")
        fleet.page = ScrapeError("cut off")
        assert await fleet.sees("a unreadable: cut off")
    assert first.count("a unreadable: cut off") == 1


async def test_a_page_that_is_refused_says_nothing_where_connections_are_taken() -> None:
    fleet = Fleet()
    fleet.page = REFUSED
    async with watching(fleet):
        await fleet.sees("read a", "probe a", "read a")
        assert (fleet.status().up, fleet.status().reason) == (True, "connection refused")


# -- down and up


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(ConnectionRefusedError("refused"), "refused", id="refused"),
        pytest.param(TimeoutError(), "no connection in time", id="no answer"),
    ],
)
async def test_an_endpoint_that_takes_no_connection_is_down(error: OSError, reason: str) -> None:
    fleet = Fleet()
    fleet.page, fleet.connection = REFUSED, error
    async with watching(fleet):
        await fleet.sees(f"a down: {reason}")
        assert (fleet.status().up, len(fleet.pool.candidates())) == (False, 0)


async def test_a_change_is_told_once() -> None:
    fleet = Fleet()
    fleet.page, fleet.connection = REFUSED, ConnectionRefusedError("refused")
    async with watching(fleet):
        seen = await fleet.sees("probe a", "probe a", "probe a", "probe a")
        assert [what for what in seen if what.startswith("a ")] == ["a down: refused"]


async def test_an_endpoint_comes_back_with_metrics_and_models_read_anew() -> None:
    fleet = Fleet()
    fleet.page, fleet.connection = REFUSED, ConnectionRefusedError("refused")
    async with watching(fleet):
        await fleet.sees("a down: refused")
        fleet.page, fleet.connection, fleet.models = {"waiting": 5, "running": 0}, None, frozenset({"new"})
        await fleet.sees("a up", "list a", "read a")
        assert (fleet.pool.candidates().waiting.tolist(), fleet.status().models) == ([5], frozenset({"new"}))


async def test_models_are_asked_for_again_when_an_endpoint_comes_back_soon() -> None:
    async with watching(Fleet()) as fleet:
        await fleet.sees("list a")
        fleet.page, fleet.connection = REFUSED, ConnectionRefusedError("refused")
        await fleet.sees("a down: refused")
        fleet.page, fleet.connection = {}, None
        assert await fleet.sees("a up", "list a")


async def test_a_suspect_is_looked_at_at_once() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.connection = ConnectionRefusedError("refused")
        fleet.forget()
        fleet.monitor.suspect(A)
        assert await fleet.sees("a down: refused") == ["read a", "probe a", "a down: refused"]


async def test_a_suspect_that_takes_connections_stays_up() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.forget()
        fleet.monitor.suspect(A)
        await fleet.sees("read a", "probe a")
        assert fleet.status().up


@pytest.mark.parametrize(
    "endpoint", [pytest.param(B, id="unknown"), pytest.param(make_endpoint("a"), id="of the same name")]
)
async def test_an_endpoint_that_is_not_watched_is_no_suspect(endpoint: Endpoint) -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.monitor.suspect(endpoint)
        assert not fleet.monitor._watches["a"].wake.is_set()


# -- models


async def test_models_are_not_asked_for_at_every_look() -> None:
    async with watching(Fleet()) as fleet:
        fleet.forget()
        assert "list a" not in await fleet.sees("read a", "read a", "read a")


async def test_models_are_asked_for_again_after_their_interval() -> None:
    async with watching(Fleet()) as fleet:
        fleet.forget()
        fleet.clock.advance(10)
        assert await fleet.sees("list a")


async def test_models_are_never_asked_for_without_an_interval() -> None:
    async with watching(Fleet(replace(OFTEN, models_interval=0))) as fleet:
        assert "list a" not in await fleet.sees("read a", "read a", "read a")


async def test_a_list_that_can_t_be_had_leaves_what_was_known() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.models = TimeoutError()
        fleet.clock.advance(10)
        await fleet.monitor.refresh_models()
        assert fleet.status().models == frozenset({"demo"})


@pytest.mark.parametrize(("seconds", "times"), [pytest.param(0.5, 0, id="just now"), pytest.param(1, 1, id="before")])
async def test_lists_are_asked_for_on_demand_unless_that_has_just_been_done(seconds: float, times: int) -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.forget()
        fleet.clock.advance(seconds)
        await fleet.monitor.refresh_models()
        assert fleet.happened.qsize() == times


async def test_a_pool_asks_the_monitor_for_lists_anew() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.models = frozenset({"demo", "new"})
        fleet.clock.advance(1)
        assert not await fleet.pool.lacks("new")


async def test_a_model_is_not_called_missing_while_lists_are_still_read() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        go = asyncio.Event()

        async def later(_: Endpoint) -> frozenset[str]:
            await go.wait()
            return frozenset({"new"})

        fleet.models = later
        fleet.clock.advance(1)
        fleet.forget()
        first = asyncio.create_task(fleet.pool.lacks("new"))
        await fleet.sees("list a")
        second = asyncio.create_task(fleet.pool.lacks("new"))
        for _ in range(20):  # as far as it comes without the lists
            await asyncio.sleep(0)
        go.set()
        assert (await first, await second) == (False, False)


# -- the list


async def test_an_endpoint_that_comes_is_watched() -> None:
    async with watching(Fleet()) as fleet:
        fleet.pool.replace_all([A, B])
        await fleet.sees("read b")
        assert watched() == ["a", "b"]


async def test_an_endpoint_that_goes_is_no_longer_watched() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.pool.replace_all([B])
        await fleet.sees("read b")
        assert watched() == ["b"]


async def test_an_endpoint_that_stays_keeps_its_task() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        task = fleet.monitor._watches["a"].task
        fleet.pool.replace_all([make_endpoint("a"), B])
        assert fleet.monitor._watches["a"].task is task


async def test_an_endpoint_that_changed_is_watched_anew() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        changed = make_endpoint("a", port=1)
        fleet.pool.replace_all([changed])
        fleet.forget()
        await fleet.sees("read a", "list a")
        assert (watched(), fleet.monitor._watches["a"].endpoint) == (["a"], changed)


# -- a change of what is read, and how often


async def test_other_sources_are_read_from_now_on_and_at_once() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        other = Fleet(ONCE)
        other.page = {"waiting": 8, "running": 0}
        fleet.forget()
        fleet.monitor.change([Binding(other, [other])], ONCE)
        await other.sees("read a")
        await until(lambda: fleet.pool.candidates().waiting.tolist() == [8])
        assert fleet.happened.empty()


async def test_other_intervals_hold_at_once() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.forget()
        fleet.monitor.change([Binding(fleet, [fleet])], OFTEN)
        assert await fleet.sees("read a", "read a", "read a")


async def test_without_a_change_nothing_is_read_again() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.monitor.change([Binding(fleet, [fleet])], replace(ONCE))
        assert not fleet.monitor._watches["a"].wake.is_set()


async def test_without_sources_any_more_endpoints_are_probed() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.forget()
        fleet.monitor.change([], ONCE)
        assert await fleet.sees("probe a") == ["probe a"]


async def test_a_change_before_the_start_holds_from_the_start_on() -> None:
    fleet, other = Fleet(ONCE), Fleet(ONCE)
    fleet.monitor.change([Binding(other, [other])], ONCE)
    async with watching(fleet):
        await other.sees("read a")
        assert "read a" not in await fleet.sees("list a")


# -- start and stop


async def test_the_first_round_waits_no_longer_than_it_may() -> None:
    fleet = Fleet()
    fleet.page = hang
    await fleet.monitor.start()
    await fleet.monitor.initial_scrape(0.001)
    seen = fleet.monitor._watches["a"].seen.is_set()
    await fleet.monitor.stop()
    assert not seen


async def test_the_first_round_of_an_empty_pool_is_over_at_once() -> None:
    fleet = Fleet()
    fleet.pool.replace_all([])
    async with asyncio.timeout(GUARD), watching(fleet):
        assert watched() == []


@pytest.mark.parametrize(
    "page", [pytest.param({}, id="between two looks"), pytest.param(hang, id="while metrics are read")]
)
async def test_no_task_is_left_after_a_stop(page: Any) -> None:
    fleet = Fleet()
    fleet.page = page
    await fleet.monitor.start()
    await fleet.sees("read a")
    await fleet.monitor.stop()
    assert watched() == []


async def test_no_task_of_an_endpoint_that_just_went_is_left_after_a_stop() -> None:
    fleet = Fleet()
    await fleet.monitor.start()
    await fleet.sees("read a")
    fleet.pool.replace_all([])
    await fleet.monitor.stop()
    assert watched() == []


async def test_after_a_stop_a_new_list_starts_nothing() -> None:
    fleet = Fleet()
    async with watching(fleet):
        pass
    fleet.pool.replace_all([A, B])
    assert watched() == []


async def test_a_change_need_not_be_told_to_anyone() -> None:
    fleet = Fleet()
    monitor = FleetMonitor(
        pool=fleet.pool,
        bindings=[],
        list_models=fleet.list_models,
        probe=fleet.probe,
        clock=fleet.clock,
        random=Random(7),
        options=ONCE,
    )
    fleet.connection = ConnectionRefusedError("refused")
    await monitor.start()
    await monitor.initial_scrape(GUARD)
    await monitor.stop()
    assert not fleet.status().up


async def test_a_want_of_something_here_takes_no_endpoint_down() -> None:
    fleet = Fleet()
    fleet.page, fleet.connection = REFUSED, OSError(errno.EMFILE, "Too many open files")
    async with watching(fleet):
        await fleet.sees("probe a")
        await fleet.sees("probe a")
    (status,) = fleet.pool.statuses()
    assert (status.up, status.reason) == (True, "[Errno 24] Too many open files")
