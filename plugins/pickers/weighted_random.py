"""`weighted-random-picker`: at random, the higher the total the likelier."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from pointsman import Endpoint, InferenceRequest, PluginParams, Random, Scored, plugin

LEAST = 1e-10
"""Stands for a random number of 0, whose logarithm does not exist."""


@plugin("weighted-random-picker")
class WeightedRandomPicker:
    """Picks at random, each endpoint with a probability in proportion to its total. It spreads bursts that arrive
    between two readings of the metrics, which the highest total would send to one endpoint.

    Endpoints whose total is 0 come last, in random order; if all are 0, each is as likely as the other.
    """

    class Params(PluginParams):
        """How many endpoints are announced."""

        max_num_of_endpoints: int = Field(default=1, ge=1)
        """Endpoints in the list given to a proxy, best first; fewer if there are fewer."""

    def __init__(self, params: Params, random: Random) -> None:
        self._count = params.max_num_of_endpoints
        self._random = random

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:  # noqa: ARG002
        """Weighted sampling without replacement: the largest `u ** (1 / total)` with u uniform in (0, 1).

        The method is A-Res (Efraimidis and Spirakis, 2006); keys are compared by `log(u) / total`.
        """
        keys = [self._key(total) for total in scored.totals.tolist()]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        return [scored.candidates[row] for row in order[: self._count]]

    def _key(self, total: float) -> tuple[bool, float]:
        u = self._random.random()
        if total <= 0:
            return False, u
        return True, math.log(u or LEAST) / total
