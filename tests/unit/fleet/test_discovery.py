"""The discovery runner: it has the first list before it writes the pool, then each change, until another one writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
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
Script = Callable[[EndpointSink], Any]


class FakeDiscovery:
    """Runs a script over the sink."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.cancelled = False

    async def discover(self, sink: EndpointSink) -> None:
        try:
            await self._script(sink)
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def check(self) -> None:
        """Nothing to check."""


class Runner(DiscoveryRunner):
    """A runner over a pool, with its failures."""

    def __init__(self, discovery: FakeDiscovery | None, *static: Endpoint, pool: EndpointPool | None = None) -> None:
        self.pool = pool or EndpointPool(clock=FakeClock(), in_flight=lambda _: 0)
        self.static: Sequence[Endpoint] = static
        self.failures: list[Exception] = []
        super().__init__(
            pool=self.pool, static=lambda: self.static, discovery=discovery, on_failure=self.failures.append
        )

    @property
    def names(self) -> str:
        """Names of the pool's endpoints."""
        return "".join(self.pool.candidates().names)

    def record_lists(self) -> list[str]:
        """The lists that are written to the pool from now on."""
        lists: list[str] = []
        self.pool.table.subscribe(lambda: lists.append(self.names))
        return lists


@asynccontextmanager
async def started(script: Script | None, *static: Endpoint, pool: EndpointPool | None = None) -> AsyncIterator[Runner]:
    runner = Runner(FakeDiscovery(script) if script else None, *static, pool=pool)
    try:
        async with asyncio.timeout(2):
            await runner.start()
            yield runner
    finally:
        await runner.stop()


@asynccontextmanager
async def published(script: Script | None, *static: Endpoint) -> AsyncIterator[Runner]:
    async with started(script, *static) as runner:
        runner.publish()
        yield runner


def gives(*endpoints: Endpoint, pause: bool = True, error: Exception | None = None, ends: bool = False) -> Script:
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


def gives_later(first: Sequence[Endpoint], go: asyncio.Event, second: Sequence[Endpoint]) -> Script:
    """A script: a list, and another one after `go`."""

    async def script(sink: EndpointSink) -> None:
        sink.replace_all(first)
        await go.wait()
        sink.replace_all(second)
        await asyncio.Event().wait()

    return script


async def hang(_: EndpointSink) -> None:
    await asyncio.Event().wait()


async def fail(_: EndpointSink) -> None:
    raise DiscoveryError("no such file")


# -- the first list

PAUSE = pytest.mark.parametrize("pause", [pytest.param(True, id="after a while"), pytest.param(False, id="at once")])


async def test_without_a_discovery_the_pool_has_the_static_endpoints() -> None:
    async with published(None, A, B) as runner:
        assert runner.names == "ab"


@PAUSE
async def test_a_start_returns_when_the_first_list_is_there(pause: bool) -> None:
    async with published(gives(A, pause=pause)) as runner:
        assert runner.names == "a"


async def test_a_start_waits_for_the_first_list() -> None:
    go = asyncio.Event()

    async def script(sink: EndpointSink) -> None:
        await go.wait()
        await gives(A)(sink)

    runner = Runner(FakeDiscovery(script))
    start = asyncio.create_task(runner.start())
    await asyncio.sleep(0)
    waited = not start.done()
    go.set()
    await start
    runner.publish()
    await runner.stop()
    assert (waited, runner.names) == (True, "a")


@pytest.mark.parametrize("script", [None, gives(A)], ids=["static endpoints", "discovery"])
async def test_a_start_writes_nothing_to_the_pool(script: Script | None) -> None:
    async with started(script, B) as runner:
        assert not runner.pool.discovered


@pytest.mark.parametrize("script", [None, gives()], ids=["static endpoints", "discovery"])
async def test_an_empty_first_list_is_written_as_well(script: Script | None) -> None:
    async with published(script) as runner:
        assert (runner.pool.discovered, runner.names) == (True, "")


async def test_static_endpoints_come_before_those_that_are_found() -> None:
    async with published(gives(C), A) as runner:
        assert runner.names == "ac"


async def test_static_endpoints_are_read_again_for_each_list() -> None:
    go = asyncio.Event()
    async with published(gives_later([C], go, [C]), A) as runner:
        runner.static = [B]
        go.set()
        await until(lambda: runner.names == "bc")


@pytest.mark.parametrize(
    ("script", "within", "message"),
    [
        pytest.param(fail, None, "no such file", id="fails"),
        pytest.param(fail, 1.5, "no such file", id="fails within the timeout"),
        pytest.param(hang, 0.015, r"^no endpoints within 0\.015 s$", id="takes too long"),
    ],
)
async def test_a_discovery_without_a_first_list_is_an_error(script: Script, within: float | None, message: str) -> None:
    before = asyncio.all_tasks()
    runner = Runner(FakeDiscovery(script), A)
    with pytest.raises(DiscoveryError, match=message):
        await runner.start(within)
    await runner.stop()
    assert (runner.pool.discovered, runner.failures) == (False, [])
    await until(lambda: asyncio.all_tasks() == before)


# -- changes


async def test_each_later_list_is_written_at_once() -> None:
    go = asyncio.Event()
    async with published(gives_later([A], go, [A, B])) as runner:
        lists = runner.record_lists()
        go.set()
        await until(lambda: lists)
        assert lists == ["ab"]


async def test_a_list_that_is_found_before_it_is_published_is_the_first_one_written() -> None:
    go = asyncio.Event()
    async with started(gives_later([A], go, [B])) as runner:
        lists = runner.record_lists()
        go.set()
        for _ in range(5):
            await asyncio.sleep(0)
        runner.publish()
        assert lists == ["b"]


async def test_a_discovery_may_end_when_nothing_can_change() -> None:
    async with published(gives(A, ends=True)) as runner:
        await asyncio.sleep(0)
        assert (runner.names, runner.failures) == ("a", [])


@PAUSE
async def test_an_error_after_the_first_list_is_reported_and_the_pool_stays(pause: bool) -> None:
    error = DiscoveryError("gone")
    async with published(gives(A, pause=pause, error=error)) as runner:
        await until(lambda: runner.failures)
        assert (runner.failures, runner.names) == ([error], "a")


# -- the end


async def test_a_stop_ends_the_discovery_and_the_pool_stays() -> None:
    discovery = FakeDiscovery(gives(A))
    runner = Runner(discovery)
    await runner.start()
    runner.publish()
    for _ in range(2):
        await runner.stop()
    assert (discovery.cancelled, runner.names, runner.failures) == (True, "a", [])


async def test_a_stop_before_a_start_does_nothing() -> None:
    runner = Runner(FakeDiscovery(gives(A)))
    await runner.stop()
    assert not runner.pool.discovered


@pytest.mark.parametrize("error", [None, LookupError("oh")], ids=["returns", "raises"])
async def test_what_a_discovery_does_when_it_is_cancelled_changes_nothing(error: Exception | None) -> None:
    async def script(sink: EndpointSink) -> None:
        sink.replace_all([A])
        try:
            await asyncio.Event().wait()
        finally:
            sink.replace_all([B])
            if error is not None:
                raise error

    async with published(script) as runner:
        pass
    assert runner.names == "a"


async def test_a_stop_may_be_cancelled_while_the_discovery_ends() -> None:
    ending = asyncio.Event()

    async def script(sink: EndpointSink) -> None:
        sink.replace_all([A])
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    runner = Runner(FakeDiscovery(script))
    await runner.start()
    stopping = asyncio.create_task(runner.stop())
    await ending.wait()
    stopping.cancel()
    await asyncio.wait([stopping], timeout=2)
    assert stopping.cancelled()


async def test_a_start_may_be_cancelled_before_the_first_list() -> None:
    before = asyncio.all_tasks()
    discovery = FakeDiscovery(hang)
    runner = Runner(discovery)
    starting = asyncio.create_task(runner.start())
    await until(lambda: len(asyncio.all_tasks()) == len(before) + 3)
    starting.cancel()
    await asyncio.wait([starting])
    await runner.stop()
    assert (starting.cancelled(), discovery.cancelled) == (True, True)
    await until(lambda: asyncio.all_tasks() == before)


# -- one runner replaces another over one pool


def replace(before: Runner, after: Runner) -> None:
    before.unpublish()
    after.publish()


async def test_the_next_runner_writes_its_list_in_one_step() -> None:
    async with published(gives(A)) as first, started(gives(B, C), pool=first.pool) as second:
        lists = first.record_lists()
        before = (list(lists), first.names)
        replace(first, second)
        assert (before, lists) == (([], "a"), ["bc"])


async def test_the_pool_follows_the_runner_that_publishes() -> None:
    go = asyncio.Event()
    async with published(gives_later([A], go, [A, B])) as first:
        async with started(gives_later([C], go, [C, A]), pool=first.pool) as second:
            go.set()
            await until(lambda: first.names == "ab")
            replace(first, second)
            assert first.names == "ca"
            first.replace_all([B])  # too late
            assert first.names == "ca"


async def test_a_runner_that_never_publishes_changes_nothing() -> None:
    go = asyncio.Event()
    async with published(gives_later([A], go, [B])) as first:
        async with started(gives(C), A, pool=first.pool):
            pass
        unchanged = first.names
        go.set()
        await until(lambda: first.names == "b")
        assert (unchanged, first.failures) == ("a", [])


async def test_the_previous_runner_s_end_changes_nothing() -> None:
    async with published(gives(A)) as first, started(gives(B), pool=first.pool) as second:
        replace(first, second)
        await first.stop()
        assert (first.names, first.failures) == ("b", [])


@pytest.mark.parametrize("again", [pytest.param(A, id="the same"), pytest.param(make_endpoint("a"), id="an equal one")])
async def test_a_list_that_the_pool_has_already_is_not_written_again(again: Endpoint) -> None:
    async with published(None, A) as first, started(None, again, pool=first.pool) as second:
        lists = first.record_lists()
        replace(first, second)
        assert (lists, first.pool.statuses()[0].endpoint) == ([], A)


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
async def test_a_list_that_differs_is_written_once(after: list[Endpoint]) -> None:
    async with published(None, A, B) as first, started(None, *after, pool=first.pool) as second:
        lists = first.record_lists()
        replace(first, second)
        assert lists == ["".join(endpoint.name for endpoint in after)]
