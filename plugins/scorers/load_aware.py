"""`load-aware-scorer`: prefers endpoints with shorter queues, on a fixed scale."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from plugins.shared.unseen import waiting_now
from pointsman import WAITING, Candidates, InferenceRequest, PluginParams, Scores, plugin


@plugin("load-aware-scorer", category="distribution")
class LoadAwareScorer:
    """Prefers endpoints with fewer waiting requests: 0.5 for an empty queue, 0 at the threshold and above.

    The score of an endpoint does not depend on the other candidates, unlike that of `queue-scorer`.
    """

    class Params(PluginParams):
        """The scale of the scores."""

        threshold: int = Field(default=128, ge=1)
        """The number of waiting requests at which the score reaches 0."""
        add_in_flight: bool = True
        """Whether requests count that were sent since the last scrape, and that the metrics don't show yet. The Go
        pickers don't count them."""

    needs = (WAITING,)

    def __init__(self, params: Params) -> None:
        self._threshold = params.threshold
        self._add_in_flight = params.add_in_flight

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`0.5 * (1 - min(waiting, threshold) / threshold)`."""
        waiting = waiting_now(candidates) if self._add_in_flight else candidates.waiting
        return 0.5 * (1.0 - np.minimum(waiting, self._threshold) / self._threshold)
