"""`active-request-scorer`: fewer of our own requests in flight are better."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pointsman import (
    IN_FLIGHT_REQUESTS,
    AnyFactKey,
    Candidates,
    InferenceRequest,
    PluginParams,
    Scores,
    plugin,
)


@plugin("active-request-scorer", category="distribution")
class ActiveRequestScorer:
    """Prefers endpoints with fewer requests in flight from this process; needs no metrics."""

    class Params(PluginParams):
        """When an endpoint counts as idle, and how well a busy one may score."""

        idle_threshold: int = Field(default=0, ge=0)
        """Requests up to which an endpoint is idle and scores 1."""
        max_busy_score: float = Field(default=1.0, ge=0.0, le=1.0)
        """Upper bound of a busy endpoint's score."""
        in_flight_load_producer_name: str = ""
        """The producer whose counts are read; empty for `inflight-load-producer`."""
        request_timeout: str | None = None
        """Accepted from older files and ignored: a count ends with its request."""

    def __init__(self, params: Params) -> None:
        self._idle = params.idle_threshold
        self._max_busy = params.max_busy_score
        self._key = IN_FLIGHT_REQUESTS.of(params.in_flight_load_producer_name)

    @classmethod
    def needs(cls, params: Params) -> tuple[AnyFactKey, ...]:
        """The in-flight counts."""
        return (IN_FLIGHT_REQUESTS.of(params.in_flight_load_producer_name),)

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:  # noqa: ARG002
        """1 up to the idle threshold, else `(max - count) / max * max_busy_score`."""
        count = candidates.fact(self._key)
        most = max(float(count.max()), 1.0)
        return np.where(count <= self._idle, 1.0, (most - count) / most * self._max_busy)
