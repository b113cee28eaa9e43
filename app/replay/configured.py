"""Picks as a configuration does: with its plugins, profiles and producers, on the clock of the simulation."""

from __future__ import annotations

from app.domain.endpoint import Endpoint
from app.domain.errors import RoutingError
from app.domain.metrics import EndpointMetrics
from app.domain.request import InferenceRequest
from app.domain.usage import Usage
from app.fleet.pool import EndpointPool
from app.replay.trace import TraceRequest
from app.routing.router import Route, Router

PATH = "/v1/completions"
EVENT = b'data: {"choices": [{"text": "a"}]}\n\n'


class VirtualClock:
    """The clock of the simulation."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Seconds since the beginning of the replay."""
        return self.time


class ConfiguredChooser:
    """Has a router pick, and tells it of every response as a transport would."""

    def __init__(
        self, router: Router, pool: EndpointPool, clock: VirtualClock, endpoints: int, scrape_interval: float
    ) -> None:
        """Fills the pool with so many `endpoints`."""
        self.scrape_interval = scrape_interval
        self._router = router
        self._pool = pool
        self._clock = clock
        self._endpoints = [Endpoint(f"e{number}", "127.0.0.1", 8000 + number) for number in range(endpoints)]
        self._numbers = {endpoint.name: number for number, endpoint in enumerate(self._endpoints)}
        self._routes: dict[int, Route] = {}
        pool.replace_all(self._endpoints)

    async def choose(self, number: int, request: TraceRequest, now: float) -> int | None:
        """The endpoint that the router picks; None if it raises an error response."""
        self._clock.time = now
        route = self._router.route(
            InferenceRequest(
                str(number),
                PATH,
                model=request.model,
                prompts=(request.text(),),
                streaming=True,
                max_output_tokens=request.output_tokens,
            )
        )
        try:
            await route.__aenter__()
        except RoutingError:
            return None
        self._routes[number] = route
        return self._numbers[route.endpoint.name]

    async def first_token(self, number: int, now: float) -> None:
        """Relays the head and the first event of the response."""
        self._clock.time = now
        route = self._routes[number]
        route.head(200)
        route.responds("text/event-stream", "")
        route.relay((EVENT,))

    async def finish(self, number: int, now: float, usage: Usage) -> None:
        """Relays the usage and ends the request."""
        self._clock.time = now
        route = self._routes.pop(number)
        route.relay((_usage_event(usage),))
        await route.__aexit__(None, None, None)

    async def scrape(self, endpoint: int, metrics: EndpointMetrics, now: float) -> None:
        """Records the metrics, as the monitor does."""
        self._clock.time = now
        self._pool.record(self._endpoints[endpoint], metrics)


def _usage_event(usage: Usage) -> bytes:
    return (
        b'data: {"choices": [], "usage": {"prompt_tokens": %d, "completion_tokens": %d, '
        b'"prompt_tokens_details": {"cached_tokens": %d}}}\n\n'
        % (usage.prompt_tokens or 0, usage.completion_tokens or 0, usage.cached_tokens or 0)
    )
