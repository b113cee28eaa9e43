"""The runner of a discovery: a first list before all else, then changes, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.domain.endpoint import Endpoint
from app.extension.fleet import DiscoveryError, EndpointSink
from app.fleet.discovery import DiscoveryRunner
from app.fleet.pool import EndpointPool
from pointsman.testing import FakeClock, make_endpoint
from tests.support.running import until

A, B, C = (make_endpoint(name) for name in "abc")


class FakeDiscovery:
    """Runs a script over the sink."""

    def __init__(self, script: Callable[[EndpointSink], Any]) -> None:
        self._script = script
        self.cancelled = False

    async def discover(self, sink: EndpointSink) -> None:
        try:
            await self._script(sink)
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def check(self) -> None:
        """Nothing to read."""


class Running:
    """A runner with what it feeds and tells."""

    def __init__(self, discovery: FakeDiscovery | None, *static_endpoints: Endpoint) -> None:
        self.pool = EndpointPool(clock=FakeClock(), in_flight=lambda _: 0)
        self.failures: list[Exception] = []
        self.static_endpoints = list(static_endpoints)
        self.failed = asyncio.Event()
        self.runner = DiscoveryRunner(
            pool=self.pool, static_endpoints=lambda: self.static_endpoints, discovery=discovery, on_failure=self.fail
        )

    def fail(self, error: Exception) -> None:
        self.failures.append(error)
        self.failed.set()

    @property
    def names(self) -> tuple[str, ...]:
        return self.pool.candidates().names


@asynccontextmanager
async def started(script: Callable[[EndpointSink], Any] | None, *static_endpoints: Endpoint) -> AsyncIterator[Running]:
    running = Running(FakeDiscovery(script) if script else None, *static_endpoints)
    try:
        async with asyncio.timeout(2):
            await running.runner.start()
            yield running
    finally:
        await running.runner.stop()


def gives(*endpoints: Endpoint, pause: bool = True, error: Exception | None = None, ends: bool = False) -> Any:
    """A script: perhaps a pause, the endpoints, perhaps an error, perhaps an end."""

    async def script(sink: EndpointSink) -> None:
        if pause:
            await asyncio.sleep(0)
        sink.replace_all(endpoints)
        if error is not None:
            raise error
        if not ends:
            await asyncio.Event().wait()

    return script


async def test_without_a_discovery_the_pool_has_what_is_written_down() -> None:
    async with started(None, A, B) as running:
        assert running.names == ("a", "b")


@pytest.mark.parametrize("pause", [pytest.param(True, id="after a while"), pytest.param(False, id="at once")])
async def test_a_start_returns_when_the_first_list_is_there(pause: bool) -> None:
    async with started(gives(A, pause=pause)) as running:
        assert running.names == ("a",)


async def test_a_start_waits_for_the_first_list() -> None:
    go = asyncio.Event()

    async def script(sink: EndpointSink) -> None:
        await go.wait()
        await gives(A)(sink)

    running = Running(FakeDiscovery(script))
    start = asyncio.create_task(running.runner.start())
    await asyncio.sleep(0)
    waited = not start.done()
    go.set()
    await start
    await running.runner.stop()
    assert (waited, running.names) == (True, ("a",))


async def test_what_is_written_down_comes_before_what_is_found() -> None:
    async with started(gives(C), A) as running:
        assert running.names == ("a", "c")


async def test_what_is_written_down_is_read_anew_at_each_list() -> None:
    go = asyncio.Event()

    async def script(sink: EndpointSink) -> None:
        sink.replace_all([C])
        await go.wait()
        sink.replace_all([C])

    async with started(script, A) as running:
        running.static_endpoints[:] = [B]
        go.set()
        await until(lambda: running.names == ("b", "c"))


async def test_a_discovery_that_has_no_first_list_is_an_error() -> None:
    async def script(_: EndpointSink) -> None:
        raise DiscoveryError("no such file")

    with pytest.raises(DiscoveryError, match="no such file"):
        async with started(script):
            pass


async def test_a_discovery_may_end_when_nothing_can_change() -> None:
    async with started(gives(A, ends=True)) as running:
        await asyncio.sleep(0)
        assert (running.names, running.failures) == (("a",), [])


@pytest.mark.parametrize("pause", [pytest.param(True, id="after a while"), pytest.param(False, id="at once")])
async def test_an_error_after_the_first_list_is_told_and_the_pool_stays(pause: bool) -> None:
    error = DiscoveryError("gone")
    async with started(gives(A, pause=pause, error=error)) as running:
        await running.failed.wait()
        assert (running.failures, running.names) == ([error], ("a",))


async def test_a_stop_ends_the_discovery_and_the_pool_stays() -> None:
    discovery = FakeDiscovery(gives(A))
    running = Running(discovery)
    await running.runner.start()
    await running.runner.stop()
    assert (discovery.cancelled, running.names, running.failures) == (True, ("a",), [])


async def test_a_stop_before_a_start_does_nothing() -> None:
    running = Running(FakeDiscovery(gives(A)))
    await running.runner.stop()
    assert not running.pool.discovered


# -- a change


class Lists(list[tuple[str, ...]]):
    """The lists that a pool gets from now on, as names."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        running.pool.subscribe(lambda: self.append(tuple(s.endpoint.name for s in running.pool.statuses())))


async def test_another_discovery_takes_over_in_one_step() -> None:
    first, second = FakeDiscovery(gives(A)), FakeDiscovery(gives(B, C))
    running = Running(first)
    await running.runner.start()
    lists = Lists(running)
    await running.runner.prepare(list, second)
    prepared = (list(lists), running.names, first.cancelled)
    end = running.runner.commit()
    committed = (list(lists), running.names, first.cancelled)
    await end()
    assert prepared == ([], ("a",), False)
    assert committed == ([("b", "c")], ("b", "c"), False)
    assert (first.cancelled, second.cancelled) == (True, False)
    await running.runner.stop()
    assert (second.cancelled, running.failures) == (True, [])


async def test_what_is_written_down_may_change_alone() -> None:
    discovery = FakeDiscovery(gives(C))
    running = Running(discovery, A)
    await running.runner.start()
    await running.runner.prepare(lambda: [B], discovery)
    before = running.names
    await running.runner.commit()()
    assert (before, running.names, discovery.cancelled) == (("a", "c"), ("b", "c"), False)
    await running.runner.stop()


@pytest.mark.parametrize("again", [pytest.param(A, id="the same"), pytest.param(make_endpoint("a"), id="an equal one")])
async def test_a_list_that_stays_as_it_is_is_not_given_again(again: Endpoint) -> None:
    async with started(None, A) as running:
        lists = Lists(running)
        await running.runner.prepare(lambda: [again], None)
        await running.runner.commit()()
        assert (lists, running.pool.statuses()[0].endpoint) == ([], A)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param([A], id="one less"),
        pytest.param([A, B, C], id="one more"),
        pytest.param([B, A], id="another order"),
        pytest.param([A, make_endpoint("b", port=1)], id="another port"),
        pytest.param([], id="none"),
    ],
)
async def test_a_list_that_changed_is_given_once(after: list[Endpoint]) -> None:
    async with started(None, A, B) as running:
        lists = Lists(running)
        await running.runner.prepare(lambda: after, None)
        await running.runner.commit()()
        assert lists == [tuple(endpoint.name for endpoint in after)]


async def test_what_is_prepared_and_abandoned_changes_nothing_and_ends() -> None:
    first, second = FakeDiscovery(gives(A)), FakeDiscovery(gives(B))
    running = Running(first)
    await running.runner.start()
    lists = Lists(running)
    await running.runner.prepare(lambda: [C], second)
    await running.runner.abandon()
    await running.runner.commit()()
    assert (lists, running.names, first.cancelled, second.cancelled) == ([], ("a",), False, True)
    await running.runner.stop()


async def test_a_discovery_that_can_t_be_prepared_leaves_the_one_before_at_work() -> None:
    go = asyncio.Event()

    async def script(sink: EndpointSink) -> None:
        sink.replace_all([A])
        await go.wait()
        sink.replace_all([B])

    async def broken(_: EndpointSink) -> None:
        raise DiscoveryError("no such file")

    async with started(script) as running:
        with pytest.raises(DiscoveryError, match="no such file"):
            await running.runner.prepare(list, FakeDiscovery(broken))
        await running.runner.abandon()
        go.set()
        await until(lambda: running.names == ("b",))
        assert running.failures == []


async def test_what_is_found_between_prepare_and_commit_counts() -> None:
    go = asyncio.Event()

    async def before(sink: EndpointSink) -> None:
        sink.replace_all([A])
        await go.wait()
        sink.replace_all([A, B])

    async def after(sink: EndpointSink) -> None:
        sink.replace_all([C])
        await go.wait()
        sink.replace_all([C, A])

    async with started(before) as running:
        await running.runner.prepare(list, FakeDiscovery(after))
        go.set()
        await until(lambda: running.names == ("a", "b"))  # it is still the first one that is listened to
        await running.runner.commit()()
        assert running.names == ("c", "a")


async def test_what_the_one_before_finds_after_the_commit_does_not_count() -> None:
    async def stubborn(sink: EndpointSink) -> None:
        sink.replace_all([A])
        try:
            await asyncio.Event().wait()
        finally:
            sink.replace_all([B])

    async with started(stubborn) as running:
        await running.runner.prepare(list, FakeDiscovery(gives(C)))
        await running.runner.commit()()
        assert (running.names, running.failures) == (("c",), [])


async def test_no_task_is_left_of_a_discovery_that_is_cancelled_before_its_first_list() -> None:
    before = asyncio.all_tasks()
    async with started(gives(A)) as running:
        preparing = asyncio.create_task(running.runner.prepare(list, FakeDiscovery(hang)))
        await until(lambda: len(asyncio.all_tasks()) == len(before) + 4)
        preparing.cancel()
        await asyncio.wait([preparing])
        await running.runner.abandon()
    await until(lambda: asyncio.all_tasks() == before)


async def hang(_: EndpointSink) -> None:
    await asyncio.Event().wait()
