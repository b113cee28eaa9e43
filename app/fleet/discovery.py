"""Runs the discovery of endpoints and gives the pool what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from app.domain.endpoint import Endpoint
from app.extension.fleet import Discovery
from app.fleet.pool import EndpointPool


class DiscoveryRunner:
    """Feeds a pool from endpoints that are written down, and from a discovery plugin if there is one."""

    def __init__(
        self,
        *,
        pool: EndpointPool,
        written_down: Callable[[], Sequence[Endpoint]],
        discovery: Discovery | None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`on_failure` is told when discovery ends by an error after its first list; the pool then stays as it is."""
        self._pool = pool
        self._written_down = written_down
        self._discovery = discovery
        self._on_failure = on_failure
        self._found: Sequence[Endpoint] = ()
        self._first = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """What discovery has found, besides the endpoints written down."""
        self._found = tuple(endpoints)
        self._pool.replace_all([*self._written_down(), *self._found])
        self._first.set()

    async def start(self) -> None:
        """Returns when the first list is there. Raises `DiscoveryError` if it can't be had."""
        if self._discovery is None:
            self.replace_all(())
            return
        self._task = asyncio.create_task(self._discovery.discover(self), name="discovery")
        first = asyncio.create_task(self._first.wait())
        await asyncio.wait({self._task, first}, return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        if self._task.done() and not self._first.is_set():
            await self._task
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Ends discovery; the pool keeps its endpoints."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_failure(error)
