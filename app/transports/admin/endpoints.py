"""What `/debug/endpoints` shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.domain.named import Named
from app.domain.status import EndpointStatus
from app.extension.inspection import InspectsEndpoints
from app.extension.services import Clock, InFlight
from app.fleet.pool import EndpointPool


class EndpointsPage:
    """The state of each endpoint."""

    def __init__(
        self, pool: EndpointPool, in_flight: InFlight, clock: Clock, plugins: Sequence[Named[Any]] = ()
    ) -> None:
        """`plugins` are all of the configuration; those that inspect endpoints add to the page."""
        self._inspectors = [one for one in plugins if isinstance(one.plugin, InspectsEndpoints)]
        self._pool = pool
        self._in_flight = in_flight
        self._clock = clock

    def __call__(self) -> Sequence[Mapping[str, Any]]:
        """One mapping per endpoint, in the order discovered."""
        return [self._shown(status, self._clock.now()) for status in self._pool.statuses()]

    def _shown(self, status: EndpointStatus, now: float) -> Mapping[str, Any]:
        endpoint, metrics = status.endpoint, status.metrics
        return {
            "name": endpoint.name,
            "address": endpoint.authority,
            "labels": dict(endpoint.labels),
            "state": "up" if status.up else "down",
            "since_seconds": round(now - status.since, 3),
            "reason": status.reason,
            "metrics": "fresh" if self._pool.is_fresh(status) else "unknown",
            "metrics_age_seconds": round(now - status.read_at, 3)
            if metrics and math.isfinite(status.read_at)
            else None,
            "engine": metrics.engine if metrics else None,
            "waiting": metrics.waiting if metrics else None,
            "running": metrics.running if metrics else None,
            "kv_cache_usage": metrics.kv_cache_usage if metrics else None,
            "in_flight": self._in_flight.count(endpoint.name),
            "models": sorted(status.models) if status.models is not None else None,
            "plugins": {name: found for name, found in self._inspected(endpoint.name) if found},
        }

    def _inspected(self, endpoint: str) -> Iterator[tuple[str, Mapping[str, object]]]:
        """What each plugin shows of an endpoint. A failure is shown in place of it."""
        for name, plugin in self._inspectors:
            try:
                yield name, plugin.inspect(endpoint)
            except Exception as error:  # noqa: BLE001 - a plugin's failure must not hide the rest of the page
                yield name, {"error": f"{type(error).__name__}: {error}"}
