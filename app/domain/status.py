"""The state of an endpoint in the fleet."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The state of an endpoint. Times are in seconds of the pool's clock."""

    endpoint: Endpoint
    up: bool = True
    incarnation: int = 0
    """Changes each time the endpoint is added or comes up again."""
    since: float = 0.0
    """When the endpoint came up or went down."""
    reason: str = ""
    """Why the endpoint is down, or why its metrics can't be scraped."""
    metrics: EndpointMetrics | None = None
    """The latest metrics, regardless of their age."""
    read_at: float = -math.inf
    models: frozenset[str] | None = None
    """The models that the endpoint serves, None if not known yet."""
