"""The replay: arrivals, iterations of engines and scrapes, in the order of virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from app.domain.usage import Usage
from app.replay.choosing import Chooser
from app.replay.fleet import VirtualFleet
from app.replay.trace import TraceRequest
from app.simulation.sequences import EngineSequence

Progress = Callable[[int], None]
"""Called with the number of requests that have ended."""


def _ignore(_: int) -> None:
    pass


@dataclass(slots=True)
class Served:
    """What became of a request. Times are in seconds of virtual time; None means that it did not come to that."""

    arrival: float
    prompt_tokens: int
    foreign: bool = False
    """Whether another router sent it."""
    endpoint: int | None = None
    """None if it was refused."""
    first_token: float | None = None
    end: float | None = None
    cached_tokens: int = 0
    output_tokens: int = 0

    @property
    def ttft(self) -> float | None:
        """Seconds from arrival to first token."""
        return None if self.first_token is None else self.first_token - self.arrival


@dataclass(slots=True)
class Run:
    """All requests of a replay, in the order of the trace, and what the endpoints had to do."""

    requests: list[Served]
    work: list[int]
    """Uncached prompt tokens per endpoint."""
    longest_queue: int = 0
    """Most requests that waited in one engine."""
    preemptions: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    """Failures of plugins, and how often each happened."""
    queues: list[list[tuple[float, int]]] = field(default_factory=list)
    """Per endpoint the requests in it over time, in seconds, at each arrival there."""


async def replay(
    requests: Sequence[TraceRequest],
    fleet: VirtualFleet,
    chooser: Chooser,
    *,
    foreign: frozenset[int] = frozenset(),
    seed: int = 0,
    progress: Progress = _ignore,
) -> Run:
    """Replays `requests` in virtual time. Those in `foreign` go to random endpoints, unknown to `chooser`."""
    return await _Replay(requests, fleet, chooser, foreign, Random(seed), progress).run()


class _Replay:
    def __init__(
        self,
        requests: Sequence[TraceRequest],
        fleet: VirtualFleet,
        chooser: Chooser,
        foreign: frozenset[int],
        random: Random,
        progress: Progress,
    ) -> None:
        self._trace = requests
        self._fleet = fleet
        self._chooser = chooser
        self._random = random
        self._progress = progress
        count = len(fleet.engines)
        served = [
            Served(one.arrival, one.prompt_tokens, number in foreign, output_tokens=one.output_tokens)
            for number, one in enumerate(requests)
        ]
        self._run = Run(served, [0] * count, queues=[[] for _ in range(count)])
        self._sequences: dict[EngineSequence, int] = {}
        self._next = 0
        self._ended = 0
        interval = chooser.scrape_interval
        self._scrapes = [(interval * number / count, number) for number in range(count)] if interval < 1e9 else []  # noqa: PLR2004
        heapq.heapify(self._scrapes)

    async def run(self) -> Run:
        """To the last token of the last request."""
        fleet = self._fleet
        while self._ended < len(self._trace):
            arrival, scrape = self._next_arrival(), self._next_scrape()
            if fleet.next_end <= min(arrival, scrape):
                await self._end_iteration()
            elif scrape <= arrival:
                await self._scrape()
            else:
                await self._arrive()
        self._run.preemptions = sum(engine.counters.preemptions for engine in fleet.engines)
        return self._run

    def _next_arrival(self) -> float:
        return self._trace[self._next].arrival if self._next < len(self._trace) else float("inf")

    def _next_scrape(self) -> float:
        return self._scrapes[0][0] if self._scrapes else float("inf")

    async def _arrive(self) -> None:
        number, request = self._next, self._trace[self._next]
        self._next += 1
        served = self._run.requests[number]
        endpoint = await self._endpoint_of(number, request)
        if endpoint is None:
            self._end_request()
            return
        sequence = self._fleet.submit(endpoint, served.prompt_tokens, request.chain(), request.output_tokens)
        served.endpoint = endpoint
        self._sequences[sequence] = number
        engine = self._fleet.engines[endpoint]
        self._run.queues[endpoint].append((request.arrival, len(engine.waiting) + len(engine.running)))
        self._run.longest_queue = max(self._run.longest_queue, len(engine.waiting))
        self._continue(endpoint, request.arrival)

    async def _endpoint_of(self, number: int, request: TraceRequest) -> int | None:
        """Where the request goes; None if it is refused, or would be by every engine."""
        if not self._fleet.fits(request.prompt_tokens + request.output_tokens):
            return None
        if self._run.requests[number].foreign:
            return self._random.randrange(len(self._fleet.engines))
        return await self._chooser.choose(number, request, request.arrival)

    async def _scrape(self) -> None:
        now, endpoint = self._scrapes[0]
        heapq.heapreplace(self._scrapes, (now + self._chooser.scrape_interval, endpoint))
        await self._chooser.scrape(endpoint, self._fleet.metrics(endpoint), now)

    async def _end_iteration(self) -> None:
        endpoint, now, step = self._fleet.pop()
        for sequence in step.advanced:
            number = self._sequences[sequence]
            served = self._run.requests[number]
            if served.first_token is None:
                served.first_token, served.cached_tokens = now, sequence.cached_tokens
                self._run.work[endpoint] += served.prompt_tokens - sequence.cached_tokens
                if not served.foreign:
                    await self._chooser.first_token(number, now)
            if sequence.finished:
                served.end = now
                del self._sequences[sequence]
                self._end_request()
                if not served.foreign:
                    usage = Usage(served.prompt_tokens, sequence.generated, served.cached_tokens)
                    await self._chooser.finish(number, now, usage)
        self._continue(endpoint, now)

    def _continue(self, endpoint: int, now: float) -> None:
        self._fleet.run(endpoint, now, min(self._next_arrival(), self._next_scrape()))

    def _end_request(self) -> None:
        self._ended += 1
        self._progress(self._ended)
