"""The life of the process: parts start in order, stop in reverse, and none keeps the others from stopping."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import weakref
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.lifecycle import Lifecycle, Part
from app.lifecycle import Parts as RealParts

GUARD = 10


class Parts:
    """Parts `a`, `b` and `c`, which write down what happens to them and fail or hang as they are told."""

    def __init__(self, *, drain_delay: float = 0.0, **troubles: Any) -> None:
        self.happened: list[str] = []
        self.told = asyncio.Queue[str]()
        self._troubles = troubles
        parts = [Part(name, self._does("start", name), self._does("stop", name)) for name in "abc"]
        self.life = Lifecycle(parts, drain_delay=drain_delay)

    def _does(self, what: str, name: str) -> Any:
        async def act() -> None:
            self.note(f"{what} {name}")
            trouble = self._troubles.get(f"{what}_{name}")
            if isinstance(trouble, BaseException):
                raise trouble
            if trouble is not None:
                await trouble.wait()

        return act

    def note(self, what: str) -> None:
        self.happened.append(what)
        self.told.put_nowait(what)

    def ready(self) -> None:
        """What a lifecycle calls when all is up."""
        self.note("ready")
        self.life.shut_down()

    async def until(self, what: str) -> None:
        async with asyncio.timeout(GUARD):
            while await self.told.get() != what:
                pass

    async def run(self) -> None:
        async with asyncio.timeout(GUARD):
            await self.life.run(self.ready)


UP = ["start a", "start b", "start c", "ready"]
DOWN = ["stop c", "stop b", "stop a"]


async def test_parts_start_in_order_and_stop_in_reverse() -> None:
    parts = Parts()
    await parts.run()
    assert parts.happened == UP + DOWN


async def test_a_process_says_how_far_it_is() -> None:
    parts, seen = Parts(), []
    before = (parts.life.started, parts.life.draining)
    parts.note = lambda what: seen.append((what, parts.life.started, parts.life.draining))  # type: ignore[method-assign]
    await parts.run()
    assert (before, seen[2], seen[3]) == ((False, False), ("start c", False, False), ("ready", True, False))
    assert seen[4] == ("stop c", True, True)


async def test_a_part_that_can_t_start_raises_and_those_before_it_are_stopped() -> None:
    parts = Parts(start_b=LookupError("port taken"))
    with pytest.raises(LookupError, match="port taken"):
        await parts.run()
    stopped = [what for what in parts.happened if what.startswith("stop") and what != "stop b"]
    assert (parts.happened[:2], stopped, parts.life.started) == (["start a", "start b"], ["stop a"], False)


@pytest.mark.parametrize(
    "error",
    [pytest.param(LookupError("oh"), id="error"), pytest.param(asyncio.CancelledError(), id="a cancelled task within")],
)
async def test_a_part_that_can_t_stop_does_not_keep_others_from_stopping(error: BaseException) -> None:
    parts = Parts(stop_c=error)
    await parts.run()
    assert parts.happened == UP + DOWN


async def test_parts_that_were_stopped_are_not_stopped_again() -> None:
    parts = Parts()
    await parts.life.start()
    await parts.life.stop()
    await parts.life.stop()
    assert parts.happened == UP[:3] + DOWN


async def test_a_part_may_have_nothing_to_start_or_stop() -> None:
    life = Lifecycle([Part("quiet")], drain_delay=0)
    async with asyncio.timeout(GUARD):
        await life.run(life.shut_down)
    assert life.draining


async def test_a_process_told_to_stop_drains_first() -> None:
    parts = Parts(drain_delay=3600)
    running = asyncio.create_task(parts.run())
    await parts.until("ready")
    await asyncio.sleep(0)
    seen = (parts.life.draining, list(parts.happened))
    parts.life.shut_down()
    await running
    assert seen == (True, UP)


async def test_a_second_call_ends_the_draining() -> None:
    parts = Parts(drain_delay=3600)
    running = asyncio.create_task(parts.run())
    await parts.until("ready")
    parts.life.shut_down()
    await running
    assert parts.happened[:5] == [*UP, "stop c"]


async def test_a_second_call_ends_a_stop_that_hangs() -> None:
    parts = Parts(stop_c=asyncio.Event())
    running = asyncio.create_task(parts.run())
    await parts.until("stop c")
    parts.life.shut_down()
    await running
    assert parts.happened == [*UP, "stop c"]


async def test_a_second_call_ends_a_start_that_hangs() -> None:
    parts = Parts(start_b=asyncio.Event())
    running = asyncio.create_task(parts.run())
    await parts.until("start b")
    parts.life.shut_down()
    parts.life.shut_down()
    done, _ = await asyncio.wait([running], timeout=0.2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert done


async def test_a_process_told_to_stop_while_it_starts_stops_once_it_is_up() -> None:
    go = asyncio.Event()
    parts = Parts(start_b=go)
    running = asyncio.create_task(parts.life.run(lambda: parts.note("ready")))
    await parts.until("start b")
    parts.life.shut_down()
    go.set()
    async with asyncio.timeout(GUARD):
        await running
    assert parts.happened == UP + DOWN


async def test_a_cancelled_process_stops_what_it_started() -> None:
    parts = Parts(drain_delay=3600)
    running = asyncio.create_task(parts.run())
    await parts.until("ready")
    running.cancel()
    await asyncio.wait([running])
    assert (running.cancelled(), parts.happened) == (True, UP + DOWN)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_process(number: signal.Signals) -> None:
    parts = Parts()
    async with asyncio.timeout(GUARD):
        await parts.life.run(lambda: os.kill(os.getpid(), number))
    assert parts.happened == UP[:3] + DOWN


# -- SIGHUP


async def test_a_hangup_ends_nothing_and_is_told_each_time() -> None:
    calls: list[str] = []
    life = Lifecycle([Part("quiet")], drain_delay=0, on_hangup=lambda: calls.append("hangup"))
    running = asyncio.create_task(life.run(lambda: None))
    async with asyncio.timeout(GUARD):
        while not life.started:
            await asyncio.sleep(0)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            while len(calls) < count:
                await asyncio.sleep(0)
        draining = life.draining
        life.shut_down()
        await running
    assert (calls, draining) == (["hangup", "hangup"], False)


async def test_a_process_that_can_reload_nothing_says_so_and_goes_on() -> None:
    life = Lifecycle([Part("quiet")], drain_delay=0)
    with capture_logs() as logs:
        async with asyncio.timeout(GUARD):
            running = asyncio.create_task(life.run(lambda: os.kill(os.getpid(), signal.SIGHUP)))
            while not logs:
                await asyncio.sleep(0)
            life.shut_down()
            await running
    assert logs[0]["event"].startswith("SIGHUP ignored")


# -- parts that come and go


class Noting:
    """Parts that write down what happens to them."""

    def __init__(self, names: str, **troubles: Any) -> None:
        self.happened: list[str] = []
        self._troubles = troubles
        self.parts = [Part(name, self._does("start", name), self._does("stop", name)) for name in names]

    def _does(self, what: str, name: str) -> Any:
        async def act() -> None:
            self.happened.append(f"{what} {name}")
            trouble = self._troubles.get(f"{what}_{name}")
            if isinstance(trouble, BaseException):
                raise trouble
            if trouble is not None:
                await trouble.wait()

        return act


async def test_only_some_of_the_parts_may_be_stopped() -> None:
    noting = Noting("abcd")
    parts = RealParts(noting.parts)
    await parts.start()
    await parts.stop([noting.parts[0], noting.parts[2]])
    assert (noting.happened[4:], [part.name for part in parts.started]) == (["stop c", "stop a"], ["b", "d"])
    await parts.stop()
    assert noting.happened[6:] == ["stop d", "stop b"]


async def test_of_two_parts_of_one_name_the_one_that_is_meant_is_stopped() -> None:
    old, new = Noting("a"), Noting("a")
    parts, fresh = RealParts(old.parts), RealParts(new.parts)
    await parts.start()
    await fresh.start()
    parts.take(fresh.give_away({"a"}))
    await parts.stop(old.parts)
    assert (old.happened, new.happened, fresh.started) == (["start a", "stop a"], ["start a"], ())
    await parts.stop()
    assert new.happened == ["start a", "stop a"]


async def test_parts_whose_stop_is_broken_off_are_still_there_to_be_stopped() -> None:
    noting = Noting("abc", stop_c=asyncio.Event())
    parts = RealParts(noting.parts)
    await parts.start()
    stopping = asyncio.create_task(parts.stop())
    while "stop c" not in noting.happened:
        await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    await parts.stop()
    assert noting.happened[3:] == ["stop c", "stop b", "stop a"]


async def test_a_part_that_is_given_away_is_no_longer_stopped() -> None:
    noting = Noting("ab")
    parts, others = RealParts(noting.parts), RealParts(())
    await parts.start()
    others.take(parts.give_away({"a", "nobody"}))
    await parts.stop()
    assert (noting.happened[2:], [part.name for part in others.started]) == (["stop b"], ["a"])


async def test_a_part_that_was_stopped_is_not_kept_alive() -> None:
    noting = Noting("a")
    parts = RealParts(noting.parts)
    await parts.start()
    await parts.stop()
    part = weakref.ref(noting.parts.pop().start)
    gc.collect()
    assert part() is None
