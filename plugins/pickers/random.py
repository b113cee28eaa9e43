"""`random-picker`: any endpoint, each as likely as the other."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pointsman import Endpoint, InferenceRequest, PluginParams, Random, Scored, plugin


@plugin("random-picker")
class RandomPicker:
    """Picks uniformly at random; totals are not looked at."""

    class Params(PluginParams):
        """How many endpoints are announced."""

        max_num_of_endpoints: int = Field(default=1, ge=1)
        """Endpoints in the list given to a proxy; fewer if there are fewer."""

    def __init__(self, params: Params, random: Random) -> None:
        self._count = params.max_num_of_endpoints
        self._random = random

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:  # noqa: ARG002
        """`max_num_of_endpoints` of them, in random order."""
        rows = self._random.sample(range(len(scored)), min(self._count, len(scored)))
        return [scored.candidates[row] for row in rows]
