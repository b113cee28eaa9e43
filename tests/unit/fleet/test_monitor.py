"""The monitor: which endpoints are up, their metrics and models, and that no task is left behind."""

from __future__ import annotations

import asyncio
import errno
import gc
import weakref
from collections.abc import AsyncIterator, Callable
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

A, B = make_endpoint("a"), make_endpoint("b")
OFTEN = MonitorOptions(interval=0.001, timeout=60.0, models_interval=10.0)
ONCE = replace(OFTEN, interval=3600.0)
UNREACHABLE = ScrapeError("connection refused", unreachable=True)
REFUSED = ConnectionRefusedError("refused")
GUARD = 10


async def hang(_: Endpoint) -> Any:
    await asyncio.Event().wait()


class Fleet:
    """A monitor over endpoints that respond as their attributes say. What happens is put into a queue."""

    def __init__(
        self,
        options: MonitorOptions = OFTEN,
        *,
        bindings: int = 1,
        interval: float | None = None,
        pool: EndpointPool | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.happened: asyncio.Queue[str] = asyncio.Queue()
        self.page: Any = {"waiting": 3, "running": 1}
        self.connection: Any = None
        self.models: Any = frozenset({"demo"})
        self.interval = interval
        if pool is None:
            pool = EndpointPool(clock=self.clock, in_flight=lambda _: 0)
            pool.replace_all([A])
        self.pool = pool
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
        return await self._respond(f"read {endpoint.name}", self.page, endpoint)

    def extract(self, endpoint: Endpoint, payload: Any) -> EndpointMetrics:
        return EndpointMetrics(**payload)

    async def probe(self, endpoint: Endpoint, timeout: float) -> None:  # noqa: ASYNC109
        await self._respond(f"probe {endpoint.name}", self.connection, endpoint)

    async def list_models(self, endpoint: Endpoint, timeout: float) -> Any:  # noqa: ASYNC109
        return await self._respond(f"list {endpoint.name}", self.models, endpoint)

    async def _respond(self, what: str, response: Any, endpoint: Endpoint) -> Any:
        self.happened.put_nowait(what)
        if isinstance(response, Exception):
            raise response
        return await response(endpoint) if callable(response) else response

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
        """Discards what happened so far."""
        while not self.happened.empty():
            self.happened.get_nowait()

    def status(self, name: str = "a") -> Any:
        return self.pool.table.get(name)

    def takes_no_connection(self) -> None:
        self.page, self.connection = UNREACHABLE, REFUSED


@asynccontextmanager
async def watching(fleet: Fleet) -> AsyncIterator[Fleet]:
    """The monitor runs, and has scraped each endpoint once."""
    fleet.monitor.start()
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


async def test_after_the_initial_scrape_metrics_and_models_are_known() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        assert (fleet.pool.candidates().waiting.tolist(), fleet.status().models) == ([3], frozenset({"demo"}))


async def test_metrics_are_scraped_again_and_again() -> None:
    async with watching(Fleet()) as fleet:
        await fleet.sees("read a", "read a", "read a")
        assert fleet.status().up


async def test_an_endpoint_whose_metrics_can_be_read_is_not_probed() -> None:
    async with watching(Fleet()) as fleet:
        assert "probe a" not in await fleet.sees("read a", "read a", "read a")


async def test_a_source_may_have_its_own_interval() -> None:
    async with watching(Fleet(ONCE, interval=0.001)) as fleet:
        assert await fleet.sees("read a", "read a")


async def test_metrics_of_several_sources_are_combined() -> None:
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
async def test_an_endpoint_whose_metrics_can_t_be_scraped_stays_up(page: Any, reason: str) -> None:
    fleet = Fleet()
    fleet.page = page
    async with watching(fleet):
        await fleet.sees("read a", "read a")
        assert (fleet.status().up, fleet.status().metrics) == (True, None)
        assert fleet.status().reason.startswith(reason)


async def test_an_endpoint_whose_metrics_page_hangs_stays_up() -> None:
    fleet = Fleet(replace(OFTEN, timeout=0.001))
    fleet.page, fleet.connection = hang, REFUSED
    async with watching(fleet):
        seen = await fleet.sees("read a", "read a", "read a")
        assert (fleet.status().up, fleet.status().reason) == (True, "no metrics within 0.001 s")
        assert "probe a" not in seen


async def test_unreadable_metrics_are_reported_once_until_they_can_be_read_again() -> None:
    fleet = Fleet()
    fleet.page = ScrapeError("cut off")
    async with watching(fleet):
        first = await fleet.sees("read a", "read a", "read a", "read a")
        fleet.page = {}
        await fleet.sees("read a", "read a")
        fleet.page = ScrapeError("cut off")
        assert await fleet.sees("a unreadable: cut off")
    assert first.count("a unreadable: cut off") == 1


async def test_an_endpoint_that_accepts_connections_stays_up_without_a_metrics_port() -> None:
    fleet = Fleet()
    fleet.page = UNREACHABLE
    async with watching(fleet):
        await fleet.sees("read a", "probe a", "read a")
        assert (fleet.status().up, fleet.status().reason) == (True, "connection refused")


# -- down and up


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(REFUSED, "refused", id="refused"),
        pytest.param(TimeoutError(), "no connection in time", id="timeout"),
    ],
)
async def test_an_endpoint_that_accepts_no_connection_is_down(error: OSError, reason: str) -> None:
    fleet = Fleet()
    fleet.page, fleet.connection = UNREACHABLE, error
    async with watching(fleet):
        await fleet.sees(f"a down: {reason}")
        assert (fleet.status().up, len(fleet.pool.candidates())) == (False, 0)


async def test_a_change_is_reported_once() -> None:
    fleet = Fleet()
    fleet.takes_no_connection()
    async with watching(fleet):
        seen = await fleet.sees("probe a", "probe a", "probe a", "probe a")
        assert [what for what in seen if what.startswith("a ")] == ["a down: refused"]


async def test_of_an_endpoint_that_comes_back_metrics_and_models_are_read_again() -> None:
    fleet = Fleet()
    fleet.takes_no_connection()
    async with watching(fleet):
        await fleet.sees("a down: refused")
        fleet.page, fleet.connection, fleet.models = {"waiting": 5, "running": 0}, None, frozenset({"new"})
        await fleet.sees("a up", "list a", "read a")
        assert (fleet.pool.candidates().waiting.tolist(), fleet.status().models) == ([5], frozenset({"new"}))


async def test_models_are_read_again_even_if_an_endpoint_comes_back_soon() -> None:
    async with watching(Fleet()) as fleet:
        await fleet.sees("list a")
        fleet.takes_no_connection()
        await fleet.sees("a down: refused")
        fleet.page, fleet.connection = {}, None
        assert await fleet.sees("a up", "list a")


async def test_a_shortage_on_this_machine_takes_no_endpoint_down() -> None:
    fleet = Fleet()
    fleet.page, fleet.connection = UNREACHABLE, OSError(errno.EMFILE, "Too many open files")
    async with watching(fleet):
        await fleet.sees("probe a")
        await fleet.sees("probe a")
    assert (fleet.status().up, fleet.status().reason) == (True, "[Errno 24] Too many open files")


# -- suspicions


async def test_a_suspected_endpoint_is_checked_at_once() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.connection = REFUSED
        fleet.forget()
        fleet.pool.table.suspect(A)
        assert await fleet.sees("a down: refused") == ["read a", "probe a", "a down: refused"]


async def test_a_suspected_endpoint_that_accepts_connections_stays_up() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.forget()
        fleet.pool.table.suspect(A)
        await fleet.sees("read a", "probe a")
        assert fleet.status().up


@pytest.mark.parametrize(
    "endpoint", [pytest.param(B, id="unknown"), pytest.param(make_endpoint("a"), id="of the same name")]
)
async def test_an_endpoint_that_is_not_watched_can_t_be_suspected(endpoint: Endpoint) -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.pool.table.suspect(endpoint)
        assert not fleet.monitor._watches["a"].wake.is_set()


# -- models


async def test_models_are_not_read_at_every_scrape() -> None:
    async with watching(Fleet()) as fleet:
        fleet.forget()
        assert "list a" not in await fleet.sees("read a", "read a", "read a")


async def test_models_are_read_again_after_their_interval() -> None:
    async with watching(Fleet()) as fleet:
        fleet.forget()
        fleet.clock.advance(10)
        assert await fleet.sees("list a")


async def test_without_an_interval_models_are_never_read() -> None:
    async with watching(Fleet(replace(OFTEN, models_interval=0))) as fleet:
        assert "list a" not in await fleet.sees("read a", "read a", "read a")


async def test_a_list_that_can_t_be_read_leaves_the_last_one() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.models = TimeoutError()
        fleet.clock.advance(10)
        await fleet.monitor.refresh_models()
        assert fleet.status().models == frozenset({"demo"})


async def test_a_bug_in_a_check_does_not_end_the_watching() -> None:
    fleet = Fleet()
    fleet.models = LookupError("oh")
    async with watching(fleet):
        assert (fleet.status().up, fleet.status().reason) == (True, "LookupError: oh")
        fleet.forget()
        await fleet.sees("read a", "read a")


@pytest.mark.parametrize(("seconds", "times"), [pytest.param(0.5, 0, id="just now"), pytest.param(1, 1, id="before")])
async def test_lists_are_refreshed_unless_they_were_read_within_a_second(seconds: float, times: int) -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.forget()
        fleet.clock.advance(seconds)
        await fleet.monitor.refresh_models()
        assert fleet.happened.qsize() == times


async def test_a_second_refresh_waits_for_the_first_one() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        go = asyncio.Event()

        async def later(_: Endpoint) -> frozenset[str]:
            await go.wait()
            return frozenset({"new"})

        fleet.models = later
        fleet.clock.advance(1)
        fleet.forget()
        first = asyncio.create_task(fleet.monitor.refresh_models())
        await fleet.sees("list a")
        second = asyncio.create_task(fleet.monitor.refresh_models())
        for _ in range(20):  # as far as it can go without the lists
            await asyncio.sleep(0)
        done = (first.done(), second.done())
        go.set()
        await asyncio.gather(first, second)
        assert (done, fleet.status().models, fleet.happened.empty()) == ((False, False), frozenset({"new"}), True)


# -- the list


async def test_an_added_endpoint_is_watched() -> None:
    async with watching(Fleet()) as fleet:
        fleet.pool.replace_all([A, B])
        await fleet.sees("read b")
        assert watched() == ["a", "b"]


async def test_a_removed_endpoint_is_no_longer_watched() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        fleet.pool.replace_all([B])
        await fleet.sees("read b")
        assert watched() == ["b"]


async def test_an_endpoint_that_stays_keeps_its_task() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        task = fleet.monitor._watches["a"].task
        fleet.pool.replace_all([make_endpoint("a"), B])
        assert fleet.monitor._watches["a"].task is task


async def test_a_changed_endpoint_gets_a_new_task() -> None:
    async with watching(Fleet(ONCE)) as fleet:
        changed = make_endpoint("a", port=1)
        fleet.pool.replace_all([changed])
        fleet.forget()
        await fleet.sees("read a", "list a")
        assert (watched(), fleet.monitor._watches["a"].endpoint) == (["a"], changed)


# -- start and stop


async def test_nothing_is_watched_before_the_start() -> None:
    fleet = Fleet()
    fleet.pool.replace_all([A, B])
    fleet.pool.table.suspect(A)
    await fleet.monitor.initial_scrape(GUARD)
    await fleet.monitor.stop()
    assert (watched(), fleet.happened.empty()) == ([], True)


async def test_the_initial_scrape_has_a_timeout() -> None:
    fleet = Fleet()
    fleet.page = hang
    fleet.monitor.start()
    await fleet.monitor.initial_scrape(0.001)
    seen = fleet.monitor._watches["a"].seen.is_set()
    await fleet.monitor.stop()
    assert not seen


async def test_the_initial_scrape_of_an_empty_pool_returns_at_once() -> None:
    fleet = Fleet()
    fleet.pool.replace_all([])
    async with asyncio.timeout(GUARD), watching(fleet):
        assert watched() == []


@pytest.mark.parametrize(
    "page", [pytest.param({}, id="between two scrapes"), pytest.param(hang, id="while metrics are read")]
)
async def test_no_task_is_left_after_a_stop(page: Any) -> None:
    fleet = Fleet()
    fleet.page = page
    fleet.monitor.start()
    await fleet.sees("read a")
    await fleet.monitor.stop()
    assert watched() == []


async def test_no_task_of_a_removed_endpoint_is_left_after_a_stop() -> None:
    fleet = Fleet()
    fleet.monitor.start()
    await fleet.sees("read a")
    fleet.pool.replace_all([])
    await fleet.monitor.stop()
    assert watched() == []


async def test_after_a_stop_neither_a_list_nor_a_suspicion_has_an_effect() -> None:
    fleet = Fleet()
    async with watching(fleet):
        pass
    fleet.forget()
    fleet.pool.replace_all([A, B])
    fleet.pool.table.suspect(A)
    await fleet.monitor.stop()
    assert (watched(), fleet.happened.empty()) == ([], True)


async def test_a_stopped_monitor_is_not_kept_alive_by_the_table() -> None:
    fleet = Fleet()
    table = fleet.pool.table
    async with watching(fleet):
        pass
    monitor = weakref.ref(fleet.monitor)
    del fleet
    for _ in range(5):  # what the event loop still holds of its tasks
        await asyncio.sleep(0)
    gc.collect()
    assert (monitor(), len(table.statuses())) == (None, 1)


async def test_changes_need_not_be_reported_to_anything() -> None:
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
    fleet.connection = REFUSED
    monitor.start()
    await monitor.initial_scrape(GUARD)
    await monitor.stop()
    assert not fleet.status().up


# -- one monitor replaces another over one table


async def test_the_next_monitor_scrapes_every_endpoint_at_once_from_its_own_sources() -> None:
    async with watching(Fleet(ONCE)) as first:
        second = Fleet(ONCE, pool=first.pool)
        second.page = {"waiting": 8, "running": 0}
        second.monitor.start()
        await first.monitor.stop()
        first.forget()
        await second.monitor.initial_scrape(GUARD)
        assert (second.pool.candidates().waiting.tolist(), first.happened.empty()) == ([8], True)
        await second.monitor.stop()


async def test_the_next_monitor_goes_on_when_the_previous_one_stops() -> None:
    async with watching(Fleet(ONCE)) as first, watching(Fleet(ONCE, pool=first.pool)) as second:
        await first.monitor.stop()
        for fleet in (first, second):
            fleet.forget()
        second.connection = REFUSED
        second.pool.table.suspect(A)
        await second.sees("a down: refused")
        second.pool.replace_all([A, B])
        await second.sees("read b")
        assert (watched(), first.happened.empty()) == (["a", "b"], True)


TROUBLES: list[Any] = [
    pytest.param(Fleet.takes_no_connection, "a down: refused", id="down"),
    pytest.param(
        lambda fleet: setattr(fleet, "page", ScrapeError("cut off")), "a unreadable: cut off", id="unreadable"
    ),
]


@pytest.mark.parametrize(("fails", "change"), TROUBLES)
async def test_what_the_previous_monitor_reported_is_not_reported_again(
    fails: Callable[[Fleet], None], change: str
) -> None:
    first = Fleet(ONCE)
    fails(first)
    async with watching(first):
        await first.sees(change)
    second = Fleet(pool=first.pool)
    fails(second)
    async with watching(second):
        seen = await second.sees("read a", "read a", "read a")
        assert [what for what in seen if what.startswith("a ")] == []


async def test_an_endpoint_that_was_down_before_comes_up() -> None:
    first = Fleet(ONCE)
    first.takes_no_connection()
    async with watching(first):
        await first.sees("a down: refused")
    async with watching(Fleet(ONCE, pool=first.pool)) as second:
        await second.sees("read a", "probe a", "a up", "list a")
        assert second.status().up
