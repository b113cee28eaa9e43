"""The facts that plugins of different authors exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.facts import EndpointFactKey, FactKey


@dataclass(frozen=True, slots=True)
class PrefixShape:
    """How a request's prompts are divided into blocks."""

    total_blocks: int = 0
    """Blocks in all prompts."""
    block_tokens: int = 0
    """Tokens per block."""
    chains: Sequence[Sequence[int]] = ()
    """One sequence of chained hashes per prompt; each hash identifies a prefix of the prompt."""
    ends: Sequence[int] = ()
    """How many blocks of its prompt each hash of a chain identifies. Empty if each stands for one block more."""


_PREFIX_PRODUCER = "approx-prefix-cache-producer"
_LOAD_PRODUCER = "inflight-load-producer"
_QUEUE_PRODUCER = "token-load-producer"
_EXTRACTOR = "core-metrics-extractor"

PREFIX_HITS = EndpointFactKey("prefix-hits", _PREFIX_PRODUCER)
"""Blocks of the request that an endpoint has cached, counted from the start of the prompt up to the first gap."""

PREFIX_SHAPE = FactKey("prefix-shape", _PREFIX_PRODUCER, PrefixShape())
"""The blocks that `PREFIX_HITS` counts."""

IN_FLIGHT_REQUESTS = EndpointFactKey("in-flight-requests", _LOAD_PRODUCER)
"""Requests in flight to an endpoint, counting the pick of every profile. Live."""

IN_FLIGHT_TOKENS = EndpointFactKey("in-flight-tokens", _LOAD_PRODUCER)
"""Estimated tokens that an endpoint has yet to process for requests in flight. Live."""

UNCACHED_TOKENS = EndpointFactKey("uncached-tokens", _LOAD_PRODUCER)
"""Estimated tokens of this request that an endpoint would have to process, less those that it has cached."""

TOKEN_LOAD = EndpointFactKey("token-load", _QUEUE_PRODUCER)
"""Tokens of prompts that an endpoint has yet to process before a new request's turn comes. Live."""

PREFILL_RATE = EndpointFactKey("prefill-rate", _QUEUE_PRODUCER)
"""Prompt tokens that an endpoint processes per second, as learnt. Live."""

EXPECTED_TTFT = EndpointFactKey("expected-ttft", _QUEUE_PRODUCER)
"""Expected seconds until the first token of this request, for each endpoint. Live."""

WAITING = EndpointFactKey("WaitingQueueSize", _EXTRACTOR)
"""The column `candidates.waiting`. A plugin that reads the column declares that it needs this fact."""

RUNNING = EndpointFactKey("RunningRequestsSize", _EXTRACTOR)
"""The column `candidates.running`."""

KV_CACHE_USAGE = EndpointFactKey("KVCacheUsagePercent", _EXTRACTOR)
"""The column `candidates.kv_cache_usage`."""

ACTIVE_ADAPTERS = EndpointFactKey("ActiveModels", _EXTRACTOR)
"""`running_adapters` in `candidates.metrics`. A plugin that reads it declares that it needs this fact."""

WAITING_ADAPTERS = EndpointFactKey("WaitingModels", _EXTRACTOR)
"""`waiting_adapters` in `candidates.metrics`."""
