"""The life of the process: components start in order and stop in reverse, and a failing one does not stop the others
from stopping."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.lifecycle import Component, Components, ProcessRunner, ProcessState

GUARD = 10


class Recorded:
    """Components `a`, `b` and `c`, which record what happens to them.

    `troubles`, such as `start_b`, are exceptions to raise or events to wait for.
    """

    def __init__(self, **troubles: Any) -> None:
        self.happened: list[str] = []
        self.on_record: Callable[[str], None] = lambda _: None
        self._news = asyncio.Queue[str]()
        self._troubles = troubles
        self.components = [Component(name, self._does("start", name), self._does("stop", name)) for name in "abc"]

    def _does(self, what: str, name: str) -> Any:
        async def act() -> None:
            self.record(f"{what} {name}")
            trouble = self._troubles.get(f"{what}_{name}")
            if isinstance(trouble, BaseException):
                raise trouble
            if trouble is not None:
                await trouble.wait()

        return act

    def record(self, what: str) -> None:
        self.happened.append(what)
        self._news.put_nowait(what)
        self.on_record(what)

    async def until(self, what: str) -> None:
        async with asyncio.timeout(GUARD):
            while await self._news.get() != what:
                pass


class Process(Recorded):
    """A process of these components that is shut down as soon as it is ready."""

    def __init__(self, *, drain_delay: float = 0.0, **troubles: Any) -> None:
        super().__init__(**troubles)
        self.drain_delay = drain_delay
        self.runner = ProcessRunner(self.components, drain_delay=lambda: self.drain_delay)

    @property
    def state(self) -> ProcessState:
        return self.runner.state

    def ready(self) -> None:
        """What the runner calls when everything is up."""
        self.record("ready")
        self.runner.shut_down()

    async def run(self) -> None:
        async with asyncio.timeout(GUARD):
            await self.runner.run(self.ready)


UP = ["start a", "start b", "start c", "ready"]
DOWN = ["stop c", "stop b", "stop a"]
FAILURES = [
    pytest.param(LookupError("oh"), id="error"),
    pytest.param(asyncio.CancelledError(), id="a task of the component was cancelled"),
]


async def test_components_start_in_order_and_stop_in_reverse() -> None:
    process = Process()
    await process.run()
    assert process.happened == UP + DOWN


async def test_the_state_says_how_far_the_process_is() -> None:
    process, seen = Process(), []
    before = (process.state.started, process.state.draining)
    process.on_record = lambda what: seen.append((what, process.state.started, process.state.draining))
    await process.run()
    assert (before, seen[2], seen[3]) == ((False, False), ("start c", False, False), ("ready", True, False))
    assert seen[4] == ("stop c", True, True)


async def test_a_state_that_is_passed_in_is_kept_up_to_date() -> None:
    state = ProcessState()
    runner = ProcessRunner([], drain_delay=lambda: 0, state=state)
    async with asyncio.timeout(GUARD):
        await runner.run(runner.shut_down)
    assert (runner.state, state.started, state.draining) == (state, True, True)


@pytest.mark.parametrize("draining", [True, False])
@pytest.mark.parametrize("discovered", [True, False])
@pytest.mark.parametrize("started", [True, False])
def test_a_process_is_ready_if_all_conditions_hold(started: bool, discovered: bool, draining: bool) -> None:
    state = ProcessState(lambda: discovered)
    state.started, state.draining = started, draining
    assert state.conditions() == {"started": started, "discovered": discovered, "not draining": not draining}
    assert state.ready() is (started and discovered and not draining)


async def test_if_a_component_can_t_start_it_and_those_before_it_are_stopped() -> None:
    process = Process(start_b=LookupError("port taken"))
    with pytest.raises(LookupError, match="port taken"):
        await process.run()
    assert (process.happened, process.state.started) == (["start a", "start b", "stop b", "stop a"], False)


@pytest.mark.parametrize("error", FAILURES)
async def test_a_component_that_fails_to_stop_does_not_keep_the_others_from_stopping(error: BaseException) -> None:
    process = Process(stop_c=error)
    with capture_logs() as logs:
        await process.run()
    assert process.happened == UP + DOWN
    assert [line["component"] for line in logs if line["event"] == "could not stop"] == ["c"]


async def test_a_component_may_have_nothing_to_start_or_stop() -> None:
    runner = ProcessRunner([Component("quiet")], drain_delay=lambda: 0)
    async with asyncio.timeout(GUARD):
        await runner.run(runner.shut_down)
    assert runner.state.draining


# -- shutting down


async def test_the_process_drains_before_it_stops() -> None:
    process = Process(drain_delay=3600)
    running = asyncio.create_task(process.run())
    await process.until("ready")
    await asyncio.sleep(0)
    seen = (process.state.draining, list(process.happened))
    process.runner.shut_down()
    await running
    assert seen == (True, UP)


async def test_the_drain_delay_is_the_one_at_the_first_signal() -> None:
    process = Process(drain_delay=3600)
    running = asyncio.create_task(process.runner.run(lambda: process.record("ready")))
    await process.until("ready")
    process.drain_delay = 0
    process.runner.shut_down()
    async with asyncio.timeout(GUARD):
        await running
    assert process.happened == UP + DOWN


@pytest.mark.parametrize(
    ("given", "until", "happened"),
    [
        pytest.param({"drain_delay": 3600}, "ready", [*UP, *DOWN], id="while draining"),
        pytest.param({"stop_c": asyncio.Event}, "stop c", [*UP, "stop c"], id="while a stop hangs"),
    ],
)
async def test_a_second_signal_ends_the_wait(given: dict[str, Any], until: str, happened: list[str]) -> None:
    process = Process(**{name: value() if callable(value) else value for name, value in given.items()})
    running = asyncio.create_task(process.run())
    await process.until(until)
    process.runner.shut_down()
    await running
    assert process.happened == happened


async def test_two_signals_end_a_start_that_hangs() -> None:
    process = Process(start_b=asyncio.Event())
    running = asyncio.create_task(process.run())
    await process.until("start b")
    process.runner.shut_down()
    process.runner.shut_down()
    done, _ = await asyncio.wait([running], timeout=0.2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert done


async def test_a_signal_during_the_start_stops_the_process_once_it_is_up() -> None:
    go = asyncio.Event()
    process = Process(start_b=go)
    running = asyncio.create_task(process.runner.run(lambda: process.record("ready")))
    await process.until("start b")
    process.runner.shut_down()
    go.set()
    async with asyncio.timeout(GUARD):
        await running
    assert process.happened == UP + DOWN


async def test_a_cancelled_process_stops_what_it_started() -> None:
    process = Process(drain_delay=3600)
    running = asyncio.create_task(process.run())
    await process.until("ready")
    running.cancel()
    await asyncio.wait([running])
    assert (running.cancelled(), process.happened) == (True, UP + DOWN)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_process(number: signal.Signals) -> None:
    process = Process()
    async with asyncio.timeout(GUARD):
        await process.runner.run(lambda: os.kill(os.getpid(), number))
    assert process.happened == UP[:3] + DOWN


# -- SIGHUP


async def test_each_hangup_is_passed_on_and_stops_nothing() -> None:
    calls: list[str] = []
    runner = ProcessRunner([], drain_delay=lambda: 0, on_hangup=lambda: calls.append("hangup"))
    running = asyncio.create_task(runner.run(lambda: None))
    async with asyncio.timeout(GUARD):
        while not runner.state.started:
            await asyncio.sleep(0)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            while len(calls) < count:
                await asyncio.sleep(0)
        draining = runner.state.draining
        runner.shut_down()
        await running
    assert (calls, draining) == (["hangup", "hangup"], False)


async def test_a_process_with_nothing_to_reload_logs_a_hangup_and_goes_on() -> None:
    runner = ProcessRunner([], drain_delay=lambda: 0)
    with capture_logs() as logs:
        async with asyncio.timeout(GUARD):
            running = asyncio.create_task(runner.run(lambda: os.kill(os.getpid(), signal.SIGHUP)))
            while not logs:
                await asyncio.sleep(0)
            runner.shut_down()
            await running
    assert logs[0]["event"].startswith("SIGHUP ignored")


# -- components by themselves


async def test_the_names_are_those_of_the_running_components() -> None:
    recorded = Recorded()
    components, names = Components(recorded.components), []
    recorded.on_record = lambda _: names.append("".join(components.started))
    await components.start()
    await components.stop()
    assert (names, components.started) == (["a", "ab", "abc", "ab", "a", ""], ())


async def test_components_are_stopped_only_once() -> None:
    recorded = Recorded()
    components = Components(recorded.components)
    await components.start()
    await components.stop()
    await components.stop()
    assert recorded.happened == UP[:3] + DOWN


async def test_components_that_were_not_started_are_not_stopped() -> None:
    recorded = Recorded()
    await Components(recorded.components).stop()
    assert recorded.happened == []


async def test_a_stop_that_was_cancelled_can_be_finished() -> None:
    recorded = Recorded(stop_c=asyncio.Event())
    components = Components(recorded.components)
    await components.start()
    stopping = asyncio.create_task(components.stop())
    await recorded.until("stop c")
    stopping.cancel()
    await asyncio.wait([stopping])
    await components.stop()
    assert (stopping.cancelled(), recorded.happened[3:]) == (True, DOWN)


@pytest.mark.parametrize("error", FAILURES)
async def test_after_a_cancelled_start_all_components_are_stopped(error: BaseException) -> None:
    recorded = Recorded(start_c=asyncio.Event(), stop_b=error)
    components = Components(recorded.components)

    async def run() -> None:
        try:
            await components.start()
        finally:
            await components.stop()

    running = asyncio.create_task(run())
    await recorded.until("start c")
    running.cancel()
    await asyncio.wait([running])
    assert (running.cancelled(), recorded.happened[3:]) == (True, DOWN)


async def test_a_stopped_component_is_not_kept_alive() -> None:
    recorded = Recorded()
    components = Components(recorded.components)
    await components.start()
    await components.stop()
    component = weakref.ref(recorded.components.pop().start)
    gc.collect()
    assert component() is None
