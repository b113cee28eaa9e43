"""`load-aware-filter`: endpoints that are not overloaded."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pointsman import KV_CACHE_USAGE, WAITING, Candidates, InferenceRequest, Keep, PluginParams, plugin


@plugin("load-aware-filter")
class LoadAwareFilter:
    """Keeps endpoints whose metrics are known and within both thresholds; if there are none, all of them."""

    class Params(PluginParams):
        """What counts as overloaded."""

        queue_threshold: int = Field(default=128, ge=0)
        """Waiting requests up to which an endpoint is kept."""
        kv_threshold: float = Field(default=0.8, ge=0.0, le=1.0)
        """Used share of the KV cache up to which an endpoint is kept."""

    needs = (WAITING, KV_CACHE_USAGE)

    def __init__(self, params: Params) -> None:
        self._queue = params.queue_threshold
        self._kv = params.kv_threshold

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:  # noqa: ARG002
        """True for those that can take more."""
        keep = candidates.known & (candidates.waiting <= self._queue) & (candidates.kv_cache_usage <= self._kv)
        return keep if keep.any() else np.ones(len(candidates), np.bool_)
