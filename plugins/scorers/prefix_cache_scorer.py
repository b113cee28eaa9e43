"""`prefix-cache-scorer`: prefers endpoints with more of the prompt in their KV cache."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pointsman import (
    PREFIX_HITS,
    PREFIX_SHAPE,
    AnyFactKey,
    Candidates,
    InferenceRequest,
    PluginParams,
    Scores,
    plugin,
)


@plugin("prefix-cache-scorer", category="affinity")
class PrefixCacheScorer:
    """Prefers endpoints that have more of the prompt's prefix in their KV cache."""

    class Params(PluginParams):
        """The producer of the matches, and the weight of their length."""

        prefix_match_info_producer_name: str = ""
        """The name of the producer of the matches. By default `approx-prefix-cache-producer`."""
        match_length_weight: float = Field(default=0.0, ge=0.0, le=1.0)
        """The weight of the match's length in tokens. The rest of the score is the matched share of the prompt."""
        match_length_scale_tokens: int = Field(default=8192, ge=1)
        """The length of a match, in tokens, at which the length score reaches 1."""

    def __init__(self, params: Params) -> None:
        self._hits = PREFIX_HITS.of(params.prefix_match_info_producer_name)
        self._shape = PREFIX_SHAPE.of(params.prefix_match_info_producer_name)
        self._length_weight = params.match_length_weight
        self._length_scale = params.match_length_scale_tokens

    @classmethod
    def needs(cls, params: Params) -> tuple[AnyFactKey, ...]:
        """The matches, and the blocks that they count."""
        producer = params.prefix_match_info_producer_name
        return (PREFIX_HITS.of(producer), PREFIX_SHAPE.of(producer))

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`w * min(1, matched tokens / scale)^2 + (1 - w) * matched blocks / total blocks`."""
        shape = request.facts.get(self._shape)
        if not shape.total_blocks:
            return np.zeros(len(candidates))
        hits = candidates.fact(self._hits)
        share = hits / shape.total_blocks
        if not self._length_weight:
            return share
        length = np.minimum(1.0, hits * (shape.block_tokens / self._length_scale)) ** 2
        return self._length_weight * length + (1.0 - self._length_weight) * share
