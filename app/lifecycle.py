"""Starts the parts in order, waits until told to stop, drains, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

log = structlog.get_logger("pointsman")


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Part:
    """Something to start and stop."""

    name: str
    start: Callable[[], Awaitable[None]] = _nothing
    stop: Callable[[], Awaitable[None]] = _nothing


class Lifecycle:
    """The life of the process."""

    def __init__(self, parts: Sequence[Part], *, drain_delay: float) -> None:
        """`drain_delay`: seconds between the first signal, when the process is no longer ready, and stopping."""
        self._parts = tuple(parts)
        self._drain_delay = drain_delay
        self._started: list[Part] = []
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
            log.info("stopping", drain_delay=self._drain_delay)
            await self._unless_in_a_hurry(asyncio.sleep(self._drain_delay))
        finally:
            await self._unless_in_a_hurry(self.stop())
            log.info("stopped")

    def shut_down(self) -> None:
        """What a signal does: the first call drains, a second one ends at once."""
        (self._hurry if self._told.is_set() else self._told).set()

    def not_reloaded(self) -> None:
        """What SIGHUP does, which asks many a server to read its configuration anew: it says that this is not done."""
        log.warning("SIGHUP ignored: the configuration is read at the start only", hint="restart to apply changes")

    async def start(self) -> None:
        """Starts every part, in order."""
        for part in self._parts:
            self._started.append(part)
            await part.start()
        self.started = True

    async def stop(self) -> None:
        """Stops what was started, last first; a part's failure does not keep the others from stopping."""
        while self._started:
            part = self._started.pop()
            try:
                await part.stop()
            except (Exception, asyncio.CancelledError) as error:
                if _is_cancelled():
                    raise
                log.exception("could not stop", part=part.name, error=f"{type(error).__name__}: {error}")

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.shut_down)
        loop.add_signal_handler(signal.SIGHUP, self.not_reloaded)

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
