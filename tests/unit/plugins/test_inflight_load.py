"""`inflight-load-producer`: counts from the decision to the end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.domain.decision import Decision
from app.extension import (
    IN_FLIGHT_REQUESTS,
    IN_FLIGHT_TOKENS,
    PREFIX_HITS,
    PREFIX_SHAPE,
    UNCACHED_TOKENS,
    InferenceRequest,
    InFlight,
    Lifecycle,
    PluginName,
    PrefixShape,
)
from app.routing.in_flight import InFlightRequests
from plugins.producers.inflight_load import InflightLoadProducer
from pointsman.testing import FakePool, make_candidates, make_decision, make_request
from tests.unit.plugins.given import params_of

Counts = tuple[dict[str, float], dict[str, float]]

WITH_OUTPUT: dict[str, Any] = {"addEstimatedOutputTokens": True}
REQUEST = make_request("x" * 400)
"""A prompt of 100 tokens."""


def producer(in_flight: InFlight | None = None, **params: Any) -> InflightLoadProducer:
    values = params_of(InflightLoadProducer.Params, params)
    return InflightLoadProducer(values, PluginName("inflight-load-producer"), in_flight or InFlightRequests())


async def counts(plugin: InflightLoadProducer) -> Counts:
    found: Any = await plugin.produce(REQUEST, FakePool(make_candidates("a", "b")))
    return dict(found[IN_FLIGHT_REQUESTS]), dict(found[IN_FLIGHT_TOKENS])


async def uncached(plugin: InflightLoadProducer, request: InferenceRequest) -> dict[str, float]:
    found: Any = await plugin.produce(request, FakePool(make_candidates("a", "b")))
    return dict(found[UNCACHED_TOKENS])


def disaggregated(decode: str, prefill: str) -> Decision:
    return Decision(
        "decode",
        {**make_decision(prefill, profile="prefill").results, **make_decision(decode, profile="decode").results},
    )


async def test_at_first_nothing_is_in_flight() -> None:
    assert await counts(producer()) == ({}, {})


async def test_a_decision_counts_its_request_and_its_tokens() -> None:
    plugin = producer()
    plugin.on_entered(REQUEST, make_decision("a", "b"))
    assert await counts(plugin) == ({"a": 1}, {"a": 100})


async def test_two_requests_add_up() -> None:
    plugin = producer()
    for name in ("a", "a", "b"):
        plugin.on_entered(REQUEST, make_decision(name))
    assert await counts(plugin) == ({"a": 2, "b": 1}, {"a": 200, "b": 100})


async def test_the_response_releases_the_tokens_and_keeps_the_request() -> None:
    plugin, decision = producer(), make_decision("a")
    plugin.on_entered(REQUEST, decision)
    plugin.on_prefilled(decision, exact=True)
    assert await counts(plugin) == ({"a": 1}, {})


async def test_the_end_releases_everything() -> None:
    plugin, decision = producer(), make_decision("a")
    plugin.on_entered(REQUEST, decision)
    plugin.on_prefilled(decision, exact=True)
    plugin.on_left(decision)
    assert await counts(plugin) == ({}, {})


async def test_the_end_without_a_response_releases_everything() -> None:
    plugin, decision = producer(), make_decision("a")
    plugin.on_entered(REQUEST, decision)
    plugin.on_left(decision)
    assert await counts(plugin) == ({}, {})


async def test_a_retry_moves_the_counts() -> None:
    plugin, first, second = producer(), make_decision("a"), make_decision("b")
    plugin.on_entered(REQUEST, first)
    plugin.on_left(first)
    plugin.on_entered(REQUEST, second)
    assert await counts(plugin) == ({"b": 1}, {"b": 100})


async def test_another_request_s_end_leaves_this_one_s_counts() -> None:
    plugin, one, other = producer(), make_decision("a"), make_decision("a")
    for decision in (one, other):
        plugin.on_entered(REQUEST, decision)
    plugin.on_left(one)
    assert await counts(plugin) == ({"a": 1}, {"a": 100})


async def test_every_profile_s_first_pick_counts() -> None:
    plugin = producer()
    plugin.on_entered(REQUEST, disaggregated("a", "b"))
    assert await counts(plugin) == ({"a": 1, "b": 1}, {"a": 100, "b": 100})


async def test_the_response_ends_the_prefill() -> None:
    plugin, decision = producer(), disaggregated("a", "b")
    plugin.on_entered(REQUEST, decision)
    plugin.on_prefilled(decision, exact=True)
    assert await counts(plugin) == ({"a": 1}, {})


async def test_with_output_estimated_the_response_ends_only_the_prefill() -> None:
    plugin, decision = producer(**WITH_OUTPUT), disaggregated("a", "b")
    plugin.on_entered(REQUEST, decision)
    plugin.on_prefilled(decision, exact=True)
    assert await counts(plugin) == ({"a": 1}, {"a": 250})


async def test_one_endpoint_for_both_profiles_counts_twice() -> None:
    plugin, decision = producer(), disaggregated("a", "a")
    plugin.on_entered(REQUEST, decision)
    before = await counts(plugin)
    plugin.on_prefilled(decision, exact=True)
    assert [before, await counts(plugin)] == [({"a": 2}, {"a": 200}), ({"a": 1}, {})]


async def test_a_profile_without_a_pick_does_not_count() -> None:
    plugin, decision = producer(), make_decision("a", profile="decode")
    empty = make_decision(profile="prefill").results
    plugin.on_entered(REQUEST, Decision("decode", {**decision.results, **empty}))
    assert await counts(plugin) == ({"a": 1}, {"a": 100})


@pytest.mark.parametrize(
    ("params", "limit", "tokens"),
    [
        pytest.param({}, None, 100, id="not estimated"),
        pytest.param({}, 20, 100, id="not estimated though the request has a limit"),
        pytest.param(WITH_OUTPUT, None, 250, id="one and a half times the prompt"),
        pytest.param({**WITH_OUTPUT, "outputRatio": 0.25}, None, 125, id="a quarter of the prompt"),
        pytest.param({**WITH_OUTPUT, "outputRatio": 0}, None, 100, id="no response at all"),
        pytest.param(WITH_OUTPUT, 20, 120, id="up to the request's limit"),
        pytest.param(WITH_OUTPUT, 0, 100, id="a limit of nothing"),
        pytest.param(WITH_OUTPUT, 1000, 250, id="a limit over the estimate"),
        pytest.param({**WITH_OUTPUT, "maxEstimatedOutputTokens": 30}, None, 130, id="up to the configured bound"),
        pytest.param({**WITH_OUTPUT, "maxEstimatedOutputTokens": 30}, 20, 120, id="up to the lower of both"),
        pytest.param({**WITH_OUTPUT, "maxEstimatedOutputTokens": 0}, None, 100, id="a bound of nothing"),
    ],
)
async def test_the_tokens_of_the_response_are_estimated(params: dict[str, Any], limit: int | None, tokens: int) -> None:
    plugin = producer(**params)
    plugin.on_entered(make_request("x" * 400, max_output_tokens=limit), make_decision("a"))
    assert await counts(plugin) == ({"a": 1}, {"a": tokens})


@pytest.mark.parametrize(
    ("hits", "shape", "costs"),
    [
        pytest.param({}, PrefixShape(), {"a": 100, "b": 100}, id="no match known"),
        pytest.param({"a": 3}, PrefixShape(6, 16), {"a": 52, "b": 100}, id="one has three blocks"),
        pytest.param({"a": 6, "b": 1}, PrefixShape(6, 16), {"a": 4, "b": 84}, id="one has all whole blocks"),
        pytest.param({"a": 9}, PrefixShape(9, 16), {"a": 0, "b": 100}, id="more blocks than tokens"),
    ],
)
async def test_what_an_endpoint_has_cached_costs_nothing(
    hits: dict[str, int], shape: PrefixShape, costs: dict[str, int]
) -> None:
    request = make_request("x" * 400, facts={PREFIX_HITS: hits, PREFIX_SHAPE: shape})
    assert await uncached(producer(), request) == costs


async def test_cached_tokens_are_not_counted_in_flight_and_the_response_is() -> None:
    request = make_request("x" * 400, facts={PREFIX_HITS: {"a": 3}, PREFIX_SHAPE: PrefixShape(6, 16)})
    plugin = producer(**WITH_OUTPUT)
    plugin.on_entered(request, make_decision("a"))
    assert await counts(plugin) == ({"a": 1}, {"a": 52 + 150})


async def test_the_matches_of_the_configured_producer_count() -> None:
    facts = {PREFIX_HITS.of("mine"): {"b": 1}, PREFIX_SHAPE.of("mine"): PrefixShape(6, 16), PREFIX_HITS: {"a": 6}}
    plugin = producer(prefixMatchInfoProducerName="mine")
    assert await uncached(plugin, make_request("x" * 400, facts=facts)) == {"a": 100, "b": 84}


async def test_counts_are_live() -> None:
    plugin = producer()
    found: Any = await plugin.produce(REQUEST, FakePool(make_candidates("a")))
    plugin.on_entered(REQUEST, make_decision("a"))
    assert found[IN_FLIGHT_REQUESTS]["a"] == 1


async def test_the_cost_for_an_unknown_endpoint_is_unknown() -> None:
    found: Any = await producer().produce(REQUEST, FakePool(make_candidates("a")))
    assert found[UNCACHED_TOKENS].get("unknown") is None


# -- what the process has in flight


def follower(in_flight: InFlightRequests, **params: Any) -> InflightLoadProducer:
    """A producer as it is after its start."""
    plugin = producer(in_flight, **params)
    in_flight.follow(plugin, "p")
    return plugin


async def test_it_follows_the_process_from_its_start_to_its_stop() -> None:
    in_flight, decisions = InFlightRequests(), [make_decision("a") for _ in range(3)]
    plugin = producer(in_flight)
    assert isinstance(plugin, Lifecycle)
    in_flight.begin(REQUEST, decisions[0])
    found = [await counts(plugin)]
    await plugin.start()
    in_flight.begin(REQUEST, decisions[1])
    found.append(await counts(plugin))
    await plugin.stop()
    in_flight.begin(REQUEST, decisions[2])
    in_flight.end(decisions[0])
    found.append(await counts(plugin))
    assert found == [({}, {}), ({"a": 2}, {"a": 200}), ({"a": 2}, {"a": 200})]


SIX = [
    # decision, whether the endpoint has responded
    (make_decision("a"), False),
    (make_decision("a"), True),
    (make_decision("b"), False),
    (disaggregated("a", "b"), False),
    (disaggregated("a", "b"), True),
    (disaggregated("b", "b"), False),
]


@pytest.mark.parametrize(
    ("params", "tokens"),
    [
        pytest.param({}, {"a": 200, "b": 400}, id="prompts that are not processed yet"),
        pytest.param(WITH_OUTPUT, {"a": 4 * 250, "b": 4 * 250}, id="with estimated responses"),
        pytest.param({**WITH_OUTPUT, "outputRatio": 0.5}, {"a": 4 * 150, "b": 4 * 150}, id="another ratio"),
        pytest.param(
            {**WITH_OUTPUT, "maxEstimatedOutputTokens": 10}, {"a": 4 * 110, "b": 4 * 110}, id="another upper bound"
        ),
        pytest.param({"prefixMatchInfoProducerName": "mine"}, {"a": 104, "b": 400}, id="another producer's matches"),
    ],
)
async def test_a_producer_that_joins_counts_what_is_in_flight_by_its_own_parameters(
    params: dict[str, Any], tokens: dict[str, float]
) -> None:
    request = make_request(
        "x" * 400, facts={PREFIX_HITS.of("mine"): {"a": 3}, PREFIX_SHAPE.of("mine"): PrefixShape(6, 16)}
    )
    in_flight, first = InFlightRequests(), producer()
    in_flight.follow(first, "first")
    for decision, responded in SIX:
        in_flight.begin(request, decision)
        if responded:
            in_flight.first_token(decision, exact=True)
    second = follower(in_flight, **params)
    found = [await counts(plugin) for plugin in (first, second)]
    assert found == [({"a": 4, "b": 4}, {"a": 200, "b": 400}), ({"a": 4, "b": 4}, tokens)]
    in_flight.unfollow(first)
    for decision, _ in SIX:
        in_flight.end(decision)
    assert await counts(second) == ({}, {})


STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "response", "end", "join"]), st.integers(0, 3), st.booleans()), max_size=40
)


@given(steps=STEPS, output=st.booleans())
def test_counts_are_never_negative_end_at_0_and_do_not_depend_on_when_a_producer_joined(
    steps: list[tuple[str, int, bool]], output: bool
) -> None:
    in_flight = InFlightRequests()
    plugins, alive = [follower(in_flight, addEstimatedOutputTokens=output)], []
    silent: list[Decision] = []
    for step, number, both in steps:
        if step == "start":
            alive.append(disaggregated("a", "b") if both else make_decision("ab"[number % 2]))
            silent.append(alive[-1])
            in_flight.begin(REQUEST, alive[-1])
        elif step == "join":
            plugins.append(follower(in_flight, addEstimatedOutputTokens=output))
        elif step == "response" and silent:
            in_flight.first_token(silent.pop(number % len(silent)), exact=True)
        elif step == "end" and alive:
            decision = alive.pop(number % len(alive))
            silent = [one for one in silent if one is not decision]
            in_flight.end(decision)
        first = plugins[0]
        assert all((one._requests, one._tokens) == (first._requests, first._tokens) for one in plugins)
        assert sum(first._requests.values()) >= len(alive)
        assert min([*first._requests.values(), *first._tokens.values()], default=1) > 0
    for decision in alive:
        in_flight.end(decision)
    assert all((one._requests, one._tokens, one._entries) == ({}, {}, {}) for one in plugins)


# -- parameters


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"outputRatio": -0.5}, id="negative ratio"),
        pytest.param({"maxEstimatedOutputTokens": -1}, id="negative bound"),
        pytest.param({"maxEstimatedOutputTokens": 1.5}, id="half a token"),
        pytest.param({"addEstimatedOutputTokens": 1}, id="a number for a boolean"),
        pytest.param({"ratio": 1}, id="unknown key"),
    ],
)
def test_parameters_out_of_bounds_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(InflightLoadProducer.Params, values)


def test_a_parameter_of_older_files_is_accepted() -> None:
    assert params_of(InflightLoadProducer.Params, {"syncCrossReplicaState": False}).output_ratio == 1.5


def test_it_wants_the_matches_and_produces_three_facts() -> None:
    params = params_of(InflightLoadProducer.Params, {})
    assert InflightLoadProducer.wants(params) == (PREFIX_HITS, PREFIX_SHAPE)
    assert {key.name for key in InflightLoadProducer.produces("mine", params)} == {
        IN_FLIGHT_REQUESTS.name,
        IN_FLIGHT_TOKENS.name,
        UNCACHED_TOKENS.name,
    }
