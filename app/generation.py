"""Everything that follows from one configuration, and how one takes the place of another.

A reload builds a whole generation, starts it, and makes it the current one by one assignment. Requests finish on the
generation they began with; its plugins are stopped after the last of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from app.domain.named import Named
from app.domain.status import EndpointStatus
from app.fleet.discovery import FIRST_LIST, DiscoveryRunner
from app.fleet.monitor import FleetMonitor
from app.fleet.pool import EndpointPool
from app.inheritance import hand_over
from app.lifecycle import lifecycles
from app.routing.pipeline import OpenRoutes
from app.transports.admin.server import AdminPages
from app.transports.http.service import HttpService

log = structlog.get_logger("pointsman.reload")

INITIAL_SCRAPE = 2.0
"""Seconds for the initial scrape of the endpoints, before requests are accepted."""


class Listener(Protocol):
    """Where a generation listens, on sockets of the process."""

    async def bind(self) -> None:
        """Does all that can fail, invisible to clients. Raises `OSError`."""

    async def serve(self) -> None:
        """Accepts connections at the generation's addresses, and at no others."""

    async def abandon(self) -> None:
        """Undoes `bind`."""


class Registries(Protocol):
    """The metrics of a generation's plugins."""

    def publish(self, unchanged: Collection[str]) -> None:
        """Shows them in place of the previous generation's. Counters of the plugins `unchanged` go on."""

    def end(self) -> None:
        """The plugins count no more."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the process asks the current generation for."""

    pool: EndpointPool
    pool_name: str
    """What the pool is called in metrics."""
    http: HttpService
    ext_proc: Any
    """An `ExtProcService`, or None: gRPC is imported only if it is used."""
    admin: AdminPages


class Shutdown(Protocol):
    """Times of stopping, in seconds."""

    @property
    def delay(self) -> float:
        """Between being no longer ready and stopping."""

    @property
    def timeout(self) -> float:
        """For requests in flight to finish."""


class Generation:
    """The running parts of one configuration."""

    def __init__(  # noqa: PLR0913 - the parts of a configuration, by name
        self,
        *,
        plugins: Sequence[Named[Any]],
        open_routes: OpenRoutes,
        discovery: DiscoveryRunner,
        monitor: FleetMonitor,
        services: Services,
        listeners: Sequence[Listener],
        admin_listener: Listener,
        registries: Registries,
        shutdown: Shutdown,
        on_reload: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`on_reload` are called when the generation takes the place of another one; they must not fail."""
        self.plugins = tuple(plugins)
        self.services = services
        self.shutdown = shutdown
        self.admin_listener = admin_listener
        """The admin port alone, which is served before anything else."""
        self._open_routes = open_routes
        self._discovery = discovery
        self._monitor = monitor
        self._listeners = tuple(listeners)
        self._registries = registries
        self._on_reload = tuple(on_reload)
        self._alive = lifecycles(plugins)

    async def start(self, predecessor: Generation | None = None) -> None:
        """Starts the plugins and waits for the first list of endpoints. Nothing serves it yet.

        Raises whatever a plugin raises, and `DiscoveryError`; call `abandon` then.
        """
        if predecessor is not None:
            hand_over(predecessor.plugins, self.plugins)
        await self._alive.start()
        await self._discovery.start(None if predecessor is None else FIRST_LIST)

    async def bind(self) -> None:
        """Binds the addresses that are not bound yet. Raises `OSError`; call `abandon` then."""
        for listener in self._listeners:
            await listener.bind()

    def activate(self, predecessor: Generation | None = None, unchanged: Collection[str] = ()) -> None:
        """Takes over the pool. The generation must be the current one by now."""
        if predecessor is not None:
            predecessor._discovery.unpublish()  # noqa: SLF001 - of the same class
        self._registries.publish(unchanged)
        self._discovery.publish()
        self._monitor.start()
        if predecessor is not None:
            for call in self._on_reload:
                call()

    async def initial_scrape(self) -> None:
        """Waits until each endpoint was scraped once, `INITIAL_SCRAPE` seconds at most."""
        await self._monitor.initial_scrape(INITIAL_SCRAPE)

    async def serve(self) -> None:
        """Accepts connections at the generation's addresses, and at no others."""
        for listener in self._listeners:
            await listener.serve()

    async def retire(self) -> None:
        """Stops what watches the fleet, and the plugins after the last request. Another generation is current."""
        await self._discovery.stop()
        await self._monitor.stop()
        await self._open_routes.ended()
        await self._end()

    async def stop(self) -> None:
        """Stops everything now."""
        await self._monitor.stop()
        await self._discovery.stop()
        await self._end()

    async def abandon(self) -> None:
        """Undoes `start` and `bind`."""
        for listener in self._listeners:
            with suppress(Exception):
                await listener.abandon()
        await self._discovery.stop()
        await self._alive.stop()

    async def _end(self) -> None:
        await self._alive.stop()
        self._registries.end()


class Generations:
    """The current generation, and the previous ones whose requests still run."""

    current: Generation
    """What new requests meet."""

    def __init__(self) -> None:
        self._retiring: dict[asyncio.Task[None], Generation] = {}

    # -- asked by the servers for each connection or request

    def http(self) -> HttpService:
        """What is served over HTTP now."""
        return self.current.services.http

    def ext_proc(self) -> Any:
        """What is served to proxies now; an `ExtProcService`, or None."""
        return self.current.services.ext_proc

    def admin(self) -> AdminPages:
        """What the admin port shows now."""
        return self.current.services.admin

    def is_fresh(self, status: EndpointStatus) -> bool:
        """Whether an endpoint's metrics count now."""
        return self.current.services.pool.is_fresh(status)

    def pool_name(self) -> str:
        """What the pool is called now."""
        return self.current.services.pool_name

    def drain_delay(self) -> float:
        """Seconds between being no longer ready and stopping."""
        return self.current.shutdown.delay

    def shutdown(self) -> Shutdown:
        """The times that hold now."""
        return self.current.shutdown

    # -- the first one, in the order of the process's start

    def begin(self, first: Generation) -> None:
        """Makes `first` the current one, before anything listens."""
        self.current = first

    async def serve_admin(self) -> None:
        """Accepts connections at the admin port. Raises `OSError`."""
        await self.current.admin_listener.bind()
        await self.current.admin_listener.serve()

    async def start(self) -> None:
        """Starts the current one."""
        await self.current.start()
        self.current.activate()
        await self.current.initial_scrape()

    async def serve(self) -> None:
        """Accepts connections everywhere. Raises `OSError`."""
        await self.current.bind()
        await self.current.serve()

    # -- the next one

    async def replace(self, following: Generation, unchanged: Collection[str] = ()) -> None:
        """Starts `following` and makes it the current one. If anything fails, nothing has changed.

        Raises what `Generation.start` and `Generation.bind` raise.
        """
        previous = self.current
        try:
            await following.start(previous)
            await following.bind()
        except BaseException:
            await following.abandon()
            raise
        self.current = following
        following.activate(previous, unchanged)
        self._retire(previous)
        try:
            await following.serve()
        except OSError as error:  # what can fail was done by `bind`; so this is as unlikely as it is too late
            log.exception("could not accept connections", error=str(error))

    async def stop(self) -> None:
        """Stops the current one, and the plugins of those whose requests still run."""
        retiring = dict(self._retiring)
        for task in retiring:
            task.cancel()
        await asyncio.gather(*retiring, return_exceptions=True)
        for generation in (*retiring.values(), self.current):
            await generation.stop()

    def _retire(self, previous: Generation) -> None:
        task = asyncio.create_task(_retire(previous), name="retire")
        self._retiring[task] = previous
        task.add_done_callback(self._retired)

    def _retired(self, task: asyncio.Task[None]) -> None:
        del self._retiring[task]


async def _retire(generation: Generation) -> None:
    try:
        await generation.retire()
    except Exception as error:
        log.exception("could not stop the previous configuration", error=f"{type(error).__name__}: {error}")
