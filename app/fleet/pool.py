"""The endpoints, which are up, and their latest metrics: written by the fleet, read as immutable snapshots."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Candidates, Roster, Snapshot
from app.domain.endpoint import Endpoint
from app.domain.facts import NO_FACTS, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.status import EndpointStatus
from app.extension.services import Clock

NOBODY: frozenset[str] = frozenset()

MODELS_REMEMBERED = 256
"""Model names whose endpoints are kept at hand; the names come from clients, so their number is bounded."""


class _Rows:
    """The endpoints that are up, with their latest metrics in columns that are written in place."""

    def __init__(self, up: Sequence[EndpointStatus]) -> None:
        self.roster = Roster(status.endpoint for status in up)
        self.names = frozenset(self.roster.names)
        self.models = [status.models for status in up]
        self.metrics: list[EndpointMetrics | None] = [None] * len(up)
        self.waiting, self.running, self.kv_cache_usage = (np.full(len(up), np.nan) for _ in range(3))
        self.read_at = np.full(len(up), -np.inf)
        self.serving: dict[str, NDArray[np.intp] | None] = {}
        for status in up:
            self.write(status)

    def write(self, status: EndpointStatus) -> None:
        row = self.roster.positions.get(status.endpoint.name)
        if row is None or status.metrics is None:
            return
        self.metrics[row] = status.metrics
        self.waiting[row] = _or_nan(status.metrics.waiting)
        self.running[row] = _or_nan(status.metrics.running)
        self.kv_cache_usage[row] = _or_nan(status.metrics.kv_cache_usage)
        self.read_at[row] = status.read_at

    def serving_model(self, model: str) -> NDArray[np.intp] | None:
        """Rows of the endpoints that list `model` or whose list is not known; None for all."""
        if model not in self.serving:
            if len(self.serving) >= MODELS_REMEMBERED:
                self.serving.clear()
            rows = [row for row, models in enumerate(self.models) if models is None or model in models]
            self.serving[model] = None if len(rows) == len(self.models) else np.array(rows, np.intp)
        return self.serving[model]

    def snapshot(self, now: float, stale_after: float) -> tuple[Snapshot, float]:
        """The rows as of `now`, and until when that holds if nothing is written."""
        stale = now - self.read_at >= stale_after
        fresh_read_at = self.read_at[~stale]
        metrics = self.metrics
        if len(fresh_read_at) < len(metrics):
            metrics = [None if old else m for m, old in zip(metrics, stale.tolist(), strict=True)]
        snapshot = Snapshot(
            self.roster,
            waiting=np.where(stale, np.nan, self.waiting),
            running=np.where(stale, np.nan, self.running),
            kv_cache_usage=np.where(stale, np.nan, self.kv_cache_usage),
            read_at=self.read_at.copy(),
            metrics=tuple(metrics),
        )
        expires = float(fresh_read_at.min()) + stale_after if len(fresh_read_at) else math.inf
        return snapshot, expires


class EndpointPool:
    """The pool. All methods are synchronous but `lacks`; no lock is needed within one event loop."""

    def __init__(self, *, clock: Clock, in_flight: Callable[[str], int], stale_after: float = 5.0) -> None:
        """`stale_after` is the age in seconds at which metrics stop counting."""
        self._clock = clock
        self._in_flight = in_flight
        self._stale_after = stale_after
        self._statuses: dict[str, EndpointStatus] = {}
        self._rows: _Rows | None = None
        self._snapshot: Snapshot | None = None
        self._expires = math.inf
        self._incarnations = 0
        self._listeners: list[Callable[[], None]] = []
        self._ask_models: Callable[[], Awaitable[None]] | None = None
        self.discovered = False
        """Whether a first list of endpoints has been given."""

    # -- read by requests

    @property
    def names(self) -> frozenset[str]:
        """Names of the endpoints that are up; the same object until the list is touched."""
        return self._current().names

    def candidates(
        self,
        facts: Facts = NO_FACTS,
        *,
        model: str = "",
        excluding: frozenset[str] = NOBODY,
        subset: frozenset[str] | None = None,
    ) -> Candidates:
        """The endpoints that are up, less `excluding`, by name, and those known not to serve `model`.

        With a `subset` only those at its addresses, as `Endpoint.authority`.
        """
        rows = self._current().serving_model(model) if model else None
        now = self._clock.now()
        snapshot = self._fresh_snapshot(now)
        roster = snapshot.roster
        if subset is not None:
            allowed = roster.at_addresses(subset)
            if rows is not None:
                serving = set(rows.tolist())
                allowed = [row for row in allowed if row in serving]
            rows = np.array(allowed, np.intp)
        if excluding:
            every = range(len(roster)) if rows is None else rows.tolist()
            rows = np.array([row for row in every if roster.names[row] not in excluding], np.intp)
        return Candidates(snapshot, in_flight=self._in_flight, now=now, facts=facts, rows=rows)

    def at(self, address: str) -> Endpoint | None:
        """The endpoint at an address, as `Endpoint.authority`; None if there is none that is up."""
        roster = self._current().roster
        rows = roster.at_addresses((address,))
        return roster.endpoints[rows[0]] if rows else None

    def serves(self, model: str = "") -> bool:
        """Whether `candidates` for `model` would give any."""
        rows = self._current()
        of_model = rows.serving_model(model) if model else None
        return bool(len(rows.roster) if of_model is None else len(of_model))

    async def lacks(self, model: str) -> bool:
        """Whether every endpoint's model list is known and none has `model`; asks them again before it says so."""
        if not self._all_lack(model):
            return False
        if self._ask_models is not None:
            await self._ask_models()
        return self._all_lack(model)

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name, up or down."""
        status = self._statuses.get(name)
        return status.endpoint if status else None

    def incarnation(self, name: str, /) -> int:
        """A number that changes when the endpoint comes up again or is another one; 0 if there is none."""
        status = self._statuses.get(name)
        return status.incarnation if status else 0

    def statuses(self) -> tuple[EndpointStatus, ...]:
        """All endpoints, in the order discovered."""
        return tuple(self._statuses.values())

    def is_fresh(self, status: EndpointStatus) -> bool:
        """Whether the endpoint's metrics count."""
        return self._clock.now() - status.read_at < self._stale_after

    # -- written by the fleet

    def count_as_stale_after(self, seconds: float) -> None:
        """The age at which metrics stop counting from now on."""
        self._stale_after = seconds
        self._snapshot = None

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """The endpoints are exactly these now. What is known of the ones that stay as they were is kept."""
        now = self._clock.now()
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
        for listener in tuple(self._listeners):
            listener()

    def record(self, endpoint: Endpoint, metrics: EndpointMetrics) -> None:
        """A fresh reading of `endpoint`; ignored if it has left the pool."""
        self._update(endpoint, metrics=metrics, read_at=self._clock.now(), reason="")
        if self._rows is not None and endpoint.name in self._statuses:
            self._rows.write(self._statuses[endpoint.name])
            self._snapshot = None

    def record_failure(self, endpoint: Endpoint, reason: str) -> None:
        """Its metrics could not be had. The last reading ages on."""
        self._update(endpoint, reason=reason)

    def record_models(self, endpoint: Endpoint, models: frozenset[str] | None) -> None:
        """The models that `endpoint` lists."""
        status = self._statuses.get(endpoint.name)
        if status is not None and status.models != models:
            self._update(endpoint, models=models)
            self._list_changed()

    def mark_up(self, endpoint: Endpoint) -> bool:
        """It answers. Returns whether that is news."""
        status = self._statuses.get(endpoint.name)
        if status is None or status.endpoint is not endpoint or status.up:
            return False
        self._update(endpoint, up=True, incarnation=self._next_incarnation(), since=self._clock.now(), reason="")
        self._list_changed()
        return True

    def mark_down(self, endpoint: Endpoint, reason: str) -> bool:
        """Nothing answers at its address: no request goes there until `mark_up`. Returns whether that is news."""
        status = self._statuses.get(endpoint.name)
        if status is None or status.endpoint is not endpoint or not status.up:
            return False
        self._update(endpoint, up=False, since=self._clock.now(), reason=reason, read_at=-math.inf)
        self._list_changed()
        return True

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after each change of the list of endpoints."""
        self._listeners.append(listener)

    def ask_models_with(self, ask: Callable[[], Awaitable[None]]) -> None:
        """`ask` reads all model lists anew and records them."""
        self._ask_models = ask

    # -- the snapshot

    def _next_incarnation(self) -> int:
        self._incarnations += 1
        return self._incarnations

    def _update(self, endpoint: Endpoint, **changes: object) -> None:
        status = self._statuses.get(endpoint.name)
        if status is not None and status.endpoint is endpoint:
            self._statuses[endpoint.name] = replace(status, **changes)  # type: ignore[arg-type]

    def _list_changed(self) -> None:
        self._rows = None
        self._snapshot = None

    def _current(self) -> _Rows:
        if self._rows is None:
            self._rows = _Rows([status for status in self._statuses.values() if status.up])
        return self._rows

    def _fresh_snapshot(self, now: float) -> Snapshot:
        if self._snapshot is None or now >= self._expires:
            self._snapshot, self._expires = self._current().snapshot(now, self._stale_after)
        return self._snapshot

    def _all_lack(self, model: str) -> bool:
        statuses = self._statuses.values()
        return bool(statuses) and all(s.models is not None and model not in s.models for s in statuses)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
