"""`random-picker`: picks endpoints uniformly at random."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pointsman import Endpoint, InferenceRequest, PluginParams, Random, Scored, plugin


@plugin("random-picker")
class RandomPicker:
    """Picks endpoints uniformly at random and ignores their scores."""

    class Params(PluginParams):
        """The number of endpoints to pick."""

        max_num_of_endpoints: int = Field(default=1, ge=1)
        """The most endpoints to return to a proxy."""

    def __init__(self, params: Params, random: Random) -> None:
        self._count = params.max_num_of_endpoints
        self._random = random

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:
        """`max_num_of_endpoints` candidates in random order."""
        rows = self._random.sample(range(len(scored)), min(self._count, len(scored)))
        return [scored.candidates[row] for row in rows]
