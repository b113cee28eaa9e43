"""The life of one request. START READING HERE.

    async with router.route(request) as route:    gather facts, decide, count in flight
        ... send to route.endpoint                 the transport's work
        route.retry(error)                         the endpoint failed before it answered: decide again
        route.served_by(address)                   or a proxy went on to another endpoint by itself
        route.first_byte(status)
                                                   on leaving: count down, tell the observers, once

The block is the request's life, so that no way out of it, cancelling included, can leak an in-flight count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from app.domain.decision import Decision, PluginFault
from app.domain.endpoint import Endpoint
from app.domain.errors import (
    ModelNotFoundError,
    NoEndpointsError,
    PluginError,
    RoutingError,
    SaturatedError,
    UpstreamError,
)
from app.domain.outcome import Ending, Outcome
from app.domain.request import InferenceRequest, RawRequest
from app.domain.usage import Usage
from app.extension.services import Clock
from app.fleet.pool import EndpointPool
from app.routing.gathering import gather
from app.routing.in_flight import InFlightCounts
from app.routing.pipeline import Pipeline

OnFailure = Callable[[InferenceRequest, Endpoint, UpstreamError], None]


def _ignore(_request: InferenceRequest, _endpoint: Endpoint, _failure: UpstreamError) -> None:
    pass


class Router:
    """Routes requests over a pool with the current pipeline."""

    def __init__(  # noqa: PLR0913 - collaborators by name, and two numbers
        self,
        *,
        pool: EndpointPool,
        in_flight: InFlightCounts,
        clock: Clock,
        pipeline: Pipeline,
        report: Callable[[PluginFault], None],
        on_failure: OnFailure = _ignore,
        retries: int = 2,
        producer_deadline: float = 0.4,
    ) -> None:
        """`retries` is how often a failed attempt is scheduled anew; `producer_deadline`, in seconds, is for all
        producers together; `report` is told of each plugin's failure that a request survived, `on_failure` of each
        endpoint's that a request met."""
        self.pool = pool
        self.in_flight = in_flight
        self.clock = clock
        self.pipeline = pipeline
        self.report = report
        self.on_failure = on_failure
        self.retries = retries
        self.producer_deadline = producer_deadline

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request that `raw` is. Raises `BadRequestError` or `PluginError`."""
        return self.pipeline.parsers.parse(raw)

    def route(self, request: InferenceRequest, subset: frozenset[str] | None = None) -> Route:
        """The request's life, to be entered with `async with`.

        `subset` are the addresses, as `Endpoint.authority`, that it may go to; None for any. Entering raises
        `NoEndpointsError`, `ModelNotFoundError`, `SaturatedError`, `BadRequestError` or `PluginError`; then nothing is
        in flight.
        """
        return Route(self, request, subset)

    def refuse(self, request: InferenceRequest, error: RoutingError) -> None:
        """Tells the observers of a request that was answered without being routed."""
        Route(self, request).refused(error)

    async def refuse_hopeless(self, request: InferenceRequest) -> None:
        """Raises before any work is done for a request that no endpoint can serve."""
        if self.pool.serves(request.model):
            return
        if request.model and await self.pool.lacks(request.model):
            raise ModelNotFoundError(request.model)
        if not self.pool.serves(request.model):
            raise NoEndpointsError


class Route:
    """One request on its way: the current decision, and what becomes of it."""

    __slots__ = (
        "_arrived",
        "_attempts",
        "_bytes",
        "_first_byte",
        "_pipeline",
        "_router",
        "_status",
        "_subset",
        "_tried",
        "_under_way",
        "_usage",
        "decision",
        "ending",
        "request",
    )

    decision: Decision

    def __init__(self, router: Router, request: InferenceRequest, subset: frozenset[str] | None = None) -> None:
        self.request = request
        self.ending: Ending | None = None
        """Set by the transport when it knows better than the exception that leaves the block."""
        self._router = router
        self._pipeline = router.pipeline
        self._arrived = router.clock.now()
        self._attempts = 0
        self._bytes = 0
        self._first_byte: float | None = None
        self._status: int | None = None
        self._usage: Usage | None = None
        self._subset = subset
        self._tried: frozenset[str] = frozenset()
        self._under_way = False

    @property
    def endpoint(self) -> Endpoint:
        """Where the request goes now."""
        return self.decision.endpoint

    @property
    def attempts(self) -> int:
        """Decisions made so far."""
        return self._attempts

    async def __aenter__(self) -> Self:
        self._pipeline.open.enter()
        try:
            router = self._router
            if not router.pool.serves(self.request.model):
                await router.refuse_hopeless(self.request)
            gathered = gather(
                self._pipeline.producers,
                self.request,
                router.pool,
                deadline=router.producer_deadline,
                report=router.report,
            )
            self.request = gathered if isinstance(gathered, InferenceRequest) else await gathered
            self._decide()
        except BaseException as error:
            if self._under_way:
                self._finish(Ending.UPSTREAM_FAILED, final=False)
            if isinstance(error, RoutingError):
                self.refused(error)
            self._pipeline.open.leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if self._under_way:
                refused = isinstance(error, RoutingError)
                self._finish(self.ending or _ending_of(kind), final=not refused)
            if isinstance(error, RoutingError):
                self.refused(error)
        finally:
            self._pipeline.open.leave()

    def retry(self, failure: UpstreamError) -> None:
        """Schedules the request again, over the endpoints not tried yet; its facts are kept.

        To be called when the endpoint failed before the first byte of its answer. Raises `failure` itself when no
        attempt or no endpoint is left.
        """
        self._router.on_failure(self.request, self.decision.endpoint, failure)
        self._finish(Ending.UPSTREAM_FAILED, final=False)
        self._tried |= {self.decision.endpoint.name}
        if self._attempts > self._router.retries:
            raise failure
        try:
            self._decide()
        except (NoEndpointsError, SaturatedError):
            raise failure from None

    def served_by(self, address: str) -> None:
        """A proxy, which was given a list of endpoints, got an answer from the one at `address`.

        Those of the list before it have failed, as in `retry`. An address that nobody has changes nothing.
        """
        for endpoint in self.decision.endpoints:
            if endpoint.authority == address:
                break
        else:
            found = self._router.pool.at(address)
            if found is None:
                return
            endpoint = found
        while (before := self.decision.endpoint) is not endpoint:
            self._router.on_failure(
                self.request, before, UpstreamError(before.name, "the proxy went on to another one")
            )
            self._finish(Ending.UPSTREAM_FAILED, final=False)
            following = self.decision.endpoints[1:]
            self._begin(_going_to(following if endpoint in following else (endpoint,), self.decision))

    def broken_off(self, failure: UpstreamError) -> None:
        """The endpoint failed when it is too late for another one."""
        self.ending = Ending.UPSTREAM_FAILED
        self._router.on_failure(self.request, self.decision.endpoint, failure)

    def first_byte(self, status: int) -> None:
        """The endpoint's response head has come, which counts as the first byte."""
        self._status = status
        self._first_byte = self._elapsed()
        for name, observer in self._pipeline.on_first_byte:
            try:
                observer.on_first_byte(self.request, self.decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                self._router.report(PluginFault(name, "OnFirstByte", error))

    def relayed(self, count: int) -> None:
        """`count` more bytes of the body went to the client."""
        self._bytes += count

    def used(self, usage: Usage | None) -> None:
        """What the engine says that the answer cost, if it says it."""
        self._usage = usage

    def _decide(self) -> None:
        """Decides, counts in flight and tells `on_scheduled`, in one step of the event loop."""
        router = self._router
        candidates = router.pool.candidates(
            self.request.facts, model=self.request.model, excluding=self._tried, subset=self._subset
        )
        if len(candidates):
            decision = self._pipeline.scheduler.schedule(self.request, candidates)
            self._begin(decision)
            for result in decision.results.values():
                for fault in result.faults:
                    router.report(fault)
        elif self._subset is None:
            raise NoEndpointsError
        else:
            raise NoEndpointsError("none of the endpoints that the proxy asks for is available for this request")

    def _begin(self, decision: Decision) -> None:
        router = self._router
        self.decision = decision
        self._attempts += 1
        router.in_flight.enter(decision.endpoint.name)
        self._under_way = True
        for name, observer in self._pipeline.on_scheduled:
            try:
                observer.on_scheduled(self.request, decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                router.report(PluginFault(name, "OnScheduled", error))

    def _finish(self, ending: Ending, *, final: bool) -> None:
        self._under_way = False
        self._router.in_flight.leave(self.decision.endpoint.name)
        outcome = Outcome(
            ending,
            self._elapsed(),
            final,
            self._status,
            self._first_byte,
            self._attempts,
            self._bytes,
            self._usage,
        )
        for name, observer in self._pipeline.on_finished:
            try:
                observer.on_finished(self.request, self.decision, outcome)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                self._router.report(PluginFault(name, "OnFinished", error))

    def refused(self, refusal: RoutingError) -> None:
        """Tells the observers that the router answers the request itself."""
        if isinstance(refusal, PluginError):
            self._router.report(PluginFault(refusal.plugin, "decision", refusal.cause))
        for name, observer in self._pipeline.on_refused:
            try:
                observer.on_refused(self.request, refusal)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                self._router.report(PluginFault(name, "OnRefused", error))

    def _elapsed(self) -> float:
        return self._router.clock.now() - self._arrived


def _going_to(endpoints: tuple[Endpoint, ...], decision: Decision) -> Decision:
    """`decision`, but for where it goes."""
    primary = replace(decision.results[decision.primary], endpoints=endpoints)
    return Decision(decision.primary, {**decision.results, decision.primary: primary})


def _ending_of(kind: type[BaseException] | None) -> Ending:
    if kind is None:
        return Ending.COMPLETED
    if issubclass(kind, asyncio.CancelledError | ConnectionError):
        return Ending.CLIENT_LEFT
    return Ending.UPSTREAM_FAILED
