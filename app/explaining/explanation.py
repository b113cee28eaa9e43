"""Makes the decision for one request offline, and keeps everything that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Never, cast

from app.domain.candidates import Candidates
from app.domain.decision import Decision, PluginFault, ProfileResult
from app.domain.endpoint import Endpoint
from app.domain.errors import BodyTooLargeError, RoutingError
from app.domain.facts import AnyFactKey, EndpointFactKey, FactKey
from app.domain.metrics import EndpointMetrics
from app.domain.named import Named
from app.domain.request import InferenceRequest, RawRequest
from app.extension import Clock, Pool, Producer, ProfilePicker
from app.extension.facts import ACTIVE_ADAPTERS, KV_CACHE_USAGE, RUNNING, WAITING, WAITING_ADAPTERS
from app.fleet.pool import EndpointPool
from app.parsing.parsers import Parsers
from app.planning.plan import Plan
from app.routing.in_flight import InFlightRequests
from app.routing.observers import Observers
from app.routing.pipeline import Pipeline
from app.routing.router import Router
from app.scheduling.profile import Profile
from app.scheduling.scheduler import Scheduler

NOW = 1000.0
"""The time of the clock, in seconds."""

COLUMN_FACTS = frozenset(key.name for key in (WAITING, RUNNING, KV_CACHE_USAGE, ACTIVE_ADAPTERS, WAITING_ADAPTERS))
"""Names of facts that are read from the endpoints' metrics."""


@dataclass(frozen=True, slots=True)
class GivenEndpoint:
    """An endpoint, and the state that is assumed for it."""

    endpoint: Endpoint
    metrics: EndpointMetrics | None = None
    """None if unknown."""
    in_flight: int = 0
    models: frozenset[str] | None = None
    """None if unknown."""
    facts: Mapping[EndpointFactKey, float] = field(default_factory=dict)
    """They take precedence over those of producers."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision or an error, and how it came about."""

    request: InferenceRequest
    """As the profiles saw it, with its facts."""
    endpoints: Candidates
    """Every given endpoint, with its facts."""
    serving: frozenset[str]
    """Names of the endpoints that may serve the request's model."""
    models: Mapping[str, Sequence[str] | None]
    """The models that each endpoint lists; None if unknown."""
    facts: Sequence[AnyFactKey]
    """The facts of the plan's plugins; those of endpoints only if the request has them."""
    profile_picker: str
    pickers: Mapping[str, str]
    """The picker of each profile."""
    results: Mapping[str, ProfileResult]
    """By profile, in the order in which they ran."""
    faults: Sequence[PluginFault]
    decision: Decision | None = None
    error: RoutingError | None = None
    """Why there is no decision."""


@dataclass(frozen=True, slots=True)
class DecisionParts:
    """The parts of a generation that make decisions. Its plugins are built but not started."""

    plan: Plan
    pool: EndpointPool
    """Empty."""
    in_flight: InFlightRequests
    clock: Clock
    parsers: Parsers
    profile_picker: Named[ProfilePicker]
    profiles: Mapping[str, Profile]
    producers: Sequence[Named[Producer]]
    body_bytes: int
    """Maximum size of a request body."""
    producer_deadline: float
    """In seconds."""


def known_facts(plan: Plan) -> Sequence[AnyFactKey]:
    """The facts that the plan's plugins produce or read, without those read from metrics."""
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
    parts: DecisionParts, raw: RawRequest, endpoints: Sequence[GivenEndpoint], faults: list[PluginFault]
) -> Explanation:
    """Makes the decision for `raw` as the router would. Calls no observers.

    The plugins must report their failures in `faults`.
    """
    facts = _facts_of(endpoints)
    _fill(parts, endpoints)
    recorder = _ProfilePickerRecorder(parts.profile_picker.plugin)
    router = _router(parts, recorder, facts, faults)
    request, error = _parsed(parts, raw)
    decision = None
    if error is None:
        request, decision, error = await _decided(router, request.with_facts(request.facts.and_(facts)))
    results = {**recorder.finished, **(decision.results if decision else {})}
    for result in results.values():
        faults += [fault for fault in result.faults if not any(fault is known for known in faults)]
    pool, plan = parts.pool, parts.plan
    every = pool.candidates(request.facts)
    return Explanation(
        request=request,
        endpoints=every,
        serving=frozenset(pool.candidates(model=request.model).names),
        models={one.endpoint.name: None if one.models is None else sorted(one.models) for one in pool.statuses()},
        facts=[key for key in known_facts(plan) if _is_shown(key, request, every, faults)],
        profile_picker=plan.profile_picker,
        pickers={profile.name: profile.picker for profile in plan.profiles},
        results=results,
        faults=faults,
        decision=decision,
        error=error,
    )


def _fill(parts: DecisionParts, given: Sequence[GivenEndpoint]) -> None:
    parts.pool.replace_all([one.endpoint for one in given])
    for one in given:
        if one.metrics is not None:
            parts.pool.record(one.endpoint, one.metrics)
        parts.pool.record_models(one.endpoint, one.models)
        for _ in range(one.in_flight):
            parts.in_flight.enter(one.endpoint.name)


def _facts_of(given: Sequence[GivenEndpoint]) -> Mapping[AnyFactKey, Mapping[str, float]]:
    facts: dict[AnyFactKey, dict[str, float]] = {}
    for one in given:
        for key, value in one.facts.items():
            facts.setdefault(key, {})[one.endpoint.name] = value
    return facts


def _router(
    parts: DecisionParts,
    recorder: _ProfilePickerRecorder,
    facts: Mapping[AnyFactKey, Mapping[str, float]],
    faults: list[PluginFault],
) -> Router:
    """A router with `recorder` as its profile picker, and with `facts` taking precedence over those of producers."""
    pipeline = Pipeline(
        scheduler=Scheduler(Named(parts.profile_picker.name, recorder), parts.profiles),
        observers=Observers(report=faults.append),
        producers=tuple(Named(name, _FactsOverride(producer, facts)) for name, producer in parts.producers),
    )
    return Router(
        pool=parts.pool,
        in_flight=parts.in_flight,
        clock=parts.clock,
        pipeline=pipeline,
        producer_deadline=parts.producer_deadline,
    )


def _parsed(parts: DecisionParts, raw: RawRequest) -> tuple[InferenceRequest, RoutingError | None]:
    """The parsed request; if it can't be parsed, what is known of it and the error."""
    try:
        if len(raw.body) > parts.body_bytes:
            raise BodyTooLargeError(parts.body_bytes)
        return parts.parsers.parse(raw), None
    except RoutingError as error:
        return raw.parsed(), error


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
    """Whether the fact has a value to show. If the value does not fit its key, that is added to `faults`."""
    if isinstance(key, FactKey) or key not in request.facts:
        return isinstance(key, FactKey)
    try:
        endpoints.fact(cast("EndpointFactKey", key))
    except Exception as error:  # noqa: BLE001 - a plugin's mapping may compute its values only now
        faults.append(PluginFault(key.producer, "Producer", error))
        return False
    return True


class FixedClock:
    """A clock that stands still."""

    def now(self) -> float:
        return NOW


class NoNetwork:
    """An HTTP client that opens no connections."""

    async def get(self, url: str, **_: object) -> Never:
        raise ConnectionError(f"explain opens no connections: {url}")


class _ProfilePickerRecorder:
    """Delegates to a profile picker, and keeps the results that it was given."""

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


class _FactsOverride:
    """A producer with some facts replaced, endpoint by endpoint, before the next producer runs."""

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
