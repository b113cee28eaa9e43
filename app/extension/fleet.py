"""The extension points of the fleet: where endpoints come from, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics


class EndpointSink(Protocol):
    """Receives what a discovery finds."""

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """The endpoints are exactly these now; names must be unique."""


@runtime_checkable
class Discovery(Protocol):
    """Finds endpoints and keeps them current."""

    async def discover(self, sink: EndpointSink) -> None:
        """Gives `sink` the endpoints at once and at each change; returns when nothing can change any more.

        Raises `DiscoveryError` when the first list can't be had.
        """

    def check(self) -> None:
        """Reads what the first list comes from, without keeping it; raises `DiscoveryError`."""


class DiscoveryError(Exception):
    """Endpoints can't be discovered; the text says where and why."""


@runtime_checkable
class MetricsSource(Protocol):
    """Reads one endpoint's raw data."""

    interval: float | None
    """Seconds between reads, None for the pool's own."""

    async def fetch(self, endpoint: Endpoint) -> Any:
        """The endpoint's data in whatever form its extractors take. Raises `ScrapeError`."""


@runtime_checkable
class Extractor(Protocol):
    """Reads metrics out of what a source fetched."""

    def extract(self, endpoint: Endpoint, payload: Any) -> EndpointMetrics:
        """The metrics in `payload`, which is taken whole or not at all. Raises `ScrapeError`."""


class ScrapeError(Exception):
    """An endpoint's metrics can't be had or read. `unreachable` when nothing answered at its address."""

    def __init__(self, cause: str, *, unreachable: bool = False) -> None:
        super().__init__(cause)
        self.unreachable = unreachable
