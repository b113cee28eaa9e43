"""`running-requests-size-scorer`: prefers endpoints with fewer running requests."""

from __future__ import annotations

from plugins.shared.scaling import LowestIsBest
from pointsman import RUNNING, Candidates, InferenceRequest, Scores, plugin


@plugin("running-requests-size-scorer", category="distribution")
class RunningRequestsScorer:
    """Prefers endpoints with fewer running requests: 1 for the fewest, 0 for the most."""

    needs = (RUNNING,)

    def __init__(self) -> None:
        self._scale = LowestIsBest()

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`(max - running) / (max - min)`; 1 when all are equal."""
        return self._scale(candidates.running)
