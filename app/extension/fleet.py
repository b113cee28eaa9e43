"""The extension points of the fleet: discovery of endpoints, and their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics


class EndpointSink(Protocol):
    """Receives the endpoints that a discovery finds."""

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        """Replaces the whole list; names must be unique."""


@runtime_checkable
class Discovery(Protocol):
    """Finds endpoints and follows changes."""

    async def discover(self, sink: EndpointSink) -> None:
        """Passes the endpoints to `sink`, at once and after each change; returns when no more changes can come.

        Raises `DiscoveryError` when the first list is not available.
        """

    def check(self) -> None:
        """Checks that the first list is available, without keeping it. Raises `DiscoveryError`."""


class DiscoveryError(Exception):
    """Endpoints can't be discovered; the message says where and why."""


@runtime_checkable
class MetricsSource(Protocol):
    """Fetches the raw metrics of an endpoint."""

    interval: float | None
    """Seconds between two scrapes; None for the pool's interval."""

    async def fetch(self, endpoint: Endpoint) -> Any:
        """The raw metrics, in the form that the source's extractors expect. Raises `ScrapeError`."""


@runtime_checkable
class Extractor(Protocol):
    """Extracts metrics from what a source fetched."""

    def extract(self, endpoint: Endpoint, payload: Any) -> EndpointMetrics:
        """The metrics in `payload`. Raises `ScrapeError` when it is invalid: a payload is used whole or not at all."""


class ScrapeError(Exception):
    """Metrics could not be fetched or parsed. `unreachable` if nothing accepts connections at the address."""

    def __init__(self, cause: str, *, unreachable: bool = False) -> None:
        super().__init__(cause)
        self.unreachable = unreachable
