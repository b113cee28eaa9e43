"""Watches every endpoint: scrapes its metrics, lists its models, checks whether it accepts connections."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics
from app.domain.status import EndpointStatus
from app.extension.fleet import Extractor, MetricsSource, ScrapeError
from app.extension.services import Clock, Random
from app.fleet.pool import EndpointPool
from app.fleet.probe import is_ours

SPREAD = 0.1
"""Share of the interval by which scrapes are spread, so that endpoints are not all scraped at once."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A metrics source and the extractors that read its data."""

    source: MetricsSource
    extractors: Sequence[Extractor]


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """Times in seconds."""

    interval: float = 1.0
    """Between two scrapes of an endpoint."""
    timeout: float = 1.0
    """Of one scrape, model list or connection."""
    models_interval: float = 10.0
    """Between two reads of an endpoint's model list; 0 never reads it."""


class FleetMonitor:
    """One task per endpoint of the pool, kept in step with the pool's list."""

    def __init__(  # noqa: PLR0913 - collaborators, each of them needed
        self,
        *,
        pool: EndpointPool,
        bindings: Sequence[Binding],
        list_models: Callable[[Endpoint, float], Awaitable[frozenset[str] | None]],
        probe: Callable[[Endpoint, float], Awaitable[None]],
        clock: Clock,
        random: Random,
        options: MonitorOptions,
        on_change: Callable[[Endpoint, str], None] = lambda _endpoint, _change: None,
    ) -> None:
        """`list_models` reads an endpoint's models, None if it has no list. `probe` connects to an endpoint or raises
        `OSError`. `on_change` is called when an endpoint goes down, comes up, or its metrics become unreadable."""
        self._pool = pool
        self._bindings = tuple(bindings)
        self._list_models = list_models
        self._probe = probe
        self._clock = clock
        self._random = random
        self._options = options
        self._on_change = on_change
        self._watches: dict[str, _Watch] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._running = False

    def start(self) -> None:
        """Watches the pool's endpoints, now and as the list changes. Needs a running event loop."""
        self._running = True
        self._pool.table.subscribe(self._follow)
        self._pool.table.subscribe_to_suspicions(self._suspect)
        self._follow()

    async def stop(self) -> None:
        """Stops watching; returns when every task has ended."""
        if not self._running:
            return
        self._running = False
        self._pool.table.unsubscribe(self._follow)
        self._pool.table.unsubscribe_from_suspicions(self._suspect)
        for name in list(self._watches):
            self._end(name)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def initial_scrape(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Waits until each endpoint has been scraped once, `timeout` seconds at most."""
        seen = [watch.seen.wait() for watch in self._watches.values()]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*seen), timeout)

    async def refresh_models(self) -> None:
        """Reads all model lists again, unless that was done within the last second."""
        await asyncio.gather(*(self._refresh_models(watch, 1.0) for watch in self._watches.values()))

    def _suspect(self, endpoint: Endpoint) -> None:
        """Checks `endpoint` at once: a request to it has just failed."""
        watch = self._watches.get(endpoint.name)
        if watch is not None and watch.endpoint is endpoint:
            watch.suspected = True
            watch.wake.set()

    def _follow(self) -> None:
        current = {status.endpoint.name: status for status in self._pool.statuses()}
        for name, watch in list(self._watches.items()):
            if name not in current or current[name].endpoint is not watch.endpoint:
                self._end(name)
        for name, status in current.items():
            if name not in self._watches:
                watch = _Watch(status)
                watch.task = asyncio.create_task(self._watch(watch), name=f"watch {name}")
                self._watches[name] = watch

    def _end(self, name: str) -> None:
        task = self._watches.pop(name).task
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.cancel()

    async def _watch(self, watch: _Watch) -> None:
        while True:
            try:
                await self._check(watch)
            except Exception as error:  # noqa: BLE001 - one failed check must not end the watching
                self._pool.record_failure(watch.endpoint, f"{type(error).__name__}: {error}")
            watch.seen.set()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._next_turn()):
                    await watch.wake.wait()

    def _next_turn(self) -> float:
        """When an endpoint is scraped next, by the loop's clock. Endpoints whose turns are close are scraped together,
        since a page costs a fraction when another one has just been read."""
        interval = self._interval()
        turn = asyncio.get_running_loop().time() + interval * (1 - SPREAD + 2 * SPREAD * self._random.random())
        together = interval * SPREAD
        return math.ceil(turn / together) * together

    def _interval(self) -> float:
        """The shortest of the sources' intervals: all sources of an endpoint are read together."""
        usual = self._options.interval
        return min((binding.source.interval or usual for binding in self._bindings), default=usual)

    async def _check(self, watch: _Watch) -> None:
        suspected, watch.suspected = watch.suspected, False
        watch.wake.clear()
        unreachable = await self._read(watch) if self._bindings else True
        if unreachable or suspected or not watch.up:
            await self._check_connection(watch)
        if watch.up and self._options.models_interval:
            await self._refresh_models(watch, self._options.models_interval)

    async def _read(self, watch: _Watch) -> bool:
        """Scrapes and records the metrics. Returns whether nothing accepted the connection."""
        endpoint = watch.endpoint
        try:
            async with asyncio.timeout(self._options.timeout):
                metrics = await self._fetch(endpoint)
        except TimeoutError:
            failure = ScrapeError(f"no metrics within {self._options.timeout:g} s")
        except ScrapeError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - a plugin's failure costs this scrape only
            failure = ScrapeError(f"{type(error).__name__}: {error}")
        else:
            self._pool.record(endpoint, metrics)
            watch.readable = True
            return False
        self._pool.record_failure(endpoint, str(failure))
        if watch.readable and not failure.unreachable:
            self._on_change(endpoint, f"unreadable: {failure}")
        watch.readable = False
        return failure.unreachable

    async def _fetch(self, endpoint: Endpoint) -> EndpointMetrics:
        metrics = EndpointMetrics()
        for binding in self._bindings:
            payload = await binding.source.fetch(endpoint)
            for extractor in binding.extractors:
                metrics = metrics.updated_by(extractor.extract(endpoint, payload))
        return metrics

    async def _check_connection(self, watch: _Watch) -> None:
        endpoint = watch.endpoint
        try:
            await self._probe(endpoint, self._options.timeout)
        except OSError as error:
            if is_ours(error):
                self._pool.record_failure(endpoint, str(error))
                return
            watch.up = False
            reason = "no connection in time" if isinstance(error, TimeoutError) else str(error)
            if self._pool.mark_down(endpoint, reason):
                self._on_change(endpoint, f"down: {reason}")
        else:
            came_back = not watch.up
            watch.up = True
            if self._pool.mark_up(endpoint):
                self._on_change(endpoint, "up")
            if came_back:
                watch.models_read_at = None

    async def _refresh_models(self, watch: _Watch, at_most_every: float) -> None:
        async with watch.models_lock:  # a second caller waits for the first one's read
            now = self._clock.now()
            if watch.models_read_at is not None and now - watch.models_read_at < at_most_every:
                return
            watch.models_read_at = now
            with suppress(OSError):
                models = await self._list_models(watch.endpoint, self._options.timeout)
                self._pool.record_models(watch.endpoint, models)


class _Watch:
    """The watching of one endpoint."""

    task: asyncio.Task[None]

    def __init__(self, status: EndpointStatus) -> None:
        self.endpoint = status.endpoint
        self.seen = asyncio.Event()
        self.wake = asyncio.Event()
        self.suspected = False
        self.up = status.up
        self.readable = not status.reason
        self.models_lock = asyncio.Lock()
        self.models_read_at: float | None = None
