"""For tests of plugins: builders of what they meet, and checks of what an extension point promises.

def test_my_scorer():
    check_scorer(MyScorer(MyScorer.Params()))
    busy, idle = make_endpoint("busy"), make_endpoint("idle")
    candidates = make_candidates(busy, idle, waiting=[9, 0])
    assert list(MyScorer(MyScorer.Params()).score(make_request(), candidates)) == [0, 1]
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from app.domain.candidates import Candidates, Roster, Snapshot
from app.domain.decision import Decision, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.facts import NO_FACTS, AnyFactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.outcome import Ending, Outcome
from app.domain.request import InferenceRequest
from app.extension.fleet import Discovery, Extractor, MetricsSource, ScrapeError
from app.extension.requests import OnFinished, OnFirstByte, OnScheduled, Producer
from app.extension.scheduling import Filter, Picker, ProfilePicker, Scorer

NO_COUNTS: Mapping[str, int] = {}


class FakeClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds, as set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets `seconds` pass."""
        self._now += seconds


class FakePool:
    """A pool of fixed endpoints, as producers get one."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._names = frozenset(candidates.names)

    @property
    def names(self) -> frozenset[str]:
        """Names of all its endpoints."""
        return self._names

    def candidates(self, facts: Facts = NO_FACTS) -> Candidates:  # noqa: ARG002 - facts are in the candidates
        """All its endpoints."""
        return self._candidates

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name."""
        return next((endpoint for endpoint in self._candidates if endpoint.name == name), None)

    def incarnation(self, name: str, /) -> int:
        """The same for ever: nothing goes down here."""
        return int(name in self._names)


def make_endpoint(
    name: str = "a", *, address: str = "127.0.0.1", port: int = 8000, labels: Mapping[str, str] | None = None
) -> Endpoint:
    """An endpoint; nothing listens there."""
    return Endpoint(name, address, port, labels or {})


def make_request(
    prompt: str | bytes = "Which track does the night train take?",
    *,
    model: str = "demo",
    id: str = "test",  # noqa: A002 - the field's name
    headers: Mapping[str, str] | None = None,
    facts: Mapping[AnyFactKey, object] | None = None,
    **fields: Any,
) -> InferenceRequest:
    """A chat request with one prompt; header names are made lower-case."""
    return InferenceRequest(
        id=id,
        path="/v1/chat/completions",
        model=model,
        prompts=(prompt.encode() if isinstance(prompt, str) else prompt,),
        headers={name.lower(): value for name, value in (headers or {}).items()},
        facts=Facts(facts or {}),
        **fields,
    )


def make_candidates(
    *endpoints: Endpoint | str,
    waiting: Sequence[float] | None = None,
    running: Sequence[float] | None = None,
    kv_cache_usage: Sequence[float] | None = None,
    metrics_age: float = 0.0,
    in_flight: Mapping[str, int] = NO_COUNTS,
    facts: Mapping[AnyFactKey, object] | None = None,
    metrics: Sequence[EndpointMetrics | None] | None = None,
) -> Candidates:
    """Candidates with the columns given, one number per endpoint; a name stands for an endpoint of that name.

    A column that is not given is 0 for all. NaN makes an endpoint unknown.
    """
    row = tuple(make_endpoint(e, port=8000 + i) if isinstance(e, str) else e for i, e in enumerate(endpoints))
    load = [0.0] * len(row)
    snapshot = Snapshot(
        Roster(row),
        waiting=np.array(load if waiting is None else waiting, np.float64),
        running=np.array(load if running is None else running, np.float64),
        kv_cache_usage=np.array(load if kv_cache_usage is None else kv_cache_usage, np.float64),
        read_at=np.full(len(row), -metrics_age),
        metrics=tuple(metrics) if metrics is not None else (None,) * len(row),
    )
    return Candidates(snapshot, in_flight=lambda name: in_flight.get(name, 0), facts=Facts(facts or {}))


def make_decision(*picked: Endpoint | str, profile: str = "default") -> Decision:
    """A decision for the first of `picked`."""
    candidates = make_candidates(*picked)
    empty = np.zeros(0)
    scored = Scored(candidates, np.zeros(len(candidates)))
    result = ProfileResult(profile, tuple(candidates), (), scored, (), empty, np.zeros((0, len(candidates))))
    return Decision(profile, {profile: result})


def make_outcome(ending: Ending = Ending.COMPLETED, *, status: int = 200) -> Outcome:
    """The end of a request that took a second."""
    return Outcome(ending, 1.0, status=status, first_byte=0.1)


# -- what each extension point promises


def sample_candidates() -> Sequence[Candidates]:
    """Pools of all kinds: one endpoint, many, equal ones, unknown ones, loads that differ widely."""
    nan = math.nan
    many = [f"e{number}" for number in range(40)]
    random = Random(7)
    labelled = [
        make_endpoint("p", labels={"llm-d.ai/role": "prefill"}),
        make_endpoint("d", labels={"llm-d.ai/role": "decode"}),
        make_endpoint("both", labels={"llm-d.ai/role": "prefill-decode"}),
        make_endpoint("none"),
    ]
    return (
        make_candidates("a"),
        make_candidates("a", "b", "c"),
        make_candidates("a", "b", waiting=[0, 1000], running=[256, 0], kv_cache_usage=[1.0, 0.0]),
        make_candidates("a", "b", waiting=[nan, nan], running=[nan, nan], in_flight={"a": 3}),
        make_candidates("a", "b", "c", waiting=[nan, 2, 0], running=[nan, 4, 1], kv_cache_usage=[nan, 0.5, 0.2]),
        make_candidates(
            *many, waiting=[random.randrange(50) for _ in many], running=[random.randrange(50) for _ in many]
        ),
        make_candidates(*labelled),
    )


def sample_requests() -> Sequence[InferenceRequest]:
    """Requests of all kinds: short, long, without a prompt, with several, not in ASCII."""
    return (
        make_request(),
        make_request("x" * 20_000, model="other", cache_salt="tenant", streaming=True, max_output_tokens=1),
        make_request("", model=""),
        InferenceRequest("none", "/v1/anything", "GET"),
        InferenceRequest("several", "/v1/completions", model="demo", prompts=(b"a" * 600, b"", "é🚂".encode() * 300)),
    )


def check_filter(plugin: Filter) -> None:
    """One boolean per candidate, the same when asked again, and nothing raised. Raises `AssertionError` otherwise."""
    assert isinstance(plugin, Filter), f"{plugin!r} is no Filter"
    for request, candidates in _every_pair():
        first = np.asarray(plugin.filter(request, candidates))
        assert first.shape == (len(candidates),), f"{first.shape} booleans for {len(candidates)} candidates"
        assert first.dtype == np.bool_, f"a filter answers booleans, not {first.dtype}"
        again = np.asarray(plugin.filter(request, candidates))
        assert (first == again).all(), "asked again, the filter answered differently"


def check_scorer(plugin: Scorer) -> None:
    """One finite number in [0, 1] per candidate, the same when asked again, and nothing raised."""
    assert isinstance(plugin, Scorer), f"{plugin!r} is no Scorer"
    for request, candidates in _every_pair():
        first = np.asarray(plugin.score(request, candidates), np.float64)
        assert first.shape == (len(candidates),), f"{first.shape} scores for {len(candidates)} candidates"
        assert np.isfinite(first).all(), f"scores must be finite, found {first}"
        assert ((first >= 0) & (first <= 1)).all(), f"scores must be in [0, 1], found {first}"
        again = np.asarray(plugin.score(request, candidates), np.float64)
        assert (first == again).all(), "asked again, the scorer answered differently"


def check_picker(plugin: Picker) -> None:
    """At least one endpoint, each a candidate and none twice, and nothing raised; also of a single candidate."""
    assert isinstance(plugin, Picker), f"{plugin!r} is no Picker"
    for request, candidates in _every_pair():
        for totals in (np.zeros(len(candidates)), np.arange(len(candidates), dtype=np.float64)):
            picked = plugin.pick(request, Scored(candidates, totals))
            names = [endpoint.name for endpoint in picked]
            assert names, "a picker must pick at least one endpoint"
            assert len(set(names)) == len(names), f"an endpoint was picked twice: {names}"
            assert set(names) <= set(candidates.names), f"picked {names}, which are not all candidates"


def check_profile_picker(plugin: ProfilePicker, profiles: Sequence[str] = ("default",)) -> None:
    """Asks for existing profiles only, each once, comes to an end, and concludes with one that ran."""
    assert isinstance(plugin, ProfilePicker), f"{plugin!r} is no ProfilePicker"
    for request in sample_requests():
        finished: dict[str, ProfileResult] = {}
        while names := plugin.pick_profiles(request, tuple(profiles), finished):
            for name in names:
                assert name in profiles, f"it asked for {name!r}, which is none of {profiles}"
                assert name not in finished, f"it asked for {name!r} twice"
                finished[name] = make_decision("a", "b", profile=name).results[name]
        decision = plugin.conclude(request, finished)
        assert decision.primary in finished, f"its primary profile {decision.primary!r} did not run"


def check_producer(plugin: Producer, produced: Iterable[AnyFactKey]) -> None:
    """Only facts that it declares, for any request and pool; its observers take any decision, and leave nothing."""
    assert isinstance(plugin, Producer), f"{plugin!r} is no Producer"
    declared = set(produced)
    for request, candidates in _every_pair():
        found = asyncio.run(_produce(plugin, request, candidates))
        assert set(found) <= declared, f"it produced {set(found) - declared} without declaring it"
        knowing = request.with_facts(request.facts.and_(found))
        decision = make_decision(*candidates)
        if isinstance(plugin, OnScheduled):
            plugin.on_scheduled(knowing, decision)
        if isinstance(plugin, OnFirstByte):
            plugin.on_first_byte(knowing, decision)
        if isinstance(plugin, OnFinished):
            plugin.on_finished(knowing, decision, make_outcome())


def check_discovery(plugin: Discovery, expected: Iterable[str]) -> None:
    """Gives endpoints named `expected` as its first list, each name once."""
    assert isinstance(plugin, Discovery), f"{plugin!r} is no Discovery"
    plugin.check()
    found = asyncio.run(_first_list(plugin))
    names = [endpoint.name for endpoint in found]
    assert len(set(names)) == len(names), f"an endpoint was found twice: {names}"
    assert set(names) == set(expected), f"found {names}, expected {list(expected)}"


def check_source(plugin: MetricsSource, endpoint: Endpoint) -> None:
    """An endpoint at which nothing listens is a `ScrapeError` that says it is unreachable."""
    assert isinstance(plugin, MetricsSource), f"{plugin!r} is no MetricsSource"
    assert plugin.interval is None or plugin.interval > 0, "an interval is None or more than 0"
    failure: ScrapeError | None = None
    try:
        asyncio.run(_fetch(plugin, endpoint))
    except ScrapeError as error:
        failure = error
    assert failure is not None, "nothing listens there, and something was fetched"
    assert failure.unreachable, f"nothing listens there, and that is not said: {failure}"


def check_extractor(plugin: Extractor, good: object, bad: Iterable[object]) -> None:
    """Metrics within their ranges out of `good`; a `ScrapeError` for each of `bad`."""
    assert isinstance(plugin, Extractor), f"{plugin!r} is no Extractor"
    metrics = plugin.extract(make_endpoint(), good)
    for name in ("waiting", "running"):
        value = getattr(metrics, name)
        assert value is None or value >= 0, f"{name} is {value}"
    usage = metrics.kv_cache_usage
    assert usage is None or 0 <= usage <= 1, f"kv_cache_usage is {usage}"
    for payload in bad:
        try:
            found = plugin.extract(make_endpoint(), payload)
        except ScrapeError:
            continue
        raise AssertionError(f"{payload!r} can't be understood, and gave {found}")


def _every_pair() -> Iterable[tuple[InferenceRequest, Candidates]]:
    return ((request, candidates) for request in sample_requests() for candidates in sample_candidates())


async def _produce(plugin: Producer, request: InferenceRequest, candidates: Candidates) -> Mapping[AnyFactKey, object]:
    return await plugin.produce(request, FakePool(candidates))


async def _first_list(plugin: Discovery) -> Sequence[Endpoint]:
    sink = _Sink()
    task = asyncio.create_task(plugin.discover(sink))
    came = asyncio.create_task(sink.came.wait())
    await asyncio.wait({task, came}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    came.cancel()
    if task.done():
        await task
    task.cancel()
    return sink.endpoints


async def _fetch(plugin: MetricsSource, endpoint: Endpoint) -> object:
    return await plugin.fetch(endpoint)


class _Sink:
    def __init__(self) -> None:
        self.endpoints: Sequence[Endpoint] = ()
        self.came = asyncio.Event()

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = endpoints
        self.came.set()
