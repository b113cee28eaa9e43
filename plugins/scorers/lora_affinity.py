"""`lora-affinity-scorer`: prefers endpoints that have the requested LoRA adapter loaded."""

from __future__ import annotations

from pointsman import (
    ACTIVE_ADAPTERS,
    WAITING_ADAPTERS,
    Candidates,
    EndpointMetrics,
    InferenceRequest,
    Scores,
    plugin,
)

ACTIVE, ROOM, WAITING, FULL = 1.0, 0.8, 0.6, 0.0


@plugin("lora-affinity-scorer", category="affinity")
class LoraAffinityScorer:
    """Prefers endpoints that run the requested LoRA adapter (score 1), then those with room for another adapter (0.8),
    then those where it waits to be loaded (0.6). All others score 0, as do endpoints that report no adapters."""

    needs = (ACTIVE_ADAPTERS, WAITING_ADAPTERS)

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """Scores by the request's adapter, or by its model if it has none."""
        adapter = request.adapter or request.model
        return [_score(adapter, metrics) for metrics in candidates.metrics]


def _score(adapter: str, metrics: EndpointMetrics | None) -> float:
    if metrics is None:
        return FULL
    if adapter in metrics.running_adapters:
        return ACTIVE
    if len(metrics.running_adapters) + len(metrics.waiting_adapters) < metrics.max_adapters:
        return ROOM
    return WAITING if adapter in metrics.waiting_adapters else FULL
