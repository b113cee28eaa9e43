"""Logs events of the fleet, and failed attempts to use it."""

from __future__ import annotations

import structlog

from app.domain.endpoint import Endpoint
from app.domain.errors import UpstreamError
from app.domain.request import InferenceRequest


class EventLog:
    """Writes one line per event."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("pointsman.fleet")

    def endpoint_changed(self, endpoint: Endpoint, change: str) -> None:
        """An endpoint went down, came up, or its metrics became unreadable."""
        level = self._log.info if change == "up" else self._log.warning
        level("endpoint changed", endpoint=endpoint.name, address=endpoint.authority, change=change)

    def attempt_failed(self, request: InferenceRequest, failure: UpstreamError) -> None:
        """An endpoint failed a request, before or during its response."""
        self._log.warning("attempt failed", id=request.id, endpoint=failure.endpoint, cause=failure.cause)

    def discovery_failed(self, error: Exception) -> None:
        """Discovery has stopped: changes of the endpoints are no longer noticed."""
        self._log.error("discovery ended", reason=f"{type(error).__name__}: {error}")
