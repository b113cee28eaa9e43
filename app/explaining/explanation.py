"""One request's decision, made offline from what is given, with all that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Never, cast

from app.domain.candidates import Candidates
from app.domain.decision import Decision, PluginFault, ProfileResult
from app.domain.endpoint import Endpoint
from app.domain.errors import BodyTooLargeError, RoutingError
from app.domain.facts import AnyFactKey, EndpointFactKey, FactKey
from app.domain.metrics import EndpointMetrics
from app.domain.request import InferenceRequest, RawRequest
from app.extension import Pool, Producer, ProfilePicker
from app.extension.facts import ACTIVE_ADAPTERS, KV_CACHE_USAGE, RUNNING, WAITING, WAITING_ADAPTERS
from app.routing.pipeline import Pipeline
from app.routing.router import Router
from app.scheduling.profile import Named
from app.scheduling.scheduler import Scheduler
from containers import parts
from containers.application import ApplicationContainer
from containers.assembly import Checked

NOW = 1000.0
"""What the clock shows all the time, in seconds."""

COLUMN_FACTS = frozenset(key.name for key in (WAITING, RUNNING, KV_CACHE_USAGE, ACTIVE_ADAPTERS, WAITING_ADAPTERS))
"""Facts that only stand for what an endpoint's metrics say."""


@dataclass(frozen=True, slots=True)
class GivenEndpoint:
    """An endpoint and what is to be taken as known of it."""

    endpoint: Endpoint
    metrics: EndpointMetrics | None = None
    """None for an endpoint that is unknown."""
    in_flight: int = 0
    models: frozenset[str] | None = None
    facts: Mapping[EndpointFactKey, float] = field(default_factory=dict)
    """They win over what producers find."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision or a refusal, and how it came about."""

    request: InferenceRequest
    """With its facts, as the profiles saw it."""
    endpoints: Candidates
    """Every endpoint given, with its facts."""
    serving: frozenset[str]
    """Names of those that may serve the request's model."""
    models: Mapping[str, Sequence[str] | None]
    """What each endpoint lists; None where that is not known."""
    facts: Sequence[AnyFactKey]
    """Those that the plan knows; the ones of endpoints only where there is something."""
    profile_picker: str
    pickers: Mapping[str, str]
    """The picker of each profile."""
    results: Mapping[str, ProfileResult]
    """Of each profile that ran, in order."""
    faults: Sequence[PluginFault]
    decision: Decision | None = None
    refusal: RoutingError | None = None
    """Why there is no decision."""


def known_facts(checked: Checked) -> Sequence[AnyFactKey]:
    """The facts that the configuration's plugins produce or read, less those that stand for metrics."""
    plan = checked.plan
    produced = [
        key for name in plan.producers for key in plan.plugins[name].type.produces(name, plan.plugins[name].params)
    ]
    read = [
        key
        for plugin in plan.plugins.values()
        for key in (*plugin.type.needs(plugin.params), *plugin.type.wants(plugin.params))
    ]
    return tuple(key for key in dict.fromkeys([*produced, *read]) if key.name not in COLUMN_FACTS)


async def explain(
    checked: Checked, raw: RawRequest, endpoints: Sequence[GivenEndpoint] | None, *, seed: int
) -> Explanation:
    """Decides on `raw` as the router would, and keeps what it did on the way.

    Without `endpoints` it has those that the configuration writes down. Plugins are built and not started; a request
    by the HTTP client that they are given fails. Nothing is told to plugins that observe.
    """
    faults: list[PluginFault] = []
    container = checked.container(
        clock=_StandingClock(), random=Random(seed), http_client=_NoNetwork(), fault_reporter=faults.append
    )
    given = _written_down(checked) if endpoints is None else endpoints
    _fill(container, given)
    router, watch, facts = container.router(), _Watch(container.generation().profile_picker().plugin), _facts_of(given)
    router.pipeline = _observed(container, router.pipeline, watch, facts)
    request, refusal = _parsed(router, raw, container.settings().transports.http.limits.body_bytes)
    decision = None
    if refusal is None:
        request, decision, refusal = await _decided(router, request.with_facts(request.facts.and_(facts)))
    results = {**watch.finished, **(decision.results if decision else {})}
    for result in results.values():
        faults += [fault for fault in result.faults if not any(fault is told for told in faults)]
    pool, plan = router.pool, checked.plan
    every = pool.candidates(request.facts)
    return Explanation(
        request=request,
        endpoints=every,
        serving=frozenset(pool.candidates(model=request.model).names),
        models={one.endpoint.name: None if one.models is None else sorted(one.models) for one in pool.statuses()},
        facts=[key for key in known_facts(checked) if _is_shown(key, request, every, faults)],
        profile_picker=plan.profile_picker,
        pickers={profile.name: profile.picker for profile in plan.profiles},
        results=results,
        faults=faults,
        decision=decision,
        refusal=refusal,
    )


def _written_down(checked: Checked) -> Sequence[GivenEndpoint]:
    return [GivenEndpoint(one) for one in parts.static_endpoints(checked.configuration.settings.pool.endpoints, ())()]


def _fill(container: ApplicationContainer, given: Sequence[GivenEndpoint]) -> None:
    pool, in_flight = container.pool(), container.in_flight()
    pool.replace_all([one.endpoint for one in given])
    for one in given:
        if one.metrics is not None:
            pool.record(one.endpoint, one.metrics)
        pool.record_models(one.endpoint, one.models)
        for _ in range(one.in_flight):
            in_flight.enter(one.endpoint.name)


def _facts_of(given: Sequence[GivenEndpoint]) -> Mapping[AnyFactKey, Mapping[str, float]]:
    facts: dict[AnyFactKey, dict[str, float]] = {}
    for one in given:
        for key, value in one.facts.items():
            facts.setdefault(key, {})[one.endpoint.name] = value
    return facts


def _observed(
    container: ApplicationContainer,
    pipeline: Pipeline,
    watch: _Watch,
    facts: Mapping[AnyFactKey, Mapping[str, float]],
) -> Pipeline:
    """`pipeline` with `watch` in place of its profile picker and `facts` over those of its producers."""
    generation = container.generation()
    return replace(
        pipeline,
        scheduler=Scheduler(Named(generation.profile_picker().name, watch), generation.profiles()),
        producers=tuple(Named(name, _GivenWins(producer, facts)) for name, producer in pipeline.producers),
        on_scheduled=(),
        on_first_byte=(),
        on_finished=(),
        on_refused=(),
    )


def _parsed(router: Router, raw: RawRequest, limit: int) -> tuple[InferenceRequest, RoutingError | None]:
    """The request; where it can't be read, what is known of it, and the error."""
    try:
        if len(raw.body) > limit:
            raise BodyTooLargeError(limit)
        return router.parse(raw), None
    except RoutingError as error:
        request = raw.parsed()
        router.refuse(request, error)
        return request, error


async def _decided(
    router: Router, request: InferenceRequest
) -> tuple[InferenceRequest, Decision | None, RoutingError | None]:
    """The request with its facts, and the decision or the error."""
    route = router.route(request)
    try:
        async with route:
            return route.request, route.decision, None
    except RoutingError as error:
        return route.request, None, error


def _is_shown(key: AnyFactKey, request: InferenceRequest, endpoints: Candidates, faults: list[PluginFault]) -> bool:
    """Whether there is something to show of the fact. One that is not what its key says is added to `faults`."""
    if isinstance(key, FactKey) or key not in request.facts:
        return isinstance(key, FactKey)
    try:
        endpoints.fact(cast("EndpointFactKey", key))
    except Exception as error:  # noqa: BLE001 - a plugin's mapping, which may be worked out only now
        faults.append(PluginFault(key.producer, "Producer", error))
        return False
    return True


class _StandingClock:
    """The same time for ever."""

    def now(self) -> float:
        return NOW


class _NoNetwork:
    """In place of the HTTP client."""

    async def get(self, url: str, **_: object) -> Never:
        raise ConnectionError(f"no connection is opened to explain a decision: {url}")


class _Watch:
    """A profile picker that has another do the work, and keeps what it was shown."""

    def __init__(self, picker: ProfilePicker) -> None:
        self._picker = picker
        self.finished: Mapping[str, ProfileResult] = {}
        """The scheduler's own mapping, which grows."""

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        self.finished = finished
        return self._picker.pick_profiles(request, profiles, finished)

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        return self._picker.conclude(request, finished)


class _GivenWins:
    """A producer whose facts give way to given ones, endpoint by endpoint, before the next producer sees them."""

    def __init__(self, producer: Producer, given: Mapping[AnyFactKey, Mapping[str, float]]) -> None:
        self._producer = producer
        self._given = given

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        found = await self._producer.produce(request, pool)
        if not found:
            return found
        return {key: self._merged(key, value) for key, value in found.items()}

    def _merged(self, key: AnyFactKey, value: object) -> object:
        given = self._given.get(key)
        return {**cast("Mapping[str, float]", value), **given} if given else value
