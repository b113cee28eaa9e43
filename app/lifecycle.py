"""Starts components in order, waits for a signal, drains, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from app.domain.named import Named
from app.extension import Lifecycle

log = structlog.get_logger("pointsman")


async def nothing() -> None:
    """For a component with nothing to start or stop."""


def _nothing_to_reload() -> None:
    log.warning("SIGHUP ignored: this command has no configuration to reload")


@dataclass(frozen=True, slots=True)
class Component:
    """Something to start and stop."""

    name: str
    start: Callable[[], Awaitable[None]] = nothing
    stop: Callable[[], Awaitable[None]] = nothing


class Components:
    """Components that start one after the other, and stop in reverse."""

    def __init__(self, components: Iterable[Component]) -> None:
        self._waiting = list(components)
        self._started: list[Component] = []

    @property
    def started(self) -> tuple[str, ...]:
        """Names of those that run, in the order they started."""
        return tuple(component.name for component in self._started)

    async def start(self) -> None:
        """Starts every component, in order. If one raises, `stop` stops it and those before it."""
        while self._waiting:
            component = self._waiting.pop(0)
            self._started.append(component)
            await component.start()

    async def stop(self) -> None:
        """Stops what was started, last first. A failure is logged and does not keep the others from stopping."""
        cancellations = _cancellations()
        while self._started:
            component = self._started.pop()
            try:
                await component.stop()
            except (Exception, asyncio.CancelledError) as error:
                if _cancellations() > cancellations:
                    raise
                log.exception("could not stop", component=component.name, error=f"{type(error).__name__}: {error}")


def lifecycles(plugins: Iterable[Named[Any]]) -> Components:
    """Those of the plugins that start and stop."""
    return Components(
        Component(name, plugin.start, plugin.stop) for name, plugin in plugins if isinstance(plugin, Lifecycle)
    )


class ProcessState:
    """How far the process is."""

    def __init__(self, discovered: Callable[[], bool] = lambda: True) -> None:
        """`discovered`: whether a first list of endpoints is known."""
        self._discovered = discovered
        self.started = False
        """Whether every component is up."""
        self.draining = False
        """Whether the process is stopping."""

    def conditions(self) -> Mapping[str, bool]:
        """What must hold for requests to be sent here, and whether it does."""
        return {"started": self.started, "discovered": self._discovered(), "not draining": not self.draining}

    def ready(self) -> bool:
        """Whether all conditions hold."""
        return all(self.conditions().values())


class ProcessRunner:
    """Runs the process."""

    def __init__(
        self,
        components: Iterable[Component],
        *,
        drain_delay: Callable[[], float],
        on_hangup: Callable[[], None] = _nothing_to_reload,
        state: ProcessState | None = None,
    ) -> None:
        """`drain_delay` gives the seconds between the first signal, when the process is no longer ready, and stopping.
        `on_hangup` is called for each SIGHUP."""
        self._components = Components(components)
        self._drain_delay = drain_delay
        self._on_hangup = on_hangup
        self._signalled = asyncio.Event()
        self._hurry = asyncio.Event()
        self.state = state or ProcessState()

    async def run(self, ready: Callable[[], None]) -> None:
        """Starts, calls `ready`, and returns when everything is stopped again. If a component can't start, that raises
        and those before it are stopped."""
        self._listen_to_signals()
        try:
            await self._unless_in_a_hurry(self.start())
            if not self.state.started:
                return
            ready()
            await self._signalled.wait()
            self.state.draining = True
            delay = self._drain_delay()
            log.info("stopping", drain_delay=delay)
            await self._unless_in_a_hurry(asyncio.sleep(delay))
        finally:
            await self._unless_in_a_hurry(self.stop())
            log.info("stopped")

    def shut_down(self) -> None:
        """What a signal does: the first call drains, a second one ends at once."""
        (self._hurry if self._signalled.is_set() else self._signalled).set()

    async def start(self) -> None:
        """Starts every component, in order."""
        await self._components.start()
        self.state.started = True

    async def stop(self) -> None:
        """Stops what was started, last first."""
        await self._components.stop()

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


def _cancellations() -> int:
    """How often the current task itself was cancelled; a task that it waits for does not count."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
