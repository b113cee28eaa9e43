"""Runs the discovery of endpoints and gives the pool what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from app.domain.endpoint import Endpoint
from app.extension.fleet import Discovery
from app.fleet.pool import EndpointPool

WrittenDown = Callable[[], Sequence[Endpoint]]


class DiscoveryRunner:
    """Feeds a pool from endpoints that are written down, and from a discovery plugin if there is one.

    It changes to others without a gap: `prepare` gets their first list, `commit` takes it over.
    """

    def __init__(
        self,
        *,
        pool: EndpointPool,
        static_endpoints: WrittenDown,
        discovery: Discovery | None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`on_failure` is told when discovery ends by an error after its first list; the pool then stays as it is."""
        self._pool = pool
        self._on_failure = on_failure
        self._written_down = static_endpoints
        self._run = _Run(discovery, self._found, on_failure)
        self._next = (static_endpoints, self._run)

    async def start(self) -> None:
        """Returns when the first list is there. Raises `DiscoveryError` if it can't be had."""
        await self._run.begin()
        if not self._pool.discovered:
            self._publish()

    async def stop(self) -> None:
        """Ends discovery; the pool keeps its endpoints."""
        await self._run.end()

    async def prepare(self, static_endpoints: WrittenDown, discovery: Discovery | None) -> None:
        """Gets the first list of what is to come; nothing changes yet. Raises `DiscoveryError` if it can't be had."""
        if discovery is self._run.discovery:
            self._next = (static_endpoints, self._run)
            return
        self._next = (static_endpoints, _Run(discovery, self._found, self._on_failure))
        await self._next[1].begin()

    async def abandon(self) -> None:
        """Drops what was prepared."""
        _, run = self._next
        self._next = (self._written_down, self._run)
        if run is not self._run:
            await run.end()

    def commit(self) -> Callable[[], Awaitable[None]]:
        """Takes over what was prepared. Returns how to end what was before."""
        before = self._run
        self._written_down, self._run = self._next
        endpoints = self._endpoints()
        known = [status.endpoint for status in self._pool.statuses()]
        if len(known) != len(endpoints) or not all(map(Endpoint.same_as, known, endpoints)):
            self._publish()
        return before.end if before is not self._run else _nothing

    def _found(self, run: _Run) -> None:
        if run is self._run:
            self._publish()

    def _publish(self) -> None:
        self._pool.replace_all(self._endpoints())

    def _endpoints(self) -> Sequence[Endpoint]:
        return [*self._written_down(), *self._run.found]


class _Run:
    """One discovery plugin at work; without a plugin it has found nothing at once."""

    def __init__(
        self, discovery: Discovery | None, on_found: Callable[[_Run], None], on_failure: Callable[[Exception], None]
    ) -> None:
        self.discovery = discovery
        self.found: Sequence[Endpoint] = ()
        self._on_found = on_found
        self._on_failure = on_failure
        self._first = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """What discovery has found."""
        self.found = tuple(endpoints)
        self._first.set()
        self._on_found(self)

    async def begin(self) -> None:
        """Returns when the first list is there. Raises `DiscoveryError` if it can't be had."""
        if self.discovery is None:
            return
        self._task = asyncio.create_task(self.discovery.discover(self), name="discovery")
        first = asyncio.create_task(self._first.wait())
        try:
            await asyncio.wait({self._task, first}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            first.cancel()
        if self._task.done() and not self._first.is_set():
            await self._task
        self._task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_failure(error)


async def _nothing() -> None:
    pass
