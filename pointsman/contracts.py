"""Checks that a plugin keeps the contract of its extension point. Import them from `pointsman.testing`.

Each raises `AssertionError` when it does not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from app.domain.candidates import Candidates
from app.domain.decision import ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.errors import BadRequestError
from app.domain.facts import AnyFactKey
from app.domain.request import InferenceRequest, RawRequest
from app.extension.fleet import Discovery, Extractor, MetricsSource, ScrapeError
from app.extension.parsing import Parser
from app.extension.requests import OnFinished, OnFirstToken, OnScheduled, Producer
from app.extension.scheduling import Filter, Picker, ProfilePicker, Scorer
from app.extension.services import InFlightListener
from pointsman.builders import FakePool, make_candidates, make_decision, make_endpoint, make_outcome, make_request

SAMPLE_BODIES: Sequence[bytes] = (
    b"",
    b" \n",
    b"{}",
    b"[]",
    b"null",
    b"{",
    b"\xff\xfe\x00",
    b"\0\0\0\0\0",
    b"\0\0\0\0\x07\x12\x05\x12\x03\x01\xac\x02",
    b"\1\0\0\0\x07\x12\x05\x12\x03\x01\xac\x02",
    b"\0\0\0\0\xff\x12\x05",
    b'{"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": true}',
    b'{"model": "demo", "prompt": "hello", "input": "hello", "text": "hello", "token_ids": [1]}',
    b'{"model": "demo", "messages": [5], "prompt": [[1], "x"], "input": {}, "items": [null], "text": [1.5]}',
    b'{"model": "demo", "messages": "\\ud800", "prompt": "\\ud800", "input": "\\ud800", "text": "\\ud800"}',
    *(
        b'{"model": "demo", "%s": ' % key + b"[" * depth + b"1" + b"]" * depth + b"}"
        for key in (b"messages", b"prompt", b"input", b"items", b"text", b"token_ids")
        for depth in (700, 50_000)
    ),
)
"""Valid and invalid bodies of all APIs, including truncated JSON, deeply nested JSON and gRPC frames."""


def sample_candidates() -> Sequence[Candidates]:
    """Candidates of all kinds: one or many, with equal, unknown and very different loads, and with role labels."""
    nan = math.nan
    many = [f"e{number}" for number in range(40)]
    random = Random(7)
    with_roles = [
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
        make_candidates(*with_roles),
    )


def sample_requests() -> Sequence[InferenceRequest]:
    """Requests of all kinds: with a short, long, empty or non-ASCII prompt, with several prompts, and with none."""
    return (
        make_request(),
        make_request("x" * 20_000, model="other", cache_salt="tenant", streaming=True, max_output_tokens=1),
        make_request("", model=""),
        InferenceRequest("none", "/v1/anything", "GET"),
        InferenceRequest("several", "/v1/completions", model="demo", prompts=(b"a" * 600, b"", "é🚂".encode() * 300)),
    )


def check_filter(plugin: Filter) -> None:
    """Checks that it returns one boolean per candidate, the same when called again, and raises nothing."""
    assert isinstance(plugin, Filter), f"{plugin!r} is not a Filter"
    for request, candidates in _every_pair():
        first = np.asarray(plugin.filter(request, candidates))
        assert first.shape == (len(candidates),), f"it returned shape {first.shape} for {len(candidates)} candidates"
        assert first.dtype == np.bool_, f"a filter returns booleans, not {first.dtype}"
        again = np.asarray(plugin.filter(request, candidates))
        assert (first == again).all(), "called again, the filter returned other booleans"


def check_scorer(plugin: Scorer) -> None:
    """Checks that it returns one number in [0, 1] per candidate, the same when called again, and raises nothing."""
    assert isinstance(plugin, Scorer), f"{plugin!r} is not a Scorer"
    for request, candidates in _every_pair():
        first = np.asarray(plugin.score(request, candidates), np.float64)
        assert first.shape == (len(candidates),), f"it returned shape {first.shape} for {len(candidates)} candidates"
        assert np.isfinite(first).all(), f"scores must be finite, found {first}"
        assert ((first >= 0) & (first <= 1)).all(), f"scores must be in [0, 1], found {first}"
        again = np.asarray(plugin.score(request, candidates), np.float64)
        assert (first == again).all(), "called again, the scorer returned other scores"


def check_picker(plugin: Picker) -> None:
    """Checks that it picks at least one candidate and none twice, and raises nothing, even for a single candidate."""
    assert isinstance(plugin, Picker), f"{plugin!r} is not a Picker"
    for request, candidates in _every_pair():
        for totals in (np.zeros(len(candidates)), np.arange(len(candidates), dtype=np.float64)):
            picked = plugin.pick(request, Scored(candidates, totals))
            names = [endpoint.name for endpoint in picked]
            assert names, "a picker must pick at least one endpoint"
            assert len(set(names)) == len(names), f"an endpoint was picked twice: {names}"
            assert set(names) <= set(candidates.names), f"it picked {names}, which are not all candidates"


def check_profile_picker(plugin: ProfilePicker, profiles: Sequence[str] = ("default",)) -> None:
    """Checks that it picks existing profiles only, each once, ends, and concludes with a profile that ran."""
    assert isinstance(plugin, ProfilePicker), f"{plugin!r} is not a ProfilePicker"
    for request in sample_requests():
        finished: dict[str, ProfileResult] = {}
        while names := plugin.pick_profiles(request, tuple(profiles), finished):
            for name in names:
                assert name in profiles, f"it picked the profile {name!r}; profiles are {profiles}"
                assert name not in finished, f"it picked the profile {name!r} twice"
                finished[name] = make_decision("a", "b", profile=name).results[name]
        decision = plugin.conclude(request, finished)
        assert decision.primary in finished, f"its primary profile {decision.primary!r} did not run"


def check_producer(plugin: Producer, produced: Iterable[AnyFactKey]) -> None:
    """Checks that it produces only the facts in `produced`, and that it can observe and follow requests of any kind."""
    assert isinstance(plugin, Producer), f"{plugin!r} is not a Producer"
    declared = set(produced)
    for request, candidates in _every_pair():
        found = asyncio.run(_produce(plugin, request, candidates))
        assert set(found) <= declared, f"it produced {set(found) - declared} without declaring them"
        with_facts = request.with_facts(request.facts.and_(found))
        decision = make_decision(*candidates)
        if isinstance(plugin, OnScheduled):
            plugin.on_scheduled(with_facts, decision)
        if isinstance(plugin, OnFirstToken):
            plugin.on_first_token(with_facts, decision)
        if isinstance(plugin, OnFinished):
            plugin.on_finished(with_facts, decision, make_outcome())
        if isinstance(plugin, InFlightListener):
            _follow(plugin, with_facts)


def _follow(plugin: InFlightListener, request: InferenceRequest) -> None:
    """Has `plugin` follow requests with an exact first token, with that of the response head, and with none."""
    for tokens in ((True,), (False,), ()):
        decision = make_decision("a", "b")
        plugin.on_entered(request, decision)
        for exact in tokens:
            plugin.on_prefilled(decision, exact)
        plugin.on_left(decision)


def check_discovery(plugin: Discovery, expected: Iterable[str]) -> None:
    """Checks that the first list that it finds has exactly the endpoints named `expected`, each once."""
    assert isinstance(plugin, Discovery), f"{plugin!r} is not a Discovery"
    plugin.check()
    found = asyncio.run(_first_list(plugin))
    names = [endpoint.name for endpoint in found]
    assert len(set(names)) == len(names), f"it found an endpoint twice: {names}"
    assert set(names) == set(expected), f"it found {names}, expected {list(expected)}"


def check_source(plugin: MetricsSource, endpoint: Endpoint) -> None:
    """Checks its interval, and that it raises an unreachable `ScrapeError` for `endpoint`, where nothing may listen."""
    assert isinstance(plugin, MetricsSource), f"{plugin!r} is not a MetricsSource"
    assert plugin.interval is None or plugin.interval > 0, "an interval must be None or more than 0"
    failure: ScrapeError | None = None
    try:
        asyncio.run(_fetch(plugin, endpoint))
    except ScrapeError as error:
        failure = error
    assert failure is not None, "it returned metrics of an endpoint where nothing listens"
    assert failure.unreachable, f"the error must be unreachable, found {failure!r}"


def check_extractor(plugin: Extractor, good: object, bad: Iterable[object]) -> None:
    """Checks that it extracts metrics within their ranges from `good`, and raises `ScrapeError` for each of `bad`."""
    assert isinstance(plugin, Extractor), f"{plugin!r} is not an Extractor"
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
        raise AssertionError(f"it extracted {found} from the invalid payload {payload!r}")


def check_parser(plugin: Parser) -> None:
    """Checks its paths, and that it returns a request with the raw request's values or rejects it, for any body."""
    assert isinstance(plugin, Parser), f"{plugin!r} is not a Parser"
    assert not isinstance(plugin.paths, str), "paths must be a sequence of strings, not one string"
    for path in plugin.paths:
        assert path.strip("/"), "a path must have a segment"
    for path in plugin.paths or ("v1/anything", ""):
        for body in SAMPLE_BODIES:
            raw = RawRequest("r1", f"/base/{path}", body, headers={"x-a": "1"}, size=3)
            assert _parsed(plugin, raw) == _parsed(plugin, raw), "called again, the parser returned another request"


def _parsed(plugin: Parser, raw: RawRequest) -> tuple[Any, ...]:
    request, reason = None, ""
    try:
        request = plugin.parse(raw)
    except BadRequestError as error:
        reason = str(error)
    if reason:
        return (reason,)
    assert isinstance(request, InferenceRequest), f"it returned {request!r}, and raised no error with a reason"
    copied = (request.id, request.path, request.method, request.headers, request.size)
    expected = (raw.id, raw.path, raw.method, raw.headers, raw.size)
    assert copied == expected, f"it must keep the raw request's values: expected {expected}, found {copied}"
    assert all(isinstance(prompt, bytes) for prompt in request.prompts), "prompts must be bytes"
    return (request.model, request.adapter, request.prompts, request.streaming, request.max_output_tokens)


def _every_pair() -> Iterable[tuple[InferenceRequest, Candidates]]:
    return ((request, candidates) for request in sample_requests() for candidates in sample_candidates())


async def _produce(plugin: Producer, request: InferenceRequest, candidates: Candidates) -> Mapping[AnyFactKey, object]:
    return await plugin.produce(request, FakePool(candidates))


async def _first_list(plugin: Discovery) -> Sequence[Endpoint]:
    sink = _Sink()
    task = asyncio.create_task(plugin.discover(sink))
    received = asyncio.create_task(sink.received.wait())
    await asyncio.wait({task, received}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    received.cancel()
    if task.done():
        await task
    task.cancel()
    return sink.endpoints


async def _fetch(plugin: MetricsSource, endpoint: Endpoint) -> object:
    return await plugin.fetch(endpoint)


class _Sink:
    def __init__(self) -> None:
        self.endpoints: Sequence[Endpoint] = ()
        self.received = asyncio.Event()

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = endpoints
        self.received.set()
