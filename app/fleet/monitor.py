"""Watches every endpoint: reads its metrics, lists its models, sees whether anything answers there."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics
from app.extension.fleet import Extractor, MetricsSource, ScrapeError
from app.extension.services import Clock, Random
from app.fleet.pool import EndpointPool
from app.fleet.probe import is_ours

SPREAD = 0.1
"""Share of the interval by which reads are spread, so that endpoints are not all read at once."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A source of metrics and what reads them out of its data."""

    source: MetricsSource
    extractors: Sequence[Extractor]


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """Times in seconds."""

    interval: float = 1.0
    """Between two reads of an endpoint."""
    timeout: float = 1.0
    """Of one read."""
    models_interval: float = 10.0
    """Between two looks at an endpoint's model list; 0 never looks."""


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
        """`list_models` gives an endpoint's models, None if it does not say. `probe` connects to an endpoint or raises
        `OSError`. `on_change` is told of each endpoint that goes `down`, comes `up`, or can't be `read` any more."""
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

    async def start(self) -> None:
        """Begins to watch the pool's endpoints, now and as they change."""
        self._running = True
        self._pool.subscribe(self._follow)
        self._pool.ask_models_with(self.refresh_models)
        self._follow()

    async def stop(self) -> None:
        """Stops watching; returns when every task has ended."""
        self._running = False
        for name in list(self._watches):
            self._end(name)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def initial_scrape(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Waits until each endpoint was looked at once, `timeout` seconds at most."""
        seen = [watch.seen.wait() for watch in self._watches.values()]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*seen), timeout)

    def change(self, bindings: Sequence[Binding], options: MonitorOptions) -> None:
        """Reads from other sources, or at other intervals, from now on; if anything changed, at once."""
        if (tuple(bindings), options) == (self._bindings, self._options):
            return
        self._bindings, self._options = tuple(bindings), options
        for watch in self._watches.values():
            watch.wake.set()

    def suspect(self, endpoint: Endpoint) -> None:
        """Looks at `endpoint` at once: a request to it has just failed."""
        watch = self._watches.get(endpoint.name)
        if watch is not None and watch.endpoint is endpoint:
            watch.suspected = True
            watch.wake.set()

    async def refresh_models(self) -> None:
        """Reads all model lists anew, unless that has just been done."""
        await asyncio.gather(*(self._refresh_models(watch, 1.0) for watch in self._watches.values()))

    def _follow(self) -> None:
        if not self._running:
            return
        current = {status.endpoint.name: status.endpoint for status in self._pool.statuses()}
        for name, watch in list(self._watches.items()):
            if current.get(name) is not watch.endpoint:
                self._end(name)
        for name, endpoint in current.items():
            if name not in self._watches:
                watch = _Watch(endpoint)
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
                await self._look(watch)
            except Exception as error:  # noqa: BLE001 - one bad look must not end the watching
                self._pool.record_failure(watch.endpoint, f"{type(error).__name__}: {error}")
            watch.seen.set()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._next_turn()):
                    await watch.wake.wait()

    def _next_turn(self) -> float:
        """When an endpoint is read again, by the loop's clock. Those whose turns are close are read together, since
        a page costs a fraction when another one has just been read."""
        interval = self._interval()
        turn = asyncio.get_running_loop().time() + interval * (1 - SPREAD + 2 * SPREAD * self._random.random())
        together = interval * SPREAD
        return math.ceil(turn / together) * together

    def _interval(self) -> float:
        """The shortest of the sources' intervals: all of an endpoint's sources are read together."""
        usual = self._options.interval
        return min((binding.source.interval or usual for binding in self._bindings), default=usual)

    async def _look(self, watch: _Watch) -> None:
        suspected, watch.suspected = watch.suspected, False
        watch.wake.clear()
        unreachable = await self._read(watch) if self._bindings else True
        if unreachable or suspected or not watch.up:
            await self._see_whether_up(watch)
        if watch.up and self._options.models_interval:
            await self._refresh_models(watch, self._options.models_interval)

    async def _read(self, watch: _Watch) -> bool:
        """Reads and records the metrics. Returns whether nothing answered."""
        endpoint = watch.endpoint
        try:
            async with asyncio.timeout(self._options.timeout):
                metrics = await self._fetch(endpoint)
        except TimeoutError:
            failure = ScrapeError(f"no metrics within {self._options.timeout:g} s")
        except ScrapeError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - a plugin's failure costs this reading only
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

    async def _see_whether_up(self, watch: _Watch) -> None:
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
        async with watch.models_lock:  # whoever comes while the list is being read waits for it
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

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.seen = asyncio.Event()
        self.wake = asyncio.Event()
        self.suspected = False
        self.up = True
        self.readable = True
        self.models_lock = asyncio.Lock()
        self.models_read_at: float | None = None
