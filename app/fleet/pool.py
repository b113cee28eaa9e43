"""The pool as one configuration sees it: immutable snapshots of the endpoint table, with its own limit of age."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from app.domain.candidates import Candidates, Snapshot
from app.domain.endpoint import Endpoint
from app.domain.facts import NO_FACTS, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.status import EndpointStatus
from app.extension.services import Clock
from app.fleet.table import EndpointTable

NOBODY: frozenset[str] = frozenset()


class EndpointPool:
    """Reads the endpoint table, and writes it with the time of the clock."""

    def __init__(
        self,
        *,
        clock: Clock,
        in_flight: Callable[[str], int],
        stale_after: float = 5.0,
        table: EndpointTable | None = None,
    ) -> None:
        """`stale_after` is the age in seconds at which metrics no longer count. Without a `table` the pool has its
        own."""
        self._clock = clock
        self._in_flight = in_flight
        self._stale_after = stale_after
        self.table = EndpointTable() if table is None else table
        """What the pool reads and writes; it outlives the pool."""
        self._snapshot: Snapshot | None = None
        self._version = -1
        self._expires = math.inf

    # -- read by requests

    @property
    def names(self) -> frozenset[str]:
        """Names of the endpoints that are up; the same object until the list changes."""
        return self.table.rows().names

    def candidates(
        self,
        facts: Facts = NO_FACTS,
        *,
        model: str = "",
        excluding: frozenset[str] = NOBODY,
        subset: frozenset[str] | None = None,
    ) -> Candidates:
        """The endpoints that are up, except `excluding` (names) and those known not to serve `model`.

        With a `subset`, only those at its addresses, as `Endpoint.authority`.
        """
        rows = self.table.rows().serving(model) if model else None
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
        """The endpoint at an address, as `Endpoint.authority`; None if none is up there."""
        roster = self.table.rows().roster
        rows = roster.at_addresses((address,))
        return roster.endpoints[rows[0]] if rows else None

    def serves(self, model: str = "") -> bool:
        """Whether `candidates` for `model` would give any."""
        rows = self.table.rows()
        of_model = rows.serving(model) if model else None
        return bool(len(rows.roster) if of_model is None else len(of_model))

    def lacks(self, model: str) -> bool:
        """Whether every endpoint's model list is known and none has `model`."""
        statuses = self.table.statuses()
        return bool(statuses) and all(s.models is not None and model not in s.models for s in statuses)

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name, up or down."""
        status = self.table.get(name)
        return status.endpoint if status else None

    def incarnation(self, name: str, /) -> int:
        """A number that changes when the endpoint comes up again or is replaced; 0 if there is none."""
        status = self.table.get(name)
        return status.incarnation if status else 0

    def statuses(self) -> tuple[EndpointStatus, ...]:
        """All endpoints, in the order discovered."""
        return self.table.statuses()

    def is_fresh(self, status: EndpointStatus) -> bool:
        """Whether the endpoint's metrics count."""
        return self._clock.now() - status.read_at < self._stale_after

    @property
    def discovered(self) -> bool:
        """Whether a first list of endpoints has been written."""
        return self.table.discovered

    # -- written by the fleet

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """Makes `endpoints` the whole list. What is known of an endpoint that did not change is kept."""
        self.table.replace_all(endpoints, self._clock.now())

    def record(self, endpoint: Endpoint, metrics: EndpointMetrics) -> None:
        """Records fresh metrics; ignored if `endpoint` has left the pool."""
        self.table.record(endpoint, metrics, self._clock.now())

    def record_failure(self, endpoint: Endpoint, reason: str) -> None:
        """Records that the metrics could not be read. The last ones keep aging."""
        self.table.record_failure(endpoint, reason)

    def record_models(self, endpoint: Endpoint, models: frozenset[str] | None) -> None:
        """Records the models that `endpoint` lists; None if that is unknown."""
        self.table.record_models(endpoint, models)

    def mark_up(self, endpoint: Endpoint) -> bool:
        """Marks an endpoint that accepts connections again. Returns whether it was down."""
        return self.table.mark_up(endpoint, self._clock.now())

    def mark_down(self, endpoint: Endpoint, reason: str) -> bool:
        """Takes an endpoint that refuses connections out until `mark_up`. Returns whether it was up."""
        return self.table.mark_down(endpoint, reason, self._clock.now())

    # -- the snapshot

    def _fresh_snapshot(self, now: float) -> Snapshot:
        if self._snapshot is None or self._version != self.table.version or now >= self._expires:
            self._snapshot, self._expires = self.table.rows().snapshot(now, self._stale_after)
            self._version = self.table.version
        return self._snapshot
