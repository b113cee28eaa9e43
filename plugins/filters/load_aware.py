"""`load-aware-filter`: removes overloaded endpoints."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pointsman import KV_CACHE_USAGE, WAITING, Candidates, InferenceRequest, Keep, PluginParams, plugin


@plugin("load-aware-filter")
class LoadAwareFilter:
    """Removes endpoints that are over a load threshold or whose metrics are unknown. If none is left, keeps all."""

    class Params(PluginParams):
        """The load thresholds."""

        queue_threshold: int = Field(default=128, ge=0)
        """The most waiting requests that an endpoint may have."""
        kv_threshold: float = Field(default=0.8, ge=0.0, le=1.0)
        """The largest share of its KV cache that an endpoint may use."""

    needs = (WAITING, KV_CACHE_USAGE)

    def __init__(self, params: Params) -> None:
        self._queue = params.queue_threshold
        self._kv = params.kv_threshold

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True for endpoints within both thresholds; True for all if there are none."""
        keep = candidates.known & (candidates.waiting <= self._queue) & (candidates.kv_cache_usage <= self._kv)
        return keep if keep.any() else np.ones(len(candidates), np.bool_)
