"""The size of a request for each endpoint, less what that has cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from plugins.shared.columns import column_of, few_of
from pointsman import BYTES_PER_TOKEN, Column, InferenceRequest, PrefixShape


class PromptSize:
    """The size of one request's prompts, in tokens that an endpoint has not cached."""

    __slots__ = ("_block", "_hits", "_shape", "_size", "_tokens", "adapter", "prompts")

    def __init__(
        self, request: InferenceRequest, per_byte: float, hits: Mapping[str, float], shape: PrefixShape
    ) -> None:
        """`per_byte` is the number of tokens per byte of prompt."""
        size, block = request.prompt_bytes, shape.block_tokens * BYTES_PER_TOKEN
        self.prompts = request.prompts
        self.adapter = request.adapter or request.model
        self._tokens = size * per_byte
        self._block = block * per_byte
        self._hits = hits
        self._size = size
        self._shape = shape

    def uncached(self, names: tuple[str, ...]) -> Column:
        """For each of `names`, at least 1."""
        own = column_of(self._hits, names) * -self._block
        own += self._tokens
        return np.maximum(own, 1.0, out=own)

    def few(self, names: tuple[str, ...]) -> Sequence[float]:
        """The same in plain Python, which is faster for a few."""
        tokens, block = self._tokens, self._block
        cold = max(tokens, 1.0)
        return [max(tokens - hits * block, 1.0) if hits else cold for hits in few_of(self._hits, names)]

    def uncached_at(self, name: str) -> float:
        """For one endpoint."""
        return max(self._tokens - self._hits.get(name, 0.0) * self._block, 1.0)

    def is_cut(self, name: str) -> bool:
        """Whether the endpoint has all of the prompt that is compared, and maybe more of it."""
        shape = self._shape
        block = shape.block_tokens * BYTES_PER_TOKEN
        rest = self._size - shape.total_blocks * block
        return rest >= block * len(self.prompts) > 0 and 0 < shape.total_blocks <= self._hits.get(name, 0.0)
