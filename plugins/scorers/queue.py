"""`queue-scorer`: fewer waiting requests are better."""

from __future__ import annotations

from plugins.shared.scaling import least_is_best
from pointsman import WAITING, Candidates, InferenceRequest, Scores, plugin


@plugin("queue-scorer", aliases=("server-queue-length",), category="distribution")
class QueueScorer:
    """Prefers endpoints with fewer waiting requests: 1 for the shortest queue, 0 for the longest."""

    needs = (WAITING,)

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:  # noqa: ARG002
        """`(max - waiting) / (max - min)`, 1 when all queues are equal."""
        return least_is_best(candidates.waiting)
