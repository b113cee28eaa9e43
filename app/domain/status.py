"""What the fleet knows of one endpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """What is known of one endpoint. Times are seconds of the pool's clock."""

    endpoint: Endpoint
    up: bool = True
    incarnation: int = 0
    """Another number each time it came, or came up again."""
    since: float = 0.0
    """When it came up or went down."""
    reason: str = ""
    """Why it is down, or why its metrics can't be had."""
    metrics: EndpointMetrics | None = None
    """The last reading, however old."""
    read_at: float = -math.inf
    models: frozenset[str] | None = None
    """Models it lists, None as long as it was not asked or did not say."""
