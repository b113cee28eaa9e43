"""`weighted-random-picker`: picks endpoints at random, weighted by their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from pointsman import Endpoint, InferenceRequest, PluginParams, Random, Scored, plugin

LEAST = 1e-10
"""Replaces a random number of 0, which has no logarithm."""


@plugin("weighted-random-picker")
class WeightedRandomPicker:
    """Picks endpoints at random, with probabilities proportional to their total scores. This spreads a burst of
    requests between two scrapes, which `max-score-picker` would send to one endpoint.

    Endpoints with a total of 0 come last, in random order.
    """

    class Params(PluginParams):
        """The number of endpoints to pick."""

        max_num_of_endpoints: int = Field(default=1, ge=1)
        """The most endpoints to return to a proxy, best first."""

    def __init__(self, params: Params, random: Random) -> None:
        self._count = params.max_num_of_endpoints
        self._random = random

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:
        """Weighted sampling without replacement: algorithm A-Res (Efraimidis and Spirakis, 2006).

        It sorts by `u ** (1 / total)` with u uniform in (0, 1); here by its logarithm, `log(u) / total`.
        """
        keys = [self._key(total) for total in scored.totals.tolist()]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        return [scored.candidates[row] for row in order[: self._count]]

    def _key(self, total: float) -> tuple[bool, float]:
        u = self._random.random()
        if total <= 0:
            return False, u
        return True, math.log(u or LEAST) / total
