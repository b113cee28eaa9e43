"""The greedy oracle: knows every cache and every queue, and picks the endpoint that gives the first token soonest."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from app.domain.metrics import EndpointMetrics
from app.domain.usage import Usage
from app.replay.fleet import VirtualFleet
from app.replay.trace import TraceRequest
from app.simulation.engine import BLOCK_TOKENS, Engine

EQUAL = 1e-9
"""Seconds within which two endpoints are equally good."""


class GreedyOracle:
    """Picks by the tokens that each engine has yet to compute, those of the request itself included, over its rate."""

    scrape_interval = float("inf")

    def __init__(self, fleet: VirtualFleet, random: Random) -> None:
        self._fleet = fleet
        self._random = random

    async def choose(self, number: int, request: TraceRequest, now: float) -> int | None:
        """The endpoint with the least time, one of several at random."""
        chain = request.chain()
        times = [time_to_first_token(engine, request.prompt_tokens, chain, now) for engine in self._fleet.engines]
        least = min(times)
        best = [endpoint for endpoint, time in enumerate(times) if time <= least + EQUAL]
        return best[self._random.randrange(len(best))]

    async def first_token(self, number: int, now: float) -> None:
        """Nothing to learn."""

    async def finish(self, number: int, now: float, usage: Usage) -> None:
        """Nothing to learn."""

    async def scrape(self, endpoint: int, metrics: EndpointMetrics, now: float) -> None:
        """Needs none."""


def time_to_first_token(engine: Engine, prompt_tokens: int, chain: Sequence[int], now: float) -> float:
    """Seconds before the first token of a prompt that is queued now: the rest of the iteration, and the prefill."""
    computing = [sequence for sequence in engine.running if sequence.computed < sequence.to_compute]
    left = sum([sequence.to_compute - sequence.computed for sequence in computing])
    ahead: set[int] = set()
    for sequence in computing:
        ahead.update(sequence.chain)
    for sequence in engine.waiting:
        left += _uncached(engine, sequence.prompt_tokens + sequence.generated, sequence.chain, ahead)
        ahead.update(sequence.chain)
    left += _uncached(engine, prompt_tokens, chain, ahead)
    iteration = max(engine.now - now, 0.0)  # its end was computed when it began
    return iteration + left / engine.options.prefill_tokens_per_second


def _uncached(engine: Engine, tokens: int, chain: Sequence[int], ahead: set[int]) -> int:
    """Tokens to compute. Caches hold prefixes without gaps, so the end of a match is found by bisection."""
    low, high = 0, min(len(chain), (tokens - 1) // BLOCK_TOKENS)
    while low < high:
        middle = (low + high) // 2
        if chain[middle] in ahead or chain[middle] in engine.cache:
            low = middle + 1
        else:
            high = middle
    return tokens - low * BLOCK_TOKENS
