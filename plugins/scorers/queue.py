"""`queue-scorer`: prefers endpoints with shorter queues."""

from __future__ import annotations

from plugins.shared.scaling import LowestIsBest
from plugins.shared.unseen import waiting_now
from pointsman import WAITING, Candidates, InferenceRequest, PluginParams, Scores, plugin


@plugin("queue-scorer", aliases=("server-queue-length",), category="distribution")
class QueueScorer:
    """Prefers endpoints with fewer waiting requests: 1 for the shortest queue, 0 for the longest."""

    class Params(PluginParams):
        """What counts as waiting."""

        add_in_flight: bool = True
        """Whether requests count that were sent since the last scrape, and that the metrics don't show yet. The Go
        pickers don't count them."""

    needs = (WAITING,)

    def __init__(self, params: Params) -> None:
        self._scale = LowestIsBest()
        self._add_in_flight = params.add_in_flight

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`(max - waiting) / (max - min)`; 1 when all queues are equal."""
        return self._scale(waiting_now(candidates) if self._add_in_flight else candidates.waiting)
