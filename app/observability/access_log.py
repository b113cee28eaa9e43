"""The access log: one line per request, with the endpoint that was picked."""

from __future__ import annotations

import structlog

from app.domain.decision import Decision
from app.domain.errors import RoutingError
from app.domain.outcome import Outcome
from app.domain.request import InferenceRequest


class AccessLog:
    """Logs each request when it ends."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("pointsman.access")

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """Logs a request that ended with this attempt. An attempt that was followed by another is not logged."""
        if not outcome.final:
            return
        self._log.info(
            "request",
            id=request.id,
            path=request.path,
            model=request.model,
            endpoint=decision.endpoint.name,
            profile=decision.primary,
            status=outcome.status,
            ending=str(outcome.ending),
            attempts=outcome.attempts,
            first_byte_ms=None if outcome.first_byte is None else round(outcome.first_byte * 1000, 1),
            duration_ms=round(outcome.duration * 1000, 1),
            bytes=outcome.response_bytes,
        )

    def on_refused(self, request: InferenceRequest, error: RoutingError) -> None:
        """Logs a request that the router refused, with the reason."""
        self._log.warning(
            "request refused",
            id=request.id,
            path=request.path,
            model=request.model,
            error=type(error).__name__,
            reason=str(error),
        )
