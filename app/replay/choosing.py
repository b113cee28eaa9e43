"""What chooses the endpoint of each request."""

from __future__ import annotations

from typing import Protocol

from app.domain.metrics import EndpointMetrics
from app.domain.usage import Usage
from app.replay.trace import TraceRequest


class Chooser(Protocol):
    """Chooses endpoints, by their numbers, and is told what becomes of the requests. Times are in seconds."""

    scrape_interval: float
    """Time between two scrapes of an endpoint."""

    async def choose(self, number: int, request: TraceRequest, now: float) -> int | None:
        """The endpoint for the request of that number; None if it is refused."""

    async def first_token(self, number: int, now: float) -> None:
        """The request had its first token."""

    async def finish(self, number: int, now: float, usage: Usage) -> None:
        """The request had its last token."""

    async def scrape(self, endpoint: int, metrics: EndpointMetrics, now: float) -> None:
        """The metrics of an endpoint were read."""
