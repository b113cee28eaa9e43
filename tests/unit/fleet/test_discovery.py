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

    def __init__(self, discovery: FakeDiscovery | None, *written_down: Endpoint) -> None:
        self.pool = EndpointPool(clock=FakeClock(), in_flight=lambda _: 0)
        self.failures: list[Exception] = []
        self.written_down = list(written_down)
        self.failed = asyncio.Event()
        self.runner = DiscoveryRunner(
            pool=self.pool, written_down=lambda: self.written_down, discovery=discovery, on_failure=self.fail
        )

    def fail(self, error: Exception) -> None:
        self.failures.append(error)
        self.failed.set()

    @property
    def names(self) -> tuple[str, ...]:
        return self.pool.candidates().names


@asynccontextmanager
async def started(script: Callable[[EndpointSink], Any] | None, *written_down: Endpoint) -> AsyncIterator[Running]:
    running = Running(FakeDiscovery(script) if script else None, *written_down)
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
    again = asyncio.Event()

    async def script(sink: EndpointSink) -> None:
        sink.replace_all([C])
        await again.wait()
        sink.replace_all([C])
        await asyncio.Event().wait()

    async with started(script, A) as running:
        running.written_down[:] = [B]
        again.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running.names == ("b", "c")


async def test_it_changes_to_another_discovery_without_a_gap() -> None:
    async with started(gives(C), A) as running:
        before = running.runner
        await before.prepare(lambda: [B], FakeDiscovery(gives(A)))
        assert running.names == ("a", "c")
        end = before.commit()
        assert running.names == ("b", "a")
        await end()


async def test_what_was_prepared_and_abandoned_changes_nothing() -> None:
    async with started(gives(C), A) as running:
        await running.runner.prepare(lambda: [B], FakeDiscovery(gives(B)))
        await running.runner.abandon()
        running.runner.commit()
        assert running.names == ("a", "c")


async def test_a_discovery_that_can_not_be_prepared_leaves_the_old_one() -> None:
    async def script(_: EndpointSink) -> None:
        raise DiscoveryError("no such file")

    async with started(gives(C), A) as running:
        with pytest.raises(DiscoveryError, match="no such file"):
            await running.runner.prepare(list, FakeDiscovery(script))
        await running.runner.abandon()
        assert running.names == ("a", "c")


async def test_the_same_discovery_goes_on_with_what_it_found() -> None:
    async with started(gives(C), A) as running:
        await running.runner.prepare(lambda: [B], running.runner._run.discovery)
        await running.runner.commit()()
        assert running.names == ("b", "c")


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
