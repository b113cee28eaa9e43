"""`kv-cache-utilization-scorer`: prefers endpoints with more free KV cache."""

from __future__ import annotations

from plugins.shared.scaling import Cached
from pointsman import KV_CACHE_USAGE, Candidates, InferenceRequest, Scores, plugin


@plugin("kv-cache-utilization-scorer", aliases=("kv-cache-util",), category="distribution")
class KvCacheUtilizationScorer:
    """Prefers endpoints with more free KV cache. The score is the free share of the cache."""

    needs = (KV_CACHE_USAGE,)

    def __init__(self) -> None:
        self._free = Cached(lambda usage: 1.0 - usage)

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`1 - usage`, not normalised over the candidates."""
        return self._free(candidates.kv_cache_usage)
