"""`active-request-scorer`: prefers endpoints with fewer requests in flight."""

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
    """Prefers endpoints with fewer requests in flight, as counted by this process. Needs no metrics."""

    class Params(PluginParams):
        """The idle threshold and the score of busy endpoints."""

        idle_threshold: int = Field(default=0, ge=0)
        """An endpoint with at most this many requests is idle and scores 1."""
        max_busy_score: float = Field(default=1.0, ge=0.0, le=1.0)
        """The highest score of an endpoint that is not idle."""
        in_flight_load_producer_name: str = ""
        """The name of the producer of the counts. By default `inflight-load-producer`."""
        request_timeout: str | None = None
        """Ignored; accepted for compatibility. A request is counted until it ends."""

    def __init__(self, params: Params) -> None:
        self._idle = params.idle_threshold
        self._max_busy = params.max_busy_score
        self._key = IN_FLIGHT_REQUESTS.of(params.in_flight_load_producer_name)

    @classmethod
    def needs(cls, params: Params) -> tuple[AnyFactKey, ...]:
        """The requests in flight."""
        return (IN_FLIGHT_REQUESTS.of(params.in_flight_load_producer_name),)

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """1 for idle endpoints, else `(max - count) / max * max_busy_score`."""
        count = candidates.fact(self._key)
        most = max(float(count.max()), 1.0)
        return np.where(count <= self._idle, 1.0, (most - count) / most * self._max_busy)
