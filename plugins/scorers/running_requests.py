"""`running-requests-size-scorer`: fewer running requests are better."""

from __future__ import annotations

from plugins.shared.scaling import LeastIsBest
from pointsman import RUNNING, Candidates, InferenceRequest, Scores, plugin


@plugin("running-requests-size-scorer", category="distribution")
class RunningRequestsScorer:
    """Prefers endpoints with fewer requests in their batch: 1 for the fewest, 0 for the most."""

    needs = (RUNNING,)

    def __init__(self) -> None:
        self._scale = LeastIsBest()

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:  # noqa: ARG002
        """`(max - running) / (max - min)`, 1 when all are equal."""
        return self._scale(candidates.running)
