"""Scorers: scores calculated by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from app.extension import IN_FLIGHT_REQUESTS, KV_CACHE_USAGE, PREFIX_HITS, PREFIX_SHAPE, RUNNING, WAITING, PrefixShape
from plugins.scorers.active_request import ActiveRequestScorer
from plugins.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from plugins.scorers.load_aware import LoadAwareScorer
from plugins.scorers.prefix_cache_scorer import PrefixCacheScorer
from plugins.scorers.queue import QueueScorer
from plugins.scorers.running_requests import RunningRequestsScorer
from pointsman.testing import make_candidates, make_request
from tests.unit.plugins.given import params_of

LOADS = [
    pytest.param([0, 5, 10], [1.0, 0.5, 0.0], id="spread"),
    pytest.param([2, 4, 3], [1.0, 0.0, 0.5], id="none idle"),
    pytest.param([1, 9, 3, 5], [1.0, 0.0, 0.75, 0.5], id="four"),
    pytest.param([0, 0, 0], [1.0, 1.0, 1.0], id="all idle"),
    pytest.param([7, 7], [1.0, 1.0], id="all equally busy"),
    pytest.param([12], [1.0], id="a single one"),
    pytest.param([math.nan, 0, 4], [1.0, 1.0, 0.0], id="unknown and nothing in flight"),
    pytest.param([math.nan, math.nan], [1.0, 1.0], id="all unknown"),
]


def queue_scorer(**params: Any) -> QueueScorer:
    return QueueScorer(params_of(QueueScorer.Params, params))


def kv_scorer(**params: Any) -> KvCacheUtilizationScorer:
    return KvCacheUtilizationScorer(params_of(KvCacheUtilizationScorer.Params, params))


def endpoints(count: int) -> list[str]:
    return [f"e{number}" for number in range(count)]


@pytest.mark.parametrize(("waiting", "scores"), LOADS)
def test_the_shortest_queue_scores_1_and_the_longest_0(waiting: list[float], scores: list[float]) -> None:
    candidates = make_candidates(*endpoints(len(waiting)), waiting=waiting)
    assert list(queue_scorer().score(make_request(), candidates)) == scores


@pytest.mark.parametrize(("running", "scores"), LOADS)
def test_the_fewest_running_requests_score_1_and_the_most_0(running: list[float], scores: list[float]) -> None:
    candidates = make_candidates(*endpoints(len(running)), running=running)
    assert list(RunningRequestsScorer().score(make_request(), candidates)) == scores


def test_the_queue_scorer_ignores_running_requests() -> None:
    candidates = make_candidates("a", "b", waiting=[1, 1], running=[9, 0])
    assert list(queue_scorer().score(make_request(), candidates)) == [1.0, 1.0]


def test_the_queue_of_an_unknown_endpoint_is_its_requests_in_flight() -> None:
    candidates = make_candidates("a", "b", "c", waiting=[math.nan, 0, 4], in_flight={"a": 3, "c": 50})
    assert list(queue_scorer(addInFlight=False).score(make_request(), candidates)) == [0.25, 1.0, 0.0]


@pytest.mark.parametrize(
    ("in_flight", "scores", "as_in_go"),
    [
        pytest.param({}, [0.5, 1.0, 0.0], [0.5, 1.0, 0.0], id="nothing in flight"),
        pytest.param({"a": 5, "b": 3}, [0.5, 1.0, 0.0], [0.5, 1.0, 0.0], id="all on the page"),
        pytest.param({"b": 17}, [1.0, 0.0, 10 / 12], [0.5, 1.0, 0.0], id="a failover of 17 requests"),
        pytest.param({"a": 9, "b": 5, "c": 8}, [0.0, 1.0, 0.5], [0.5, 1.0, 0.0], id="some of each"),
    ],
)  # fmt: skip
def test_requests_sent_since_the_scrape_count_as_waiting(
    in_flight: dict[str, int], scores: list[float], as_in_go: list[float]
) -> None:
    """The page: 2, 0 and 4 waiting, 3, 3 and 4 running."""
    candidates = make_candidates("a", "b", "c", waiting=[2, 0, 4], running=[3, 3, 4], in_flight=in_flight)
    assert list(queue_scorer().score(make_request(), candidates)) == pytest.approx(scores)
    assert list(queue_scorer(addInFlight=False).score(make_request(), candidates)) == pytest.approx(as_in_go)
    load_aware = LoadAwareScorer(params_of(LoadAwareScorer.Params, {"threshold": 16}))
    waiting = [2 + max(in_flight.get("a", 0) - 5, 0), max(in_flight.get("b", 0) - 3, 0), 4]
    assert list(load_aware.score(make_request(), candidates)) == pytest.approx([0.5 * (1 - w / 16) for w in waiting])


@pytest.mark.parametrize(
    ("running", "in_flight", "scores"),
    [
        pytest.param([4, 4], {"a": 4}, [0.7, 0.5], id="all on the page"),
        pytest.param([4, 4], {"a": 8}, [0.3, 0.5], id="four more, at a tenth each"),
        pytest.param([4, 4], {"a": 40}, [0.0, 0.5], id="never below 0"),
        pytest.param([0, 0], {"a": 3}, [0.7, 0.5], id="nothing to judge by"),
    ],
)
def test_requests_sent_since_the_scrape_take_kv_cache(
    running: list[float], in_flight: dict[str, int], scores: list[float]
) -> None:
    candidates = make_candidates(
        "a", "b", waiting=[0, 0], running=running, kv_cache_usage=[0.3, 0.5], in_flight=in_flight
    )
    assert list(kv_scorer().score(make_request(), candidates)) == pytest.approx(scores)
    assert list(kv_scorer(addInFlight=False).score(make_request(), candidates)) == pytest.approx([0.7, 0.5])


@pytest.mark.parametrize(
    ("usage", "scores"),
    [
        pytest.param([0.0, 0.25, 1.0], [1.0, 0.75, 0.0], id="spread"),
        pytest.param([0.9, 0.9], [0.1, 0.1], id="equally full"),
        pytest.param([0.5], [0.5], id="a single one"),
        pytest.param([math.nan, 0.2, 0.4], [0.7, 0.8, 0.6], id="unknown is the mean of the known"),
        pytest.param([math.nan, math.nan], [0.5, 0.5], id="all unknown"),
    ],
)
def test_the_free_share_of_the_kv_cache_is_the_score(usage: list[float], scores: list[float]) -> None:
    candidates = make_candidates(*endpoints(len(usage)), kv_cache_usage=usage)
    assert list(kv_scorer().score(make_request(), candidates)) == pytest.approx(scores)


@pytest.mark.parametrize(
    ("params", "counts", "scores"),
    [
        pytest.param({}, [0, 1, 4], [1.0, 0.75, 0.0], id="defaults"),
        pytest.param({}, [0, 0], [1.0, 1.0], id="all idle"),
        pytest.param({}, [3, 3], [0.0, 0.0], id="all equally busy"),
        pytest.param({}, [5], [0.0], id="a single busy one"),
        pytest.param({"idleThreshold": 2}, [0, 2, 3, 6], [1.0, 1.0, 0.5, 0.0], id="idle up to two"),
        pytest.param({"idleThreshold": 3}, [3, 3], [1.0, 1.0], id="all just idle"),
        pytest.param({"maxBusyScore": 0.5}, [0, 1, 4], [1.0, 0.375, 0.0], id="busy ones at most a half"),
        pytest.param({"maxBusyScore": 0.0}, [0, 1, 4], [1.0, 0.0, 0.0], id="busy ones zero"),
        pytest.param({"idleThreshold": 1, "maxBusyScore": 0.8}, [1, 2, 8], [1.0, 0.6, 0.0], id="both"),
        pytest.param({"requestTimeout": "2m"}, [0, 2], [1.0, 0.0], id="requestTimeout is ignored"),
    ],
)
def test_fewer_requests_in_flight_score_higher(params: dict[str, Any], counts: list[int], scores: list[float]) -> None:
    names = endpoints(len(counts))
    candidates = make_candidates(*names, facts={IN_FLIGHT_REQUESTS: dict(zip(names, counts, strict=True))})
    plugin = ActiveRequestScorer(params_of(ActiveRequestScorer.Params, params))
    assert list(plugin.score(make_request(), candidates)) == pytest.approx(scores)


def test_an_endpoint_without_a_count_has_nothing_in_flight() -> None:
    candidates = make_candidates("a", "b", facts={IN_FLIGHT_REQUESTS: {"b": 2}})
    plugin = ActiveRequestScorer(ActiveRequestScorer.Params())
    assert list(plugin.score(make_request(), candidates)) == [1.0, 0.0]


def test_the_active_request_scorer_reads_the_configured_producer() -> None:
    params = params_of(ActiveRequestScorer.Params, {"inFlightLoadProducerName": "mine"})
    candidates = make_candidates(
        "a", "b", facts={IN_FLIGHT_REQUESTS: {"a": 9}, IN_FLIGHT_REQUESTS.of("mine"): {"b": 9}}
    )
    assert list(ActiveRequestScorer(params).score(make_request(), candidates)) == [1.0, 0.0]


def prefix_scores(params: dict[str, Any], hits: dict[str, int], shape: PrefixShape | None) -> list[float]:
    plugin = PrefixCacheScorer(params_of(PrefixCacheScorer.Params, params))
    facts = {} if shape is None else {PREFIX_HITS: hits, PREFIX_SHAPE: shape}
    candidates = make_candidates("a", "b", "c", facts=facts)
    return list(plugin.score(make_request(facts=facts), candidates))


HITS = {"a": 8, "b": 2}
SHAPE = PrefixShape(total_blocks=8, block_tokens=64)
HALF = {"matchLengthWeight": 0.5, "matchLengthScaleTokens": 1024}
LENGTH = {"matchLengthWeight": 1.0, "matchLengthScaleTokens": 1024}
SHORT = {"matchLengthWeight": 1.0, "matchLengthScaleTokens": 256}


@pytest.mark.parametrize(
    ("params", "hits", "shape", "scores"),
    [
        pytest.param({}, HITS, SHAPE, [1.0, 0.25, 0.0], id="share of the prompt"),
        pytest.param({}, {}, SHAPE, [0.0, 0.0, 0.0], id="no endpoint has any of it"),
        pytest.param({}, HITS, None, [0.0, 0.0, 0.0], id="no facts"),
        pytest.param({}, HITS, PrefixShape(), [0.0, 0.0, 0.0], id="no blocks in total"),
        pytest.param({}, {"gone": 8}, SHAPE, [0.0, 0.0, 0.0], id="its holder is gone"),
        pytest.param(LENGTH, HITS, SHAPE, [0.25, 0.015625, 0.0], id="length of 512 and 128 of 1024 tokens squared"),
        pytest.param(HALF, HITS, SHAPE, [0.625, 0.1328125, 0.0], id="half length and half share"),
        pytest.param(SHORT, HITS, SHAPE, [1.0, 0.25, 0.0], id="a length above the scale scores 1"),
        pytest.param(HALF, HITS, None, [0.0, 0.0, 0.0], id="length without facts"),
        pytest.param(LENGTH, {"a": 8}, PrefixShape(8, 0), [0.0, 0.0, 0.0], id="length with blocks of size zero"),
    ],
)
def test_more_of_the_prompt_in_the_cache_scores_higher(
    params: dict[str, Any], hits: dict[str, int], shape: PrefixShape | None, scores: list[float]
) -> None:
    assert prefix_scores(params, hits, shape) == pytest.approx(scores)


def test_the_prefix_scorer_reads_the_configured_producer() -> None:
    plugin = PrefixCacheScorer(params_of(PrefixCacheScorer.Params, {"prefixMatchInfoProducerName": "mine"}))
    facts = {PREFIX_HITS.of("mine"): {"b": 4}, PREFIX_SHAPE.of("mine"): SHAPE, PREFIX_HITS: {"a": 8}}
    assert list(plugin.score(make_request(facts=facts), make_candidates("a", "b", facts=facts))) == [0.0, 0.5]


@pytest.mark.parametrize(
    ("params", "values"),
    [
        pytest.param(ActiveRequestScorer.Params, {"idleThreshold": -1}, id="negative idle threshold"),
        pytest.param(ActiveRequestScorer.Params, {"maxBusyScore": 1.1}, id="busy score over one"),
        pytest.param(ActiveRequestScorer.Params, {"maxBusyScore": -0.1}, id="negative busy score"),
        pytest.param(ActiveRequestScorer.Params, {"maxBusyScore": math.nan}, id="busy score not a number"),
        pytest.param(ActiveRequestScorer.Params, {"idleTreshold": 1}, id="misspelt key"),
        pytest.param(PrefixCacheScorer.Params, {"matchLengthWeight": 1.5}, id="weight over one"),
        pytest.param(PrefixCacheScorer.Params, {"matchLengthWeight": -0.5}, id="negative weight"),
        pytest.param(PrefixCacheScorer.Params, {"matchLengthWeight": True}, id="weight as a boolean"),
        pytest.param(PrefixCacheScorer.Params, {"matchLengthScaleTokens": 0}, id="scale of zero"),
        pytest.param(PrefixCacheScorer.Params, {"matchLengthScaleTokens": "8192"}, id="scale as text"),
    ],
)
def test_parameters_out_of_bounds_are_rejected(params: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(params, values)


@pytest.mark.parametrize(
    ("needs", "facts"),
    [
        pytest.param(QueueScorer.needs, (WAITING,), id="queue"),
        pytest.param(RunningRequestsScorer.needs, (RUNNING,), id="running"),
        pytest.param(KvCacheUtilizationScorer.needs, (KV_CACHE_USAGE,), id="kv cache"),
        pytest.param(ActiveRequestScorer.needs(ActiveRequestScorer.Params()), (IN_FLIGHT_REQUESTS,), id="active"),
        pytest.param(PrefixCacheScorer.needs(PrefixCacheScorer.Params()), (PREFIX_HITS, PREFIX_SHAPE), id="prefix"),
    ],
)
def test_a_scorer_declares_the_facts_that_it_needs(needs: tuple[Any, ...], facts: tuple[Any, ...]) -> None:
    assert needs == facts
