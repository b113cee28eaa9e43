"""`kv-cache-utilization-scorer`: prefers endpoints with more free KV cache."""

from __future__ import annotations

from plugins.shared.scaling import Cached
from plugins.shared.unseen import kv_cache_usage_now
from pointsman import KV_CACHE_USAGE, Candidates, InferenceRequest, PluginParams, Scores, plugin


@plugin("kv-cache-utilization-scorer", aliases=("kv-cache-util",), category="distribution")
class KvCacheUtilizationScorer:
    """Prefers endpoints with more free KV cache. The score is the free share of the cache."""

    class Params(PluginParams):
        """What counts as used."""

        add_in_flight: bool = True
        """Whether requests count that were sent since the last scrape, and that the metrics don't show yet: each as
        much as a running request in the mean. The Go pickers don't count them."""

    needs = (KV_CACHE_USAGE,)

    def __init__(self, params: Params) -> None:
        self._free = Cached(lambda usage: 1.0 - usage)
        self._add_in_flight = params.add_in_flight

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`1 - usage`, not normalised over the candidates."""
        return self._free(kv_cache_usage_now(candidates) if self._add_in_flight else candidates.kv_cache_usage)
