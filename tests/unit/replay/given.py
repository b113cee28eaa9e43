"""Traces and fleets for tests, and a chooser that does as it is told."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.metrics import EndpointMetrics
from app.domain.usage import Usage
from app.replay.fleet import FleetOptions, VirtualFleet
from app.replay.trace import Segment, TraceRequest
from app.simulation.engine import EngineOptions

ENGINE = EngineOptions(
    prefill_tokens_per_second=1000.0, decode_tokens_per_second=10.0, num_gpu_blocks=1000, max_num_batched_tokens=100_000
)
"""A token of a prompt takes a millisecond, one of a response a tenth of a second."""


def fleet(endpoints: int = 2, **options: object) -> VirtualFleet:
    return VirtualFleet(FleetOptions(endpoints, ENGINE, **options))  # type: ignore[arg-type]


def request(arrival: float, *segments: tuple[int, int], output: int = 1) -> TraceRequest:
    return TraceRequest(arrival, tuple(Segment(tokens, content) for tokens, content in segments), output)


class Scripted:
    """Sends each request to the endpoint that was written for it, and keeps what it is told."""

    def __init__(self, endpoints: Sequence[int | None], scrape_interval: float = float("inf")) -> None:
        self.scrape_interval = scrape_interval
        self.told: list[tuple[str, int, float]] = []
        self.usages: dict[int, Usage] = {}
        self._endpoints = endpoints

    async def choose(self, number: int, request: TraceRequest, now: float) -> int | None:
        self.told.append(("choose", number, now))
        return self._endpoints[number]

    async def first_token(self, number: int, now: float) -> None:
        self.told.append(("first token", number, now))

    async def finish(self, number: int, now: float, usage: Usage) -> None:
        self.told.append(("finish", number, now))
        self.usages[number] = usage

    async def scrape(self, endpoint: int, metrics: EndpointMetrics, now: float) -> None:
        self.told.append((f"scrape {metrics.running:g} {metrics.waiting:g}", endpoint, now))
