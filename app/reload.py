"""Reloads the configuration while requests go on: all of it, or nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog

from app.extension import DiscoveryError
from app.settings.errors import ConfigurationError, Fault, UsageError
from app.watching import Contents, contents, file_changes

log = structlog.get_logger("pointsman.reload")

T = TypeVar("T")
R = TypeVar("R")

STOPPED = "the process is stopping"


class NeedsRestartError(Exception):
    """The process read these settings when it started, and can't change them while it runs."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self.keys = keys

    def __str__(self) -> str:
        return f"needs restart: {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """How a reload went."""

    at: float
    """Seconds since the epoch."""
    done: bool
    """Whether the configuration that was loaded is in effect."""
    changed: bool = False
    """Whether it differs from the previous one."""
    reasons: Sequence[str] = ()
    """Why it was refused, one line each."""
    warnings: Sequence[Fault] = ()

    def __str__(self) -> str:
        if not self.done:
            return "\n".join(("the configuration was not applied; the last good one stays in effect", *self.reasons))
        lines = [str(warning) for warning in self.warnings]
        return "\n".join([*lines, "the configuration was applied" if self.changed else "nothing has changed"])


@dataclass(frozen=True, slots=True)
class Watching:
    """What is watched now."""

    enabled: bool
    """Whether changes of files are noticed."""
    files: Collection[Path]
    settle: float
    """Seconds that files must stay unchanged before they are read."""


class Reloader(Generic[T]):
    """Loads the configuration again and applies it; one that can't be used changes nothing."""

    def __init__(
        self,
        *,
        load: Callable[[], tuple[T, Sequence[Fault]]],
        apply: Callable[[T], Awaitable[bool]],
        watching: Callable[[], Watching],
        on_result: Callable[[ReloadResult], None],
    ) -> None:
        """`load` gives the next configuration and its warnings; it runs in a thread. `apply` puts it into effect and
        returns whether anything changed. Both may raise. `watching` is asked again after each reload."""
        self._load = load
        self._apply = apply
        self._watching = watching
        self._on_result = on_result
        self._known = contents(watching().files)  # now, since files may change while the process starts
        self._one_at_a_time = asyncio.Lock()
        self._started = asyncio.Event()
        self._reloaded = asyncio.Event()
        self._stopped = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.last: ReloadResult | None = None
        """How the last reload went."""

    async def reload(self) -> ReloadResult:
        """Applies the configuration as it is now, or reports why not. Never raises for a fault in it.

        Waits until the process has started. Once it is stopping, nothing is applied.
        """
        work = self._spawn(self._in_turn())
        await asyncio.wait({work})
        return ReloadResult(time.time(), done=False, reasons=[STOPPED]) if work.cancelled() else work.result()

    async def report(self) -> tuple[str, bool]:
        """Reloads; returns a text and whether the configuration is in effect now."""
        result = await self.reload()
        return f"{result}\n", result.done

    def request(self) -> None:
        """Reloads in the background: what SIGHUP does."""
        self._spawn(self.reload())

    async def start(self) -> None:
        """Allows reloads, and watches the files."""
        self._started.set()
        self._spawn(self._follow())

    async def stop(self) -> None:
        """Stops watching, and ends a reload that is running."""
        self._stopped = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_turn(self) -> ReloadResult:
        await self._started.wait()
        async with self._one_at_a_time:
            now = time.time()
            result = ReloadResult(now, done=False, reasons=[STOPPED]) if self._stopped else await self._reload(now)
            self.last = result
            self._reloaded.set()
            self._on_result(result)
            return result

    async def _reload(self, now: float) -> ReloadResult:
        try:
            loaded, warnings = await asyncio.to_thread(self._load)
            changed = await self._apply(loaded)
        except ConfigurationError as error:
            return ReloadResult(now, done=False, reasons=[str(fault) for fault in error.faults])
        except (UsageError, NeedsRestartError, DiscoveryError, OSError) as error:
            return ReloadResult(now, done=False, reasons=[str(error)])
        except (Exception, SystemExit) as error:  # whatever a plugin raises: the last good configuration stays
            log.exception("reload failed")
            return ReloadResult(now, done=False, reasons=[f"{type(error).__name__}: {error}"])
        return ReloadResult(now, done=True, changed=changed, warnings=warnings)

    async def _follow(self) -> None:
        known: Contents | None = self._known
        while not self._watching().enabled:
            self._reloaded.clear()
            await self._reloaded.wait()
            known = None
        async for _ in file_changes(lambda: self._watching().files, lambda: self._watching().settle, known):
            if self._watching().enabled:
                await self._in_turn()

    def _spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
