"""The endpoints that a request may be sent to, in columns: each metric is an array aligned with the endpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast, overload

import numpy as np
from numpy.typing import NDArray

from app.domain.endpoint import Endpoint
from app.domain.facts import NO_FACTS, AnyFactKey, Columnar, EndpointFactKey, Facts
from app.domain.metrics import EndpointMetrics

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]

NEUTRAL_KV_CACHE_USAGE = 0.5
"""Assumed if the usage of no endpoint is known."""


class Roster:
    """Endpoints in a fixed order. Snapshots share it for as long as the list of endpoints is unchanged."""

    __slots__ = ("_by_address", "endpoints", "names", "positions")

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self.names = tuple([endpoint.name for endpoint in self.endpoints])
        self.positions: Mapping[str, int] = {name: row for row, name in enumerate(self.names)}
        self._by_address: dict[str, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.endpoints)

    def at_addresses(self, addresses: Iterable[str]) -> list[int]:
        """Rows of the endpoints with these values of `Endpoint.authority`, in ascending order."""
        by_address = self._by_address
        if by_address is None:
            self._by_address = by_address = {}
            for row, endpoint in enumerate(self.endpoints):
                by_address.setdefault(endpoint.authority, []).append(row)
        return sorted(row for address in addresses for row in by_address.get(address, ()))


class Snapshot:
    """The state of the pool at one moment. Immutable; all requests scheduled on it share its columns.

    `waiting`, `running` and `kv_cache_usage` have NaN for unknown values, `read_at` is in seconds of the pool's clock.
    Only `Candidates` should use these raw columns.
    """

    __slots__ = ("all_known", "known", "kv_cache_usage", "metrics", "read_at", "roster", "running", "waiting")

    def __init__(
        self,
        roster: Roster,
        *,
        waiting: Column,
        running: Column,
        kv_cache_usage: Column,
        read_at: Column,
        metrics: tuple[EndpointMetrics | None, ...],
    ) -> None:
        self.roster = roster
        self.waiting = _frozen(waiting)
        self.running = _frozen(running)
        self.known: Mask = ~np.isnan(waiting)
        self.known.flags.writeable = False
        self.all_known = bool(self.known.all()) and not np.isnan(running).any()
        self.kv_cache_usage = _frozen(_fill_with_mean(kv_cache_usage))
        self.read_at = _frozen(read_at)
        self.metrics = metrics


class Candidates(Sequence[Endpoint]):
    """An immutable sequence of endpoints with their columns. No column holds NaN.

    Columns are read-only float64 arrays with one number per candidate, unless stated otherwise. An endpoint whose
    metrics are missing, stale or unreadable is *unknown*: its `waiting` and `running` are the number of requests that
    this process has in flight to it, its `kv_cache_usage` is the mean of the known ones. The same applies to a single
    metric that an engine doesn't report.
    """

    __slots__ = ("_cache", "_facts", "_in_flight", "_now", "_rows", "_snapshot")

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        in_flight: Callable[[str], int],
        now: float = 0.0,
        facts: Facts = NO_FACTS,
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._in_flight = in_flight
        self._now = now
        self._facts = facts
        self._rows = rows
        self._cache: dict[str | AnyFactKey, Column] = {}

    # -- a sequence of endpoints

    def __len__(self) -> int:
        return len(self._snapshot.roster.endpoints) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Endpoint: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Endpoint, ...]: ...
    def __getitem__(self, index: int | slice) -> Endpoint | tuple[Endpoint, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        if self._rows is None:
            return self._snapshot.roster.endpoints[index]
        return self._snapshot.roster.endpoints[int(self._rows[index])]

    def __iter__(self) -> Iterator[Endpoint]:
        if self._rows is None:
            return iter(self._snapshot.roster.endpoints)
        endpoints = self._snapshot.roster.endpoints
        return iter([endpoints[row] for row in self._rows.tolist()])

    def __contains__(self, item: object) -> bool:
        roster = self._snapshot.roster
        row = roster.positions.get(item.name) if isinstance(item, Endpoint) else None
        if row is None or roster.endpoints[row] is not item:
            return False
        return self._rows is None or row in self._rows

    def __repr__(self) -> str:
        return f"Candidates({', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the candidates, in order."""
        if self._rows is None:
            return self._snapshot.roster.names
        names = self._snapshot.roster.names
        return tuple([names[row] for row in self._rows.tolist()])

    # -- columns

    @property
    def waiting(self) -> Column:
        """Requests waiting in the queue of the engine."""
        return self._load("waiting", self._snapshot.waiting)

    @property
    def running(self) -> Column:
        """Requests in the batch of the engine."""
        return self._load("running", self._snapshot.running)

    @property
    def kv_cache_usage(self) -> Column:
        """Share of the KV cache in use, 0 to 1."""
        return self._take(self._snapshot.kv_cache_usage)

    @property
    def metrics_age(self) -> Column:
        """Seconds since the metrics were scraped; infinite if they never were."""
        return _frozen(np.maximum(self._now - self._take(self._snapshot.read_at), 0.0))

    @property
    def known(self) -> Mask:
        """Booleans: whether the queue length is known from fresh metrics."""
        known = self._snapshot.known
        if self._rows is None:
            return known
        known = known[self._rows]
        known.flags.writeable = False
        return known

    @property
    def in_flight(self) -> Column:
        """Requests that this process has in flight to each endpoint."""
        cached = self._cache.get("in_flight")
        if cached is None:
            cached = np.fromiter(map(self._in_flight, self.names), np.float64, len(self))
            self._cache["in_flight"] = _frozen(cached)
        return cached

    @property
    def metrics(self) -> tuple[EndpointMetrics | None, ...]:
        """The latest fresh metrics of each endpoint, None if there are none."""
        if self._rows is None:
            return self._snapshot.metrics
        return tuple([self._snapshot.metrics[row] for row in self._rows.tolist()])

    def fact(self, key: EndpointFactKey) -> Column:
        """The fact `key` of each candidate, or the default of the key if it is missing."""
        cached = self._cache.get(key)
        if cached is None:
            cached = self._cache[key] = _frozen(self._take(self._gather(key)))
        return cached

    # -- narrowing

    def where(self, keep: Mask) -> Candidates:
        """The candidates for which `keep` is true, in the same order. `keep` has one boolean per candidate."""
        rows = np.flatnonzero(keep) if self._rows is None else self._rows[keep]
        return Candidates(self._snapshot, in_flight=self._in_flight, now=self._now, facts=self._facts, rows=rows)

    def _take(self, column: Column) -> Column:
        return column if self._rows is None else _frozen(column[self._rows])

    def _load(self, name: str, column: Column) -> Column:
        if self._snapshot.all_known:
            return self._take(column)
        cached = self._cache.get(name)
        if cached is None:
            taken = self._take(column)
            cached = self._cache[name] = _frozen(np.where(np.isnan(taken), self.in_flight, taken))
        return cached

    def _gather(self, key: EndpointFactKey) -> Column:
        values = self._facts.per_endpoint(key)
        names = self._snapshot.roster.names
        if hasattr(values, "column"):
            return cast("Columnar", values).column(names, key.default)
        get, default = values.get, key.default
        if 2 * len(values) > len(names):
            column = np.array([get(name, default) for name in names], np.float64)
        else:
            column = np.full(len(names), default, np.float64)
            positions = self._snapshot.roster.positions
            for name, value in values.items():
                row = positions.get(name)
                if row is not None:
                    column[row] = value
        return np.where(np.isnan(column), default, column) if math.isnan(column.sum()) else column


def _frozen(column: Column) -> Column:
    column.flags.writeable = False
    return column


def _fill_with_mean(column: Column) -> Column:
    missing = np.isnan(column)
    if not missing.any():
        return column
    mean = float(column[~missing].mean()) if not missing.all() else NEUTRAL_KV_CACHE_USAGE
    return np.where(missing, mean, column)
