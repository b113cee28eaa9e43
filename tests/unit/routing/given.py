"""A router over a real pool, with fake plugins and an observer that records what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.domain.decision import Decision, PluginFault
from app.domain.endpoint import Endpoint
from app.domain.errors import RoutingError
from app.domain.named import Named
from app.domain.outcome import Outcome
from app.domain.request import InferenceRequest
from app.fleet.pool import EndpointPool
from app.routing.in_flight import InFlightRequests
from app.routing.observers import Observers, Report
from app.routing.pipeline import Pipeline
from app.routing.router import Route, Router
from app.scheduling.scheduler import Scheduler
from pointsman.testing import FakeClock, make_endpoint
from tests.unit.scheduling.given import FakeProfilePicker, make_profile

ENDPOINTS = tuple(make_endpoint(name, port=8000 + row) for row, name in enumerate("abc"))


class DefaultOnly(FakeProfilePicker):
    """Asks for the profile `default` once per decision."""

    def pick_profiles(self, request: InferenceRequest, profiles: Sequence[str], finished: Any) -> Sequence[str]:
        return () if finished else ("default",)


class Diary:
    """An observer that records what it sees."""

    def __init__(self, name: str = "", entries: list[Any] | None = None) -> None:
        self.name = name
        self.entries: list[Any] = [] if entries is None else entries
        self.outcomes: list[Outcome] = []
        self.refusals: list[RoutingError] = []
        self.requests: list[InferenceRequest] = []

    def on_scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        self.requests.append(request)
        self.entries.append(f"{self.name}scheduled {decision.endpoint.name}")

    def on_first_token(self, request: InferenceRequest, decision: Decision) -> None:
        self.entries.append(f"{self.name}first token {decision.endpoint.name}")

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.entries.append(f"{self.name}finished {decision.endpoint.name}")

    def on_refused(self, request: InferenceRequest, error: RoutingError) -> None:
        self.refusals.append(error)
        self.entries.append(f"{self.name}refused {type(error).__name__}")


class Broken:
    """An observer that raises every time."""

    def on_scheduled(self, *_: Any) -> None:
        raise LookupError("scheduled")

    def on_first_token(self, *_: Any) -> None:
        raise LookupError("first token")

    def on_finished(self, *_: Any) -> None:
        raise LookupError("finished")

    def on_refused(self, *_: Any) -> None:
        raise LookupError("refused")


def respond(route: Route, status: int = 200) -> None:
    """Has the endpoint respond with one byte."""
    route.head(status)
    route.responds("text/plain", "")
    route.relay([b"x"])


class Setup:
    """A router, and everything it works with."""

    def __init__(
        self,
        *endpoints: Endpoint,
        producers: Sequence[Any] = (),
        observers: Sequence[Any] = (),
        profile: Any = None,
        retries: int = 2,
        producer_deadline: float = 60.0,
    ) -> None:
        self.clock = FakeClock()
        self.diary = Diary()
        self.faults: list[PluginFault] = []
        self.in_flight = InFlightRequests(self.faults.append)
        self.pool = EndpointPool(clock=self.clock, in_flight=self.in_flight.count)
        self.pool.replace_all(endpoints or ENDPOINTS)
        self.router = Router(
            pool=self.pool,
            in_flight=self.in_flight,
            clock=self.clock,
            pipeline=make_pipeline([*observers, self.diary], producers, profile, report=self.faults.append),
            retries=retries,
            producer_deadline=producer_deadline,
        )

    def next_router(self, *observers: Any) -> Router:
        """The router of another configuration, over the same table of endpoints and with the same requests in flight."""
        return Router(
            pool=EndpointPool(clock=self.clock, in_flight=self.in_flight.count, table=self.pool.table),
            in_flight=self.in_flight,
            clock=self.clock,
            pipeline=make_pipeline(observers),
        )

    @property
    def entries(self) -> list[Any]:
        """What the observers saw, in order."""
        return self.diary.entries

    @property
    def counts(self) -> dict[str, int]:
        """Requests in flight by endpoint, without those that have none."""
        found = {status.endpoint.name: self.in_flight.count(status.endpoint.name) for status in self.pool.statuses()}
        return {name: count for name, count in found.items() if count}


def make_pipeline(
    observers: Sequence[Any] = (),
    producers: Sequence[Any] = (),
    profile: Any = None,
    *,
    report: Report = lambda _: None,
) -> Pipeline:
    """A pipeline of one profile that picks the first endpoint; plugins are called `observer-0`, `producer-0`, …"""
    return Pipeline(
        Scheduler(Named("handler", DefaultOnly()), {"default": profile or make_profile()}),
        Observers([Named(f"observer-{row}", observer) for row, observer in enumerate(observers)], report=report),
        [Named(f"producer-{row}", producer) for row, producer in enumerate(producers)],
    )
