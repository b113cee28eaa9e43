"""Starts the parts in order, waits until told to stop, drains, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import structlog

log = structlog.get_logger("pointsman")


async def _nothing() -> None:
    pass


def _nothing_to_reload() -> None:
    log.warning("SIGHUP ignored: there is no configuration to read anew")


@dataclass(frozen=True, slots=True)
class Part:
    """Something to start and stop."""

    name: str
    start: Callable[[], Awaitable[None]] = _nothing
    stop: Callable[[], Awaitable[None]] = _nothing


class Parts:
    """Parts that start one after the other, and stop in reverse."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._waiting = list(parts)
        self._started: list[Part] = []

    @property
    def started(self) -> tuple[Part, ...]:
        """Those that run."""
        return tuple(self._started)

    async def start(self) -> None:
        """Starts every part, in order. The one that can't start raises; `stop` stops it and those before it."""
        while self._waiting:
            part = self._waiting.pop(0)
            self._started.append(part)
            await part.start()

    async def stop(self, only: Collection[Part] | None = None) -> None:
        """Stops what was started, or `only` some of it, last first; a part's failure keeps no other from stopping."""
        for part in [part for part in reversed(self._started) if only is None or part in only]:
            self._started.remove(part)
            try:
                await part.stop()
            except (Exception, asyncio.CancelledError) as error:
                if _is_cancelled():
                    raise
                log.exception("could not stop", part=part.name, error=f"{type(error).__name__}: {error}")

    def give_away(self, names: Collection[str]) -> tuple[Part, ...]:
        """The running parts of these names, which are no longer this one's to stop."""
        given = tuple(part for part in self._started if part.name in names)
        self._started = [part for part in self._started if part.name not in names]
        return given

    def take(self, running: Sequence[Part]) -> None:
        """Parts that run already come under this one's care, as if started first."""
        self._started = [*running, *self._started]


class Lifecycle:
    """The life of the process."""

    def __init__(
        self, parts: Sequence[Part], *, drain_delay: float, on_hangup: Callable[[], None] = _nothing_to_reload
    ) -> None:
        """`drain_delay`: seconds between the first signal, when the process is no longer ready, and stopping.
        `on_hangup` is called for each SIGHUP."""
        self._parts = Parts(parts)
        self.drain_delay = drain_delay
        self._on_hangup = on_hangup
        self._told = asyncio.Event()
        self._hurry = asyncio.Event()
        self.started = False
        """Whether every part is up."""
        self.draining = False
        """Whether the process was told to stop."""

    async def run(self, ready: Callable[[], None]) -> None:
        """Starts, calls `ready`, and returns when all is stopped again. A part that can't start raises, and those
        before it are stopped."""
        self._listen_to_signals()
        try:
            await self._unless_in_a_hurry(self.start())
            if not self.started:
                return
            ready()
            await self._told.wait()
            self.draining = True
            log.info("stopping", drain_delay=self.drain_delay)
            await self._unless_in_a_hurry(asyncio.sleep(self.drain_delay))
        finally:
            await self._unless_in_a_hurry(self.stop())
            log.info("stopped")

    def shut_down(self) -> None:
        """What a signal does: the first call drains, a second one ends at once."""
        (self._hurry if self._told.is_set() else self._told).set()

    async def start(self) -> None:
        """Starts every part, in order."""
        await self._parts.start()
        self.started = True

    async def stop(self) -> None:
        """Stops what was started, last first; a part's failure does not keep the others from stopping."""
        await self._parts.stop()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.shut_down)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    async def _unless_in_a_hurry(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({task, hurry}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            await task


def _is_cancelled() -> bool:
    """Whether the current task itself is being cancelled, and not one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
