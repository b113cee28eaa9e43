"""What is known of the endpoints: written by discovery and the monitor, kept from one configuration to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Roster, Snapshot
from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics
from app.domain.status import EndpointStatus

MODELS_REMEMBERED = 256
"""Model names whose endpoints are cached; the names come from clients, so their number is bounded."""


class Rows:
    """The endpoints that are up, with their latest metrics in columns that are written in place."""

    def __init__(self, up: Sequence[EndpointStatus]) -> None:
        self.roster = Roster(status.endpoint for status in up)
        self.names = frozenset(self.roster.names)
        self._models = [status.models for status in up]
        self._metrics: list[EndpointMetrics | None] = [None] * len(up)
        self._waiting, self._running, self._kv_cache_usage = (np.full(len(up), np.nan) for _ in range(3))
        self._read_at = np.full(len(up), -np.inf)
        self._serving: dict[str, NDArray[np.intp] | None] = {}
        for status in up:
            self.write(status)

    def write(self, status: EndpointStatus) -> None:
        """Records the latest metrics of an endpoint; ignored if it is not up."""
        row = self.roster.positions.get(status.endpoint.name)
        if row is None or status.metrics is None:
            return
        self._metrics[row] = status.metrics
        self._waiting[row] = _or_nan(status.metrics.waiting)
        self._running[row] = _or_nan(status.metrics.running)
        self._kv_cache_usage[row] = _or_nan(status.metrics.kv_cache_usage)
        self._read_at[row] = status.read_at

    def serving(self, model: str) -> NDArray[np.intp] | None:
        """Rows of the endpoints that list `model` or whose model list is unknown; None for all."""
        if model not in self._serving:
            if len(self._serving) >= MODELS_REMEMBERED:
                self._serving.clear()
            rows = [row for row, models in enumerate(self._models) if models is None or model in models]
            self._serving[model] = None if len(rows) == len(self._models) else np.array(rows, np.intp)
        return self._serving[model]

    def snapshot(self, now: float, stale_after: float) -> tuple[Snapshot, float]:
        """The rows as of `now`, and the time at which the next metrics become stale."""
        stale = now - self._read_at >= stale_after
        fresh_read_at = self._read_at[~stale]
        metrics = self._metrics
        if len(fresh_read_at) < len(metrics):
            metrics = [None if old else m for m, old in zip(metrics, stale.tolist(), strict=True)]
        snapshot = Snapshot(
            self.roster,
            waiting=np.where(stale, np.nan, self._waiting),
            running=np.where(stale, np.nan, self._running),
            kv_cache_usage=np.where(stale, np.nan, self._kv_cache_usage),
            read_at=self._read_at.copy(),
            metrics=tuple(metrics),
        )
        expires = float(fresh_read_at.min()) + stale_after if len(fresh_read_at) else math.inf
        return snapshot, expires


class EndpointTable:
    """One status per endpoint. Synchronous; no lock is needed within one event loop."""

    def __init__(self) -> None:
        self._statuses: dict[str, EndpointStatus] = {}
        self._rows: Rows | None = None
        self._incarnations = 0
        self._on_list_change: list[Callable[[], None]] = []
        self._on_suspicion: list[Callable[[Endpoint], None]] = []
        self.version = 0
        """Changes with everything that a snapshot shows."""
        self.discovered = False
        """Whether a first list of endpoints has been written."""

    def has_been_written(self) -> bool:
        """Whether a first list of endpoints has been written."""
        return self.discovered

    def rows(self) -> Rows:
        """The endpoints that are up; the same object until the list changes."""
        if self._rows is None:
            self._rows = Rows([status for status in self._statuses.values() if status.up])
        return self._rows

    def get(self, name: str) -> EndpointStatus | None:
        """The status of the endpoint of that name, up or down."""
        return self._statuses.get(name)

    def statuses(self) -> tuple[EndpointStatus, ...]:
        """All statuses, in the order discovered."""
        return tuple(self._statuses.values())

    # -- writing; `now` is a time of the clock that reads are given

    def replace_all(self, endpoints: Sequence[Endpoint], now: float) -> None:
        """Makes `endpoints` the whole list. What is known of an endpoint that did not change is kept."""
        statuses = {}
        for endpoint in endpoints:
            old = self._statuses.get(endpoint.name)
            if old is not None and old.endpoint.same_as(endpoint):
                statuses[endpoint.name] = old
            else:
                statuses[endpoint.name] = EndpointStatus(endpoint, incarnation=self._next_incarnation(), since=now)
        self.discovered = True
        self._statuses = statuses
        self._list_changed()
        for listener in tuple(self._on_list_change):
            listener()

    def record(self, endpoint: Endpoint, metrics: EndpointMetrics, now: float) -> None:
        """Records fresh metrics; ignored if `endpoint` has left the table."""
        if self._update(endpoint, metrics=metrics, read_at=now, reason=""):
            if self._rows is not None:
                self._rows.write(self._statuses[endpoint.name])
            self.version += 1

    def record_failure(self, endpoint: Endpoint, reason: str) -> None:
        """Records that the metrics could not be read. The last ones keep aging."""
        self._update(endpoint, reason=reason)

    def record_models(self, endpoint: Endpoint, models: frozenset[str] | None) -> None:
        """Records the models that `endpoint` lists; None if that is unknown."""
        status = self._statuses.get(endpoint.name)
        if status is not None and status.models != models and self._update(endpoint, models=models):
            self._list_changed()

    def mark_up(self, endpoint: Endpoint, now: float) -> bool:
        """Marks an endpoint that accepts connections again. Returns whether it was down."""
        status = self._statuses.get(endpoint.name)
        if status is None or status.endpoint is not endpoint or status.up:
            return False
        self._update(endpoint, up=True, incarnation=self._next_incarnation(), since=now, reason="")
        self._list_changed()
        return True

    def mark_down(self, endpoint: Endpoint, reason: str, now: float) -> bool:
        """Takes an endpoint that refuses connections out until `mark_up`. Returns whether it was up."""
        status = self._statuses.get(endpoint.name)
        if status is None or status.endpoint is not endpoint or not status.up:
            return False
        self._update(endpoint, up=False, since=now, reason=reason, read_at=-math.inf)
        self._list_changed()
        return True

    # -- listening

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each new list of endpoints."""
        self._on_list_change.append(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Ends `subscribe`."""
        self._on_list_change.remove(listener)

    def suspect(self, endpoint: Endpoint) -> None:
        """Reports that a request to `endpoint` failed."""
        for listener in tuple(self._on_suspicion):
            listener(endpoint)

    def subscribe_to_suspicions(self, listener: Callable[[Endpoint], None]) -> None:
        """Calls `listener` with each endpoint that failed a request."""
        self._on_suspicion.append(listener)

    def unsubscribe_from_suspicions(self, listener: Callable[[Endpoint], None]) -> None:
        """Ends `subscribe_to_suspicions`."""
        self._on_suspicion.remove(listener)

    def _next_incarnation(self) -> int:
        self._incarnations += 1
        return self._incarnations

    def _update(self, endpoint: Endpoint, **changes: object) -> bool:
        status = self._statuses.get(endpoint.name)
        if status is None or status.endpoint is not endpoint:
            return False
        self._statuses[endpoint.name] = replace(status, **changes)  # type: ignore[arg-type]
        return True

    def _list_changed(self) -> None:
        self._rows = None
        self.version += 1


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
