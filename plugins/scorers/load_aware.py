"""`load-aware-scorer`: short queues are better, up to a threshold."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pointsman import WAITING, Candidates, InferenceRequest, PluginParams, Scores, plugin


@plugin("load-aware-scorer", category="distribution")
class LoadAwareScorer:
    """Prefers endpoints with fewer waiting requests, by a fixed measure: 0.5 for an empty one, 0 from the threshold on.

    `queue-scorer` compares endpoints with each other; this one says the same of an endpoint whoever stands beside it.
    """

    class Params(PluginParams):
        """When a queue is full."""

        threshold: int = Field(default=128, ge=1)
        """Waiting requests at which the score is 0."""

    needs = (WAITING,)

    def __init__(self, params: Params) -> None:
        self._threshold = params.threshold

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:  # noqa: ARG002
        """`0.5 * (1 - min(waiting, threshold) / threshold)`."""
        return 0.5 * (1.0 - np.minimum(candidates.waiting, self._threshold) / self._threshold)
