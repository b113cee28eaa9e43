"""Runs the discovery of endpoints and writes what it finds to the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.domain.endpoint import Endpoint
from app.extension.fleet import Discovery, DiscoveryError
from app.fleet.pool import EndpointPool

FIRST_LIST = 10.0
"""Seconds that a discovery plugin has for its first list when it replaces another one."""


class DiscoveryRunner:
    """Combines the static endpoints with those that a discovery plugin finds.

    `start` waits for the first list; the pool has it from `publish` on, and each later list at once.
    """

    def __init__(
        self,
        *,
        pool: EndpointPool,
        static: Callable[[], Sequence[Endpoint]],
        discovery: Discovery | None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`static` gives the configured endpoints. `on_failure` is called if the plugin fails after its first list;
        the pool then stays as it is."""
        self._pool = pool
        self._static = static
        self._discovery = discovery
        self._on_failure = on_failure
        self._found: Sequence[Endpoint] = ()
        self._has_first = asyncio.Event()
        self._published = False
        self._task: asyncio.Task[None] | None = None

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """Takes a list from the discovery plugin."""
        self._found = tuple(endpoints)
        self._has_first.set()
        if self._published:
            self.publish()

    async def start(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Returns when the first list is there. Raises `DiscoveryError` if it can't be read, or not within `timeout`
        seconds."""
        if self._discovery is None:
            return
        self._task = asyncio.create_task(self._discovery.discover(self), name="discovery")
        first = asyncio.create_task(self._has_first.wait())
        try:
            done, _ = await asyncio.wait({self._task, first}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            first.cancel()
        if not done:
            raise DiscoveryError(f"no endpoints within {timeout:g} s")
        if self._task.done() and not self._has_first.is_set():
            await self._task
        self._task.add_done_callback(self._ended)

    def publish(self) -> None:
        """Writes the endpoints to the pool, unless it has just these."""
        self._published = True
        endpoints = [*self._static(), *self._found]
        known = [status.endpoint for status in self._pool.statuses()]
        same = len(known) == len(endpoints) and all(map(Endpoint.same_as, known, endpoints))
        if not same or not self._pool.discovered:
            self._pool.replace_all(endpoints)

    def unpublish(self) -> None:
        """From now on another runner writes the pool."""
        self._published = False

    async def stop(self) -> None:
        """Ends discovery; the pool keeps its endpoints."""
        self.unpublish()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_failure(error)
