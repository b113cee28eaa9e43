"""`prefix-cache`: scores endpoints by how much of the prompt they have cached, learnt from past picks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import AliasChoices, Field

from plugins.shared.prefix_index import blocks_in, step_ends
from plugins.shared.prefix_memory import PrefixMemory
from pointsman import (
    BYTES_PER_TOKEN,
    PREFIX_HITS,
    PREFIX_SHAPE,
    AnyFactKey,
    Candidates,
    Decision,
    InferenceRequest,
    PluginName,
    PluginParams,
    Pool,
    PrefixShape,
    Scores,
    plugin,
)

NO_CAPACITIES: Mapping[str, int] = {}


@plugin("prefix-cache", category="affinity")
class PrefixCache:
    """Prefers endpoints that have the beginning of the prompt in their KV cache, according to past picks.

    One plugin instead of `approx-prefix-cache-producer` and `prefix-cache-scorer`, with a fixed block size. Each
    instance has its own memory. Other plugins can read what it finds under its name.
    """

    class Params(PluginParams):
        """Block size and limits."""

        hash_block_size: int = Field(default=64, ge=1, le=1024 * 1024)
        """Bytes of prompt per block."""
        max_prefix_blocks_to_match: int = Field(default=256, ge=1, le=1_000_000)
        """Blocks from the beginning of a prompt that are compared; the rest is not hashed."""
        lru_indexer_capacity: int = Field(
            default=31250,
            ge=1,
            le=100_000_000,
            validation_alias=AliasChoices("lruIndexerCapacity", "LRUIndexerSize", "lruCapacityPerServer"),
        )
        """Blocks remembered per endpoint (LRU)."""

    @classmethod
    def produces(cls, name: str, params: Params) -> tuple[AnyFactKey, ...]:  # noqa: ARG003
        """The matches, under this instance's name."""
        return (PREFIX_HITS.of(name), PREFIX_SHAPE.of(name))

    def __init__(self, params: Params, name: PluginName) -> None:
        self._params = params
        self._hits = PREFIX_HITS.of(name)
        self._shape = PREFIX_SHAPE.of(name)
        self._block_tokens = max(params.hash_block_size // BYTES_PER_TOKEN, 1)
        self._memory = PrefixMemory()

    def inherit_from(self, predecessor: PrefixCache) -> None:
        """Shares the memory, unless blocks are cut differently now."""
        if self._params.hash_block_size == predecessor._params.hash_block_size:
            self._memory = predecessor._memory

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        """Matched blocks per endpoint, and the request's blocks."""
        self._memory.follow(pool)
        params = self._params
        chains = self._memory.chains(request, params.hash_block_size, params.max_prefix_blocks_to_match)
        total = blocks_in(request, params.hash_block_size, params.max_prefix_blocks_to_match)
        if not total:
            return {}
        shape = PrefixShape(total, self._block_tokens, chains, step_ends())
        return {self._hits: self._memory.match(chains), self._shape: shape}

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`matched blocks / total blocks`; 0 for a prompt of less than a block."""
        total = request.facts.get(self._shape).total_blocks
        return candidates.fact(self._hits) / total if total else np.zeros(len(candidates))

    def on_scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        """Credits the endpoint picked, and the one that prefills, with the prompt."""
        chains = request.facts.get(self._shape).chains
        if chains:
            self._memory.credit(decision, chains, NO_CAPACITIES, self._params.lru_indexer_capacity)
