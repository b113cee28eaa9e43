"""Simulated engines in virtual time: what happens next, and when."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.domain.metrics import EndpointMetrics
from app.simulation.engine import BLOCK_TOKENS, Engine, EngineOptions
from app.simulation.sequences import EngineSequence, Step


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The engines."""

    endpoints: int = 8
    engine: EngineOptions = field(
        default_factory=lambda: EngineOptions(
            max_num_seqs=256,
            num_gpu_blocks=32768,
            prefill_tokens_per_second=6400.0,
            decode_tokens_per_second=40.0,
            decode_slowdown=0.01,
        )
    )
    speeds: Mapping[int, float] = field(default_factory=dict)
    """Speed of an endpoint by its number, as a share of the others'."""

    def engine_of(self, number: int) -> EngineOptions:
        """The options of one engine."""
        speed = self.speeds.get(number, 1.0)
        return replace(
            self.engine,
            prefill_tokens_per_second=self.engine.prefill_tokens_per_second * speed,
            decode_tokens_per_second=self.engine.decode_tokens_per_second * speed,
        )

    @property
    def capacity(self) -> float:
        """Prompt tokens per second of all engines."""
        return sum(self.engine_of(number).prefill_tokens_per_second for number in range(self.endpoints))


class Done(NamedTuple):
    """An iteration of an engine that has ended."""

    endpoint: int
    time: float
    step: Step


class VirtualFleet:
    """Engines, each busy with an iteration or idle."""

    def __init__(self, options: FleetOptions) -> None:
        self.engines: Sequence[Engine] = [Engine(options.engine_of(number)) for number in range(options.endpoints)]
        self._ends: list[tuple[float, int]] = []
        self._steps: dict[int, Step] = {}

    def fits(self, tokens: int) -> bool:
        """Whether a prompt and its output have room in every KV cache."""
        return all(tokens <= engine.options.num_gpu_blocks * BLOCK_TOKENS for engine in self.engines)

    def submit(self, endpoint: int, prompt_tokens: int, chain: Sequence[int], output_tokens: int) -> EngineSequence:
        """Queues a prompt that `fits`. Call `run` then."""
        return self.engines[endpoint].submit_hashed(prompt_tokens, chain, output_tokens=output_tokens)

    def run(self, endpoint: int, now: float, until: float) -> None:
        """Begins an iteration at `now` if the engine has work and is in none. Nothing arrives before `until`."""
        engine = self.engines[endpoint]
        if endpoint in self._steps or not engine.has_work:
            return
        engine.now = now
        self._steps[endpoint] = engine.fast_forward(until) or engine.step()
        heapq.heappush(self._ends, (engine.now, endpoint))

    @property
    def next_end(self) -> float:
        """When the next iteration ends; infinite if none runs."""
        return self._ends[0][0] if self._ends else float("inf")

    def pop(self) -> Done:
        """Ends the iteration that `next_end` is about."""
        time, endpoint = heapq.heappop(self._ends)
        return Done(endpoint, time, self._steps.pop(endpoint))

    def metrics(self, endpoint: int) -> EndpointMetrics:
        """What the engine's metrics page says."""
        engine = self.engines[endpoint]
        return EndpointMetrics(
            waiting=float(len(engine.waiting)),
            running=float(len(engine.running)),
            kv_cache_usage=engine.cache.usage,
            engine="vllm",
            block_size=BLOCK_TOKENS,
            num_blocks=engine.options.num_gpu_blocks,
        )
