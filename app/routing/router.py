"""The life of one request. START READING HERE.

    async with router.route(request) as route:    gather facts, decide, count in flight
        ... send to route.endpoint                 the transport's work
        route.head(status)                         the response head arrived
        route.retry(error)                         the endpoint failed before it responded: decide again
        route.served_by(address)                   or the proxy tried another endpoint by itself
        route.responds(content_type, encoding)     the response is relayed from now on
        route.relay(chunks)                        its body; at the first content the observers are called
                                                   on leaving: count down, call the observers, once

The block is the request's life, so that no way out of it, cancelling included, can leak an in-flight count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import replace
from types import TracebackType
from typing import Self

from app.domain.decision import Decision
from app.domain.endpoint import Endpoint
from app.domain.errors import (
    ModelNotFoundError,
    NoEndpointsError,
    RoutingError,
    SaturatedError,
    UpstreamError,
)
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest
from app.extension.services import Clock
from app.fleet.pool import EndpointPool
from app.parsing.responses import response_reader
from app.routing.gathering import gather
from app.routing.in_flight import InFlightRequests
from app.routing.pipeline import Pipeline
from app.routing.progress import Progress, ending_of

_ERROR = 400
"""The lowest status of an error response."""

OnFailure = Callable[[InferenceRequest, Endpoint, UpstreamError], None]


def _ignore(_request: InferenceRequest, _endpoint: Endpoint, _failure: UpstreamError) -> None:
    pass


async def _refresh_nothing() -> None:
    pass


class Router:
    """Routes requests over a pool with one configuration's pipeline."""

    def __init__(  # noqa: PLR0913 - collaborators by name, and two numbers
        self,
        *,
        pool: EndpointPool,
        in_flight: InFlightRequests,
        clock: Clock,
        pipeline: Pipeline,
        on_failure: OnFailure = _ignore,
        refresh_models: Callable[[], Awaitable[None]] = _refresh_nothing,
        retries: int = 2,
        producer_deadline: float = 0.4,
    ) -> None:
        """`retries` bounds how often a failed attempt is scheduled again. `producer_deadline`, in seconds, is for all
        producers together. `on_failure` is called with each endpoint's failure, `refresh_models` before a model is
        reported as unknown."""
        self.pool = pool
        self.in_flight = in_flight
        self.clock = clock
        self.pipeline = pipeline
        self.on_failure = on_failure
        self.refresh_models = refresh_models
        self.retries = retries
        self.producer_deadline = producer_deadline

    def route(self, request: InferenceRequest, subset: frozenset[str] | None = None) -> Route:
        """The request's life, to be entered with `async with`.

        `subset` are the addresses, as `Endpoint.authority`, that it may go to; None for any. Entering raises
        `NoEndpointsError`, `ModelNotFoundError`, `SaturatedError`, `BadRequestError` or `PluginError`; then nothing is
        in flight, and the observers have seen the refusal.
        """
        return Route(self, request, subset)

    def refuse(self, request: InferenceRequest, error: RoutingError) -> None:
        """Has the observers see a request that gets an error response without being routed."""
        self.pipeline.observers.refused(request, error)


class Route:
    """One request on its way: the current decision, and what becomes of it."""

    __slots__ = (
        "_arrived",
        "_attempts",
        "_context",
        "_pipeline",
        "_progress",
        "_router",
        "_subset",
        "_tried",
        "_under_way",
        "decision",
        "ending",
        "request",
    )

    decision: Decision
    _context: Context
    _progress: Progress

    def __init__(self, router: Router, request: InferenceRequest, subset: frozenset[str] | None = None) -> None:
        self.request = request
        self.ending: Ending | None = None
        """Set by the transport when it knows better than the exception that leaves the block."""
        self._router = router
        self._pipeline = router.pipeline
        self._arrived = router.clock.now()
        self._attempts = 0
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
                await self._find_the_model()
            gathered = gather(
                self._pipeline.producers,
                self.request,
                router.pool,
                deadline=router.producer_deadline,
                report=self._pipeline.observers.report,
            )
            self.request = gathered if isinstance(gathered, InferenceRequest) else await gathered
            self._decide()
        except BaseException as error:
            if self._under_way:
                self._finish(Ending.UPSTREAM_FAILED, final=False)
            if isinstance(error, RoutingError):
                self._router.refuse(self.request, error)
            self._pipeline.open.leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if self._under_way:
                refused = isinstance(error, RoutingError)
                self._finish(self.ending or ending_of(kind), final=not refused)
            if isinstance(error, RoutingError):
                self._router.refuse(self.request, error)
        finally:
            self._pipeline.open.leave()

    def retry(self, failure: UpstreamError) -> None:
        """Schedules the request again over the endpoints not tried yet; its facts are kept.

        Call it when the endpoint failed before the first byte of its response. Raises `failure` itself when no attempt
        or no endpoint is left.
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
        """The proxy, which got a list of endpoints, reports a response from the one at `address`.

        Those before it in the list have failed, as in `retry`. An unknown address changes nothing.
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
                self.request, before, UpstreamError(before.name, "the proxy tried another endpoint")
            )
            self._finish(Ending.UPSTREAM_FAILED, final=False)
            following = self.decision.endpoints[1:]
            self._begin(_going_to(following if endpoint in following else (endpoint,), self.decision))

    def broken_off(self, failure: UpstreamError) -> None:
        """The endpoint failed after its response began, too late for a retry."""
        self.ending = Ending.UPSTREAM_FAILED
        self._router.on_failure(self.request, self.decision.endpoint, failure)

    def head(self, status: int) -> None:
        """The response head arrived. That alone does not begin the response: `retry` is still possible."""
        self._progress.status = status
        self._progress.head = self._elapsed()

    def responds(self, content_type: str, content_encoding: str, *, body: bool = True) -> None:
        """The response whose head arrived is relayed to the client from now on.

        `body`: whether its body, if it has one, passes through `relay` as it arrives. If not, the time of the head
        stands in for that of the first content.
        """
        progress = self._progress
        if progress.status is None or progress.status < _ERROR:
            progress.reader = response_reader(self.request.path, content_type, content_encoding)
            self._context = copy_context()
            if not body:
                self._first_token(progress.head, exact=False)

    def relay(self, chunks: Sequence[bytes]) -> None:
        """Chunks of the body that go to the client."""
        if self._progress.relay(chunks):  # perhaps in the context of the request that opened the connection
            self._context.run(self._first_token, self._elapsed(), exact=True)

    async def _find_the_model(self) -> None:
        """Raises the reason why no endpoint can serve the request, unless a fresh look at the model lists finds one."""
        pool, model = self._router.pool, self.request.model
        if model and pool.lacks(model):
            await self._router.refresh_models()
            if pool.lacks(model):
                raise ModelNotFoundError(model)
        if not pool.serves(model):
            raise NoEndpointsError

    def _decide(self) -> None:
        """Decides, counts in flight and calls `on_scheduled`, in one step of the event loop."""
        candidates = self._router.pool.candidates(
            self.request.facts, model=self.request.model, excluding=self._tried, subset=self._subset
        )
        if len(candidates):
            decision = self._pipeline.scheduler.schedule(self.request, candidates)
            self._begin(decision)
            for result in decision.results.values():
                for fault in result.faults:
                    self._pipeline.observers.report(fault)
        elif self._subset is None:
            raise NoEndpointsError
        else:
            raise NoEndpointsError("none of the endpoints that the proxy asks for is available for this request")

    def _begin(self, decision: Decision) -> None:
        self._progress = Progress()
        self.decision = self._router.in_flight.begin(self.request, decision)
        self._attempts += 1
        self._under_way = True
        self._pipeline.observers.scheduled(self.request, self.decision)

    def _finish(self, ending: Ending, *, final: bool) -> None:
        self._under_way = False
        self._router.in_flight.end(self.decision)
        outcome = self._progress.outcome(ending, self._elapsed(), self._attempts, final=final)
        self._pipeline.observers.finished(self.request, self.decision, outcome)

    def _first_token(self, time: float | None, *, exact: bool) -> None:
        self._progress.first_token, self._progress.exact = time, exact
        self._router.in_flight.first_token(self.decision, exact)
        self._pipeline.observers.first_token(self.request, self.decision)

    def _elapsed(self) -> float:
        return self._router.clock.now() - self._arrived


def _going_to(endpoints: tuple[Endpoint, ...], decision: Decision) -> Decision:
    """`decision`, but for where it goes."""
    primary = replace(decision.results[decision.primary], endpoints=endpoints)
    return Decision(decision.primary, {**decision.results, decision.primary: primary})
