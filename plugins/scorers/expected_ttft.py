"""`expected-ttft-scorer`: prefers endpoints that are expected to give the first token soonest."""

from __future__ import annotations

import numpy as np

from pointsman import EXPECTED_TTFT, AnyFactKey, Candidates, InferenceRequest, PluginParams, Scores, plugin

SHORTEST = 1e-6
"""Seconds that every request takes at least, so that no score divides by zero."""


@plugin("expected-ttft-scorer", category="balance")
class ExpectedTtftScorer:
    """Prefers endpoints that are expected to give the first token soonest.

    One score in place of those for queue, load and prefix cache: it weighs a cached prefix against a queue in seconds.
    """

    class Params(PluginParams):
        """The producer of the estimates."""

        token_load_producer_name: str = ""
        """The name of the producer of the estimates. By default `token-load-producer`."""

    def __init__(self, params: Params) -> None:
        self._expected = EXPECTED_TTFT.of(params.token_load_producer_name)

    @classmethod
    def needs(cls, params: Params) -> tuple[AnyFactKey, ...]:
        """The estimates."""
        return (EXPECTED_TTFT.of(params.token_load_producer_name),)

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """`least expected / expected`: 1 for the soonest, 0.5 where the first token takes twice as long."""
        expected = candidates.fact(self._expected)
        least = min(expected.tolist())
        if least < SHORTEST:
            least, expected = SHORTEST, np.maximum(expected, SHORTEST)
        scores: Scores = least / expected
        return scores
