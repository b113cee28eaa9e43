"""Requests that were picked since the engines' metrics were scraped, and that the metrics can't show yet."""

from __future__ import annotations

import numpy as np

from pointsman import Candidates, Column


def unseen(candidates: Candidates) -> Column | None:
    """Requests that this process has in flight to each candidate, beyond those that its metrics show. None if there is
    none anywhere."""
    beyond: Column = candidates.in_flight - candidates.waiting - candidates.running
    if beyond.max(initial=0.0) <= 0.0:
        return None
    return np.maximum(beyond, 0.0)


def waiting_now(candidates: Candidates) -> Column:
    """Requests waiting in the queue of the engine, with those that the metrics don't show yet."""
    beyond = unseen(candidates)
    return candidates.waiting if beyond is None else candidates.waiting + beyond


def kv_cache_usage_now(candidates: Candidates) -> Column:
    """Share of the KV cache in use, 0 to 1. Each request that the metrics don't show yet counts as much as a running
    request does in the mean."""
    beyond, usage = unseen(candidates), candidates.kv_cache_usage
    if beyond is None:
        return usage
    running = float(candidates.running.sum())
    each = float(usage.sum()) / running if running else 0.0
    return np.minimum(usage + beyond * each, 1.0)
