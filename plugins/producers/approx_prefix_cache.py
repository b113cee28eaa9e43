"""`approx-prefix-cache-producer`: how much of the prompt each endpoint has cached, learnt from past picks."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from plugins.shared.prefix_index import blocks_in, step_ends
from plugins.shared.prefix_memory import PrefixMemory
from pointsman import (
    BYTES_PER_TOKEN,
    PREFIX_HITS,
    PREFIX_SHAPE,
    AnyFactKey,
    Clock,
    Decision,
    InferenceRequest,
    PluginName,
    PluginParams,
    Pool,
    PrefixShape,
    plugin,
)

DEFAULT_BLOCK_TOKENS = 16

TUNED_BLOCK_TOKENS = 64
"""Smallest block with `autoTune`: smaller ones cost more hashing than they gain."""

TUNE_EVERY = 1.0
"""Seconds between two reads of the engines' cache sizes."""


@plugin("approx-prefix-cache-producer", aliases=("multicluster-approx-prefix-cache-producer",))
class ApproxPrefixCacheProducer:
    """Remembers which prompts went to which endpoint, and finds how much of a new prompt each has seen.

    Prompts are compared in blocks. Only a match from the beginning without gaps counts, and only within the same model,
    adapter and cache salt. What an endpoint is assumed to hold is bounded by the size of its cache (LRU).
    """

    class Params(PluginParams):
        """Block size and bounds."""

        auto_tune: bool = True
        """Follow the engine: use its block size, in multiples of at least 64 tokens, and the size of its cache."""
        block_size_tokens: int | None = Field(default=None, ge=1, le=65536)
        """Tokens per block, 16 by default. With `autoTune` at least 64, and only if the engine reports none."""
        block_size: int | None = Field(default=None, ge=1, le=65536)
        """Older name of `blockSizeTokens`, used if that one is not set."""
        max_prefix_tokens_to_match: int = Field(default=131072, ge=0)
        """Tokens from the beginning of a prompt that are compared; the rest is not hashed. 0 for no limit in tokens."""
        max_prefix_blocks_to_match: int = Field(default=2048, ge=0)
        """Older limit, in blocks, used if `maxPrefixTokensToMatch` is 0. Both 0 for no limit."""
        lru_capacity_per_server: int = Field(default=31250, ge=1, le=100_000_000)
        """Blocks remembered per endpoint whose cache size is unknown."""

    @classmethod
    def produces(cls, name: str, params: Params) -> tuple[AnyFactKey, ...]:  # noqa: ARG003
        """The matches, under this instance's name."""
        return (PREFIX_HITS.of(name), PREFIX_SHAPE.of(name))

    def __init__(self, params: Params, name: PluginName, clock: Clock) -> None:
        self._params = params
        self._clock = clock
        self._hits = PREFIX_HITS.of(name)
        self._shape = PREFIX_SHAPE.of(name)
        self._memory = PrefixMemory()
        self._tune_at = 0.0
        self._capacity: dict[str, int] = {}
        self._use_blocks_of(self._configured_block_tokens())

    def inherit_from(self, predecessor: ApproxPrefixCacheProducer) -> None:
        """Shares the memory, unless blocks are cut differently now."""
        if self._block_tokens == predecessor._configured_block_tokens() and self._tunes_like(predecessor):
            self._memory = predecessor._memory
            self._use_blocks_of(predecessor._block_tokens)

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        """Matched blocks per endpoint, and the request's blocks."""
        self._memory.follow(pool)
        self._tune_to(pool)
        chains = self._memory.chains(request, self._block_bytes, self._max_blocks)
        total = blocks_in(request, self._block_bytes, self._max_blocks)
        if not total:
            return {}
        shape = PrefixShape(total, self._block_tokens, chains, step_ends())
        return {self._hits: self._memory.match(chains), self._shape: shape}

    def on_scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        """Credits the endpoint picked, and the one that prefills, with the prompt."""
        chains = request.facts.get(self._shape).chains
        if chains:
            self._memory.credit(decision, chains, self._capacity, self._params.lru_capacity_per_server)

    def _tunes_like(self, other: ApproxPrefixCacheProducer) -> bool:
        return self._params.auto_tune == other._params.auto_tune

    def _tune_to(self, pool: Pool) -> None:
        now = self._clock.now()
        if self._params.auto_tune and now >= self._tune_at:
            self._tune_at = now + TUNE_EVERY
            self._tune(pool)

    def _tune(self, pool: Pool) -> None:
        candidates = pool.candidates()
        known = [(name, m) for name, m in zip(candidates.names, candidates.metrics, strict=True) if m]
        sizes = [metrics.block_size for _, metrics in known if metrics.block_size]
        if sizes:
            self._use_blocks_of(-(-TUNED_BLOCK_TOKENS // sizes[0]) * sizes[0])
        self._capacity = {
            name: max(metrics.num_blocks * metrics.block_size // self._block_tokens, 1)
            for name, metrics in known
            if metrics.num_blocks and metrics.block_size
        }

    def _configured_block_tokens(self) -> int:
        params = self._params
        size = params.block_size_tokens or params.block_size or DEFAULT_BLOCK_TOKENS
        return max(size, TUNED_BLOCK_TOKENS) if params.auto_tune else size

    def _use_blocks_of(self, tokens: int) -> None:
        params = self._params
        self._block_tokens = tokens
        self._block_bytes = tokens * BYTES_PER_TOKEN
        bound = params.max_prefix_tokens_to_match // tokens
        if not params.max_prefix_tokens_to_match:
            bound = params.max_prefix_blocks_to_match or 2**31
        self._max_blocks = bound
