"""Takes over a changed configuration while requests go on: all of it, or nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog

from app.extension import DiscoveryError
from app.settings.errors import ConfigurationError, Fault, UsageError
from app.watching import contents, file_changes

log = structlog.get_logger("pointsman.reload")

T = TypeVar("T")
R = TypeVar("R")

STOPPED = "the process is stopping"


async def _nothing() -> None:
    pass


def _no_change() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Step:
    """What one part has to do with a change. Every step is prepared before the first is committed."""

    name: str
    prepare: Callable[[], Awaitable[None]] = _nothing
    """Does all that can fail, and changes nothing that requests meet."""
    abandon: Callable[[], Awaitable[None]] = _nothing
    """Undoes `prepare`, also one that failed."""
    commit: Callable[[], None] = _no_change
    """Takes over what was prepared; must not fail."""
    retire: Callable[[], Awaitable[None]] = _nothing
    """Ends what was before, after the commit and apart from requests."""


class NeedsRestartError(Exception):
    """What changed can't be taken over by a running process."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self.keys = keys

    def __str__(self) -> str:
        return f"needs restart: {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a reload went."""

    at: float
    """Seconds since the epoch."""
    done: bool
    """Whether what was loaded holds now."""
    changed: bool = False
    """Whether it differs from what held before."""
    reasons: Sequence[str] = ()
    """Why it was refused, a line each."""
    warnings: Sequence[Fault] = ()

    def __str__(self) -> str:
        if not self.done:
            return "\n".join(("the configuration was not taken over; the last good one holds", *self.reasons))
        lines = [str(warning) for warning in self.warnings]
        return "\n".join([*lines, "the configuration was taken over" if self.changed else "nothing has changed"])


class Reloader(Generic[T]):
    """Loads, prepares the next state of every part, and swaps it in; what can't be used changes nothing."""

    def __init__(
        self,
        *,
        load: Callable[[], tuple[T, Sequence[Fault]]],
        steps: Callable[[T], Sequence[Step] | None],
        files: Callable[[], Collection[Path]],
        settle: Callable[[], float],
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        """`load` gives the next configuration and its warnings; it runs in a thread. `steps` are what it takes to get
        there, None when nothing has changed. `files` are what is watched, `settle` how many seconds they must rest."""
        self._load = load
        self._steps = steps
        self._files = files
        self._settle = settle
        self._on_outcome = on_outcome
        self._known = contents(files())  # now, since they may change while the process starts
        self._one_at_a_time = asyncio.Lock()
        self._started = asyncio.Event()
        self._stopped = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.last: Outcome | None = None
        """How the last reload went."""

    async def reload(self) -> Outcome:
        """Takes over the configuration as it is now, or says why not. Never raises for what is wrong in it.

        While the process starts this waits until it is up; once it stops nothing is taken over.
        """
        work = self._spawn(self._in_turn())
        await asyncio.wait({work})
        return Outcome(time.time(), done=False, reasons=[STOPPED]) if work.cancelled() else work.result()

    def request(self) -> None:
        """Reloads in the background: what SIGHUP does."""
        self._spawn(self.reload())

    async def start(self, *, watch: bool) -> None:
        """Lets reloads begin. Watches the files, if asked to."""
        self._started.set()
        if watch:
            self._spawn(self._follow())

    async def stop(self) -> None:
        """Stops watching, and ends a reload that is under way, and what is still being retired."""
        self._stopped = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_turn(self) -> Outcome:
        await self._started.wait()
        async with self._one_at_a_time:
            now = time.time()
            outcome = Outcome(now, done=False, reasons=[STOPPED]) if self._stopped else await self._reload(now)
            self.last = outcome
            self._on_outcome(outcome)
            return outcome

    async def _reload(self, now: float) -> Outcome:
        try:
            loaded, warnings = await asyncio.to_thread(self._load)
            steps = self._steps(loaded)
            if steps is None:
                return Outcome(now, done=True, warnings=warnings)
            await _prepare(steps)
        except ConfigurationError as error:
            return Outcome(now, done=False, reasons=[str(fault) for fault in error.faults])
        except (UsageError, NeedsRestartError, DiscoveryError, OSError) as error:
            return Outcome(now, done=False, reasons=[str(error)])
        except (Exception, SystemExit) as error:  # whatever a plugin raises: the last good configuration holds
            log.exception("reload failed")
            return Outcome(now, done=False, reasons=[f"{type(error).__name__}: {error}"])
        for step in steps:
            step.commit()
        self._spawn(_retire(steps))
        return Outcome(now, done=True, changed=True, warnings=warnings)

    async def _follow(self) -> None:
        async for _ in file_changes(self._files, self._settle, self._known):
            await self._in_turn()

    def _spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _prepare(steps: Sequence[Step]) -> None:
    begun: list[Step] = []
    try:
        for step in steps:
            begun.append(step)
            await step.prepare()
    except BaseException:
        for step in reversed(begun):
            with suppress(Exception):
                await step.abandon()
        raise


async def _retire(steps: Sequence[Step]) -> None:
    for step in reversed(steps):
        try:
            await step.retire()
        except Exception as error:  # one part's failure does not keep the others from ending
            log.exception("could not end what was before", part=step.name, error=f"{type(error).__name__}: {error}")
