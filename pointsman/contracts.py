"""Checks of what each extension point promises; import them from `pointsman.testing`.

Each raises `AssertionError` when a plugin breaks its promise.
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
from app.extension.requests import OnFinished, OnFirstByte, OnScheduled, Producer
from app.extension.scheduling import Filter, Picker, ProfilePicker, Scorer
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
"""Good and bad ones of all APIs; too deep ones, cut off ones and frames of gRPC among them."""


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


def check_parser(plugin: Parser) -> None:
    """Its paths are ends of paths; any body at them is a request that keeps what came with it, or is refused."""
    assert isinstance(plugin, Parser), f"{plugin!r} is no Parser"
    assert not isinstance(plugin.paths, str), "paths are several"
    for path in plugin.paths:
        assert path.strip("/"), "a path that is claimed has a segment"
    for path in plugin.paths or ("v1/anything", ""):
        for body in SAMPLE_BODIES:
            raw = RawRequest("r1", f"/base/{path}", body, headers={"x-a": "1"}, size=3)
            assert _parsed(plugin, raw) == _parsed(plugin, raw), "asked again, the parser answered differently"


def _parsed(plugin: Parser, raw: RawRequest) -> tuple[Any, ...]:
    request, refusal = None, ""
    try:
        request = plugin.parse(raw)
    except BadRequestError as error:
        refusal = str(error)
    if refusal:
        return (refusal,)
    assert isinstance(request, InferenceRequest), f"it gave {request!r}, and no reason"
    kept = (request.id, request.path, request.method, request.headers, request.size)
    assert kept == (raw.id, raw.path, raw.method, raw.headers, raw.size), "what came with the request is lost"
    assert all(isinstance(prompt, bytes) for prompt in request.prompts), "a prompt is bytes"
    return (request.model, request.adapter, request.prompts, request.streaming, request.max_output_tokens)


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
