"""`max-score-picker`: picks the endpoints with the highest scores."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pointsman import Column, Endpoint, InferenceRequest, PluginParams, Random, Scored, plugin

FEW = 64
"""Up to this many totals, plain Python finds the maximum faster than numpy."""


@plugin("max-score-picker", category="")
class MaxScorePicker:
    """Picks the endpoints with the highest total scores. Ties are broken uniformly at random."""

    class Params(PluginParams):
        """The number of endpoints to pick."""

        max_num_of_endpoints: int = Field(default=1, ge=1)
        """The most endpoints to return to a proxy, best first."""

    def __init__(self, params: Params, random: Random) -> None:
        self._count = params.max_num_of_endpoints
        self._random = random

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:
        """The `max_num_of_endpoints` with the highest totals."""
        if self._count == 1:
            return (scored.candidates[self._best(scored)],)
        order = sorted(self._shuffled(len(scored)), key=scored.totals.tolist().__getitem__, reverse=True)
        return [scored.candidates[row] for row in order[: self._count]]

    def _best(self, scored: Scored) -> int:
        tied = _few_tied(scored.totals.tolist()) if len(scored) <= FEW else _many_tied(scored.totals)
        return tied[0] if len(tied) == 1 else tied[self._random.randrange(len(tied))]

    def _shuffled(self, count: int) -> list[int]:
        return self._random.sample(range(count), count)


def _few_tied(totals: list[float]) -> list[int]:
    highest = max(totals)
    return [row for row, total in enumerate(totals) if total == highest]


def _many_tied(totals: Column) -> list[int]:
    tied: list[int] = (totals == totals[totals.argmax()]).nonzero()[0].tolist()
    return tied
