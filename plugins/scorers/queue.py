"""`queue-scorer`: prefers endpoints with shorter queues."""

from __future__ import annotations

from plugins.shared.scaling import LowestIsBest
from pointsman import WAITING, Candidates, InferenceRequest, Scores, plugin


@plugin("queue-scorer", aliases=("server-queue-length",), category="distribution")
class QueueScorer:
    """Prefers endpoints with fewer waiting requests: 1 for the shortest queue, 0 for the longest."""

    needs = (WAITING,)

    def __init__(self) -> None:
        self._scale = LowestIsBest()

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`(max - waiting) / (max - min)`; 1 when all queues are equal."""
        return self._scale(candidates.waiting)
