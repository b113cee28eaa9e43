"""The facts that plugins of different authors share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.facts import EndpointFactKey, FactKey


@dataclass(frozen=True, slots=True)
class PrefixShape:
    """How a request's prompts were cut into blocks."""

    total_blocks: int = 0
    """Blocks of all prompts."""
    block_tokens: int = 0
    """Tokens per block."""
    chains: Sequence[Sequence[int]] = ()
    """Per prompt, the chained hashes of its beginnings, as the producer cut them."""


_PREFIX_PRODUCER = "approx-prefix-cache-producer"
_LOAD_PRODUCER = "inflight-load-producer"
_EXTRACTOR = "core-metrics-extractor"

PREFIX_HITS = EndpointFactKey("prefix-hits", _PREFIX_PRODUCER)
"""Blocks of the request, from its beginning on and without a gap, that an endpoint has in its cache."""

PREFIX_SHAPE = FactKey("prefix-shape", _PREFIX_PRODUCER, PrefixShape())
"""What `PREFIX_HITS` is counted against."""

IN_FLIGHT_REQUESTS = EndpointFactKey("in-flight-requests", _LOAD_PRODUCER)
"""Requests in flight to an endpoint, of every profile's pick. Live."""

IN_FLIGHT_TOKENS = EndpointFactKey("in-flight-tokens", _LOAD_PRODUCER)
"""Estimated tokens that an endpoint has yet to work off for requests in flight. Live."""

UNCACHED_TOKENS = EndpointFactKey("uncached-tokens", _LOAD_PRODUCER)
"""Estimated tokens that this request would cost an endpoint, given what it has cached."""

WAITING = EndpointFactKey("WaitingQueueSize", _EXTRACTOR)
"""Stands for `candidates.waiting`: a plugin that reads the column needs this fact."""

RUNNING = EndpointFactKey("RunningRequestsSize", _EXTRACTOR)
"""Stands for `candidates.running`."""

KV_CACHE_USAGE = EndpointFactKey("KVCacheUsagePercent", _EXTRACTOR)
"""Stands for `candidates.kv_cache_usage`."""

ACTIVE_ADAPTERS = EndpointFactKey("ActiveModels", _EXTRACTOR)
"""Stands for the `running_adapters` of `candidates.metrics`: a plugin that reads them needs this fact."""

WAITING_ADAPTERS = EndpointFactKey("WaitingModels", _EXTRACTOR)
"""Stands for the `waiting_adapters` of `candidates.metrics`."""
