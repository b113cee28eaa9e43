"""`approx-prefix-cache-producer`: which prompts it assumes each endpoint to hold."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.candidates import Candidates
from app.domain.decision import Decision
from app.extension import PREFIX_HITS, PREFIX_SHAPE, EndpointMetrics, InferenceRequest, PluginName, PrefixShape
from app.fleet.pool import EndpointPool
from plugins.producers.approx_prefix_cache import ApproxPrefixCacheProducer
from pointsman.testing import FakeClock, FakePool, make_candidates, make_decision, make_endpoint, make_request
from tests.unit.plugins.given import params_of

FIXED: dict[str, Any] = {"autoTune": False, "blockSizeTokens": 4}
BLOCK = "0123456789abcdef"
"""Four tokens."""


def producer(clock: FakeClock | None = None, **params: Any) -> ApproxPrefixCacheProducer:
    values = params_of(ApproxPrefixCacheProducer.Params, params)
    return ApproxPrefixCacheProducer(values, PluginName("approx-prefix-cache-producer"), clock or FakeClock())


def pool(*names: str, metrics: list[EndpointMetrics | None] | None = None) -> FakePool:
    return FakePool(make_candidates(*names, metrics=metrics))


async def ask(plugin: ApproxPrefixCacheProducer, request: InferenceRequest, among: Any) -> InferenceRequest:
    return request.with_facts(request.facts.and_(await plugin.produce(request, among)))


async def send(
    plugin: ApproxPrefixCacheProducer, request: InferenceRequest, among: Any, decision: Decision | None = None
) -> None:
    plugin.on_scheduled(await ask(plugin, request, among), decision or make_decision("a"))


def hits(request: InferenceRequest) -> dict[str, float]:
    return dict(request.facts.per_endpoint(PREFIX_HITS))


def shape(request: InferenceRequest) -> PrefixShape:
    return request.facts.get(PREFIX_SHAPE)


async def hits_of_b_after_a(first: InferenceRequest, second: InferenceRequest, **params: Any) -> dict[str, float]:
    plugin, among = producer(**{**FIXED, **params}), pool("a", "b")
    await send(plugin, first, among)
    return hits(await ask(plugin, second, among))


async def test_an_endpoint_that_got_a_prompt_has_its_whole_blocks() -> None:
    request = make_request(BLOCK * 3 + "rest")
    assert await hits_of_b_after_a(request, request) == {"a": 3}


async def test_a_new_prompt_matches_no_endpoint() -> None:
    known = await ask(producer(**FIXED), make_request(BLOCK * 3), pool("a"))
    assert (hits(known), shape(known).total_blocks, shape(known).block_tokens) == ({}, 3, 4)


async def test_only_the_common_beginning_matches() -> None:
    first, second = make_request(BLOCK * 4), make_request(BLOCK * 2 + "x" * 16 + BLOCK)
    assert await hits_of_b_after_a(first, second) == {"a": 2}


async def test_a_prompt_shorter_than_a_block_never_matches() -> None:
    request = make_request(BLOCK[:15])
    assert await hits_of_b_after_a(request, request) == {}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"model": "other"}, id="model"),
        pytest.param({"adapter": "lora"}, id="adapter"),
        pytest.param({"cache_salt": "tenant"}, id="salt"),
    ],
)
async def test_a_prompt_under_another_name_does_not_match(fields: dict[str, Any]) -> None:
    assert await hits_of_b_after_a(make_request(BLOCK), make_request(BLOCK, **fields)) == {}


async def test_a_growing_chat_matches_more_each_turn() -> None:
    plugin, among, found = producer(**FIXED), pool("a", "b"), []
    for turn in range(1, 5):
        known = await ask(plugin, make_request(BLOCK * 2 * turn), among)
        plugin.on_scheduled(known, make_decision("a"))
        found.append(hits(known).get("a", 0))
    assert found == [0, 2, 4, 6]


async def test_matches_of_several_prompts_are_added_up() -> None:
    plugin, among = producer(**FIXED), pool("a", "b")
    await send(plugin, make_request(BLOCK * 2), among)
    several = InferenceRequest("s", "/v1/completions", model="demo", prompts=(BLOCK.encode() * 3, b"", BLOCK.encode()))
    known = await ask(plugin, several, among)
    assert (hits(known), shape(known).total_blocks) == ({"a": 3}, 4)


async def test_a_request_without_a_prompt_has_no_facts() -> None:
    assert await producer(**FIXED).produce(InferenceRequest("n", "/v1/x", "GET"), pool("a")) == {}


async def test_the_endpoint_that_prefills_is_credited_too() -> None:
    plugin, among = producer(**FIXED), pool("a", "b", "c")
    results = {**make_decision("a", profile="decode").results, **make_decision("b", profile="prefill").results}
    await send(plugin, make_request(BLOCK), among, Decision("decode", results))
    assert hits(await ask(plugin, make_request(BLOCK), among)) == {"a": 1, "b": 1}


async def test_other_profiles_picks_are_not_credited() -> None:
    plugin, among = producer(**FIXED), pool("a", "b")
    results = {**make_decision("a", profile="decode").results, **make_decision("b", profile="shadow").results}
    await send(plugin, make_request(BLOCK), among, Decision("decode", results))
    assert hits(await ask(plugin, make_request(BLOCK), among)) == {"a": 1}


async def test_only_the_first_of_a_list_is_credited() -> None:
    plugin, among = producer(**FIXED), pool("a", "b")
    await send(plugin, make_request(BLOCK), among, make_decision("b", "a"))
    assert hits(await ask(plugin, make_request(BLOCK), among)) == {"b": 1}


async def test_facts_have_the_instance_s_name() -> None:
    plugin = ApproxPrefixCacheProducer(
        params_of(ApproxPrefixCacheProducer.Params, FIXED), PluginName("mine"), FakeClock()
    )
    found = await plugin.produce(make_request(BLOCK), pool("a"))
    assert set(found) == {PREFIX_HITS.of("mine"), PREFIX_SHAPE.of("mine")}


@pytest.mark.parametrize(
    ("engine", "tokens"),
    [
        pytest.param(1, 64, id="tiny"),
        pytest.param(16, 64, id="16 to 64"),
        pytest.param(32, 64, id="32 to 64"),
        pytest.param(48, 96, id="48 to 96"),
        pytest.param(64, 64, id="64 stays"),
        pytest.param(65, 65, id="65 stays"),
        pytest.param(128, 128, id="128 stays"),
    ],
)
async def test_auto_tuned_blocks_are_multiples_of_the_engine_s_and_not_small(engine: int, tokens: int) -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=engine)])
    known = await ask(producer(), make_request("x" * 4096), among)
    assert (shape(known).block_tokens, shape(known).total_blocks) == (tokens, 1024 // tokens)


@pytest.mark.parametrize(
    ("params", "tokens"),
    [
        pytest.param({}, 64, id="default"),
        pytest.param({"blockSizeTokens": 32}, 64, id="small"),
        pytest.param({"blockSizeTokens": 100}, 100, id="large"),
        pytest.param({"blockSize": 100}, 100, id="older name"),
        pytest.param({"blockSize": 100, "blockSizeTokens": 80}, 80, id="both names"),
        pytest.param({"autoTune": False}, 16, id="not tuned"),
        pytest.param({"autoTune": False, "blockSizeTokens": 5}, 5, id="not tuned and odd"),
        pytest.param({"autoTune": False, "blockSize": 8}, 8, id="not tuned with the older name"),
    ],
)
async def test_without_the_engine_s_block_size_the_configured_one_counts(params: dict[str, Any], tokens: int) -> None:
    known = await ask(producer(**params), make_request("x" * 4096), pool("a"))
    assert shape(known).block_tokens == tokens


async def test_without_auto_tune_the_engine_s_block_size_is_ignored() -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=128, num_blocks=1)])
    known = await ask(producer(**FIXED), make_request(BLOCK * 9), among)
    assert (shape(known).block_tokens, shape(known).total_blocks) == (4, 9)


async def test_the_size_of_the_engine_s_cache_bounds_what_it_is_assumed_to_hold() -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=16, num_blocks=8)])
    plugin, request = producer(), make_request("x" * 256 * 5)
    await send(plugin, request, among)
    assert hits(await ask(plugin, request, among)) == {"a": 2}  # 8 * 16 tokens are two blocks of 64


async def test_a_cache_smaller_than_a_block_holds_one() -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=16, num_blocks=1)])
    plugin, request = producer(), make_request("x" * 256 * 5)
    await send(plugin, request, among)
    assert hits(await ask(plugin, request, among)) == {"a": 1}


async def test_the_configured_capacity_bounds_an_endpoint_whose_cache_size_is_unknown() -> None:
    request = make_request(BLOCK * 5)
    assert await hits_of_b_after_a(request, request, lruCapacityPerServer=3) == {"a": 3}


async def test_the_block_size_is_read_again_after_a_second(clock: FakeClock) -> None:
    plugin, sizes = producer(clock), []
    for size, wait in ((128, 0.5), (256, 0.6), (256, 0.0)):
        among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=size)])
        sizes.append(shape(await ask(plugin, make_request("x" * 4096), among)).block_tokens)
        clock.advance(wait)
    assert sizes == [128, 128, 256]


@pytest.mark.parametrize(
    ("params", "blocks"),
    [
        pytest.param({"maxPrefixTokensToMatch": 12}, 3, id="tokens"),
        pytest.param({"maxPrefixTokensToMatch": 15}, 3, id="tokens rounded down"),
        pytest.param({"maxPrefixTokensToMatch": 3}, 0, id="less than a block"),
        pytest.param({"maxPrefixTokensToMatch": 0, "maxPrefixBlocksToMatch": 2}, 2, id="blocks"),
        pytest.param({"maxPrefixTokensToMatch": 12, "maxPrefixBlocksToMatch": 2}, 3, id="tokens before blocks"),
        pytest.param({"maxPrefixTokensToMatch": 0, "maxPrefixBlocksToMatch": 0}, 5000, id="no bound"),
        pytest.param({"maxPrefixTokensToMatch": 0}, 2048, id="the usual bound in blocks"),
    ],
)
async def test_only_a_part_of_a_long_prompt_is_compared(params: dict[str, Any], blocks: int) -> None:
    known = await ask(producer(**FIXED, **params), make_request(BLOCK * 5000), pool("a"))
    assert shape(known).total_blocks == blocks


def real_pool(clock: FakeClock, *names: str) -> EndpointPool:
    made = EndpointPool(clock=clock, in_flight=lambda _: 0)
    made.replace_all([make_endpoint(name) for name in names])
    return made


def take_down(among: EndpointPool, name: str) -> None:
    endpoint = among.get(name)
    assert endpoint is not None
    assert among.mark_down(endpoint, "gone")


async def test_an_endpoint_that_is_down_is_forgotten(clock: FakeClock) -> None:
    plugin, among = producer(clock, **FIXED), real_pool(clock, "a", "b")
    await send(plugin, make_request(BLOCK), among)
    take_down(among, "a")
    assert hits(await ask(plugin, make_request(BLOCK), among)) == {}


async def test_an_endpoint_that_was_down_comes_back_with_an_empty_cache(clock: FakeClock) -> None:
    plugin, among = producer(clock, **FIXED), real_pool(clock, "a", "b")
    await send(plugin, make_request(BLOCK), among)
    endpoint = among.get("a")
    assert endpoint is not None
    among.mark_down(endpoint, "restarting")
    among.mark_up(endpoint)
    assert hits(await ask(plugin, make_request(BLOCK), among)) == {}


async def test_an_endpoint_that_has_left_is_forgotten(clock: FakeClock) -> None:
    plugin, among = producer(clock, **FIXED), real_pool(clock, "a", "b")
    await send(plugin, make_request(BLOCK), among)
    for names in (["b"], ["a", "b"]):
        among.replace_all([make_endpoint(name) for name in names])
        known = await ask(plugin, make_request(BLOCK), among)
    assert hits(known) == {}


async def test_the_others_are_kept_when_one_goes_down(clock: FakeClock) -> None:
    plugin, among = producer(clock, **FIXED), real_pool(clock, "a", "b")
    await send(plugin, make_request(BLOCK), among)
    take_down(among, "b")
    assert hits(await ask(plugin, make_request(BLOCK), among)) == {"a": 1}


# -- the next configuration


@pytest.mark.parametrize(
    ("before", "after", "inherits"),
    [
        pytest.param({}, {}, True, id="the same"),
        pytest.param({}, {"lruCapacityPerServer": 5}, True, id="another capacity"),
        pytest.param({}, {"maxPrefixTokensToMatch": 512}, True, id="another limit on the prompt"),
        pytest.param({"blockSizeTokens": 16}, {"blockSizeTokens": 32}, True, id="both below the smallest tuned block"),
        pytest.param({"blockSizeTokens": 16}, {"blockSizeTokens": 100}, False, id="another tuned block"),
        pytest.param({"blockSize": 100}, {"blockSizeTokens": 100}, True, id="the older name"),
        pytest.param({"autoTune": False}, {"autoTune": False}, True, id="not tuned"),
        pytest.param(FIXED, {**FIXED, "blockSizeTokens": 8}, False, id="not tuned with another block"),
        pytest.param({"autoTune": False, "blockSizeTokens": 64}, {}, False, id="tuned from now on"),
        pytest.param({}, {"autoTune": False, "blockSizeTokens": 64}, False, id="no longer tuned"),
    ],
)
async def test_the_memory_is_inherited_if_blocks_are_cut_alike(
    before: dict[str, Any], after: dict[str, Any], inherits: bool
) -> None:
    plugin, successor, among = producer(**before), producer(**after), pool("a", "b")
    request = make_request("x" * 1024)
    await send(plugin, request, among)
    successor.inherit_from(plugin)
    known = await ask(successor, request, among)
    assert bool(hits(known)) is inherits
    assert hits(known) == ({"a": shape(known).total_blocks} if inherits else {})


async def test_both_configurations_learn_from_requests_of_either_one() -> None:
    plugin, successor, among = producer(**FIXED), producer(**FIXED), pool("a", "b")
    successor.inherit_from(plugin)
    running = await ask(plugin, make_request(BLOCK * 2), among)  # it began before the reload
    plugin.on_scheduled(running, make_decision("b"))
    await send(successor, make_request(BLOCK), among)
    found = [hits(await ask(one, make_request(BLOCK * 3), among)) for one in (plugin, successor)]
    assert found == [{"a": 1, "b": 2}] * 2


async def test_a_successor_begins_with_the_block_size_that_its_predecessor_was_tuned_to(clock: FakeClock) -> None:
    tuned = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=128)])
    plugin, request = producer(clock), make_request("x" * 4096)
    await send(plugin, request, tuned)
    found = []
    for _ in range(2):  # and its successor as well
        successor = producer(clock)
        successor.inherit_from(plugin)
        plugin = successor
        known = await ask(plugin, request, pool("a"))  # where the engine's metrics are unknown at the moment
        found.append((hits(known), shape(known).block_tokens))
    assert found == [({"a": 8}, 128)] * 2


async def test_endpoints_that_went_down_before_the_reload_are_forgotten(clock: FakeClock) -> None:
    plugin, successor = producer(clock, **FIXED), producer(clock, **FIXED)
    among = real_pool(clock, "a", "b")
    for name in "ab":
        await send(plugin, make_request(BLOCK), among, make_decision(name))
    take_down(among, "a")
    successor.inherit_from(plugin)
    following = EndpointPool(clock=clock, in_flight=lambda _: 0, table=among.table)
    assert hits(await ask(successor, make_request(BLOCK), following)) == {"b": 1}


def test_candidates_have_the_matches_as_a_column() -> None:
    candidates: Candidates = make_candidates("a", "b", facts={PREFIX_HITS: {"b": 3}})
    assert list(candidates.fact(PREFIX_HITS)) == [0.0, 3.0]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"blockSizeTokens": 0}, id="blocks of nothing"),
        pytest.param({"blockSizeTokens": -16}, id="negative blocks"),
        pytest.param({"blockSize": 0}, id="older name with nothing"),
        pytest.param({"maxPrefixTokensToMatch": -1}, id="negative tokens"),
        pytest.param({"maxPrefixBlocksToMatch": -1}, id="negative number of blocks"),
        pytest.param({"lruCapacityPerServer": 0}, id="no capacity"),
        pytest.param({"autoTune": "yes"}, id="text for a boolean"),
        pytest.param({"hashBlockSize": 64}, id="unknown key"),
    ],
)
def test_parameters_out_of_bounds_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(ApproxPrefixCacheProducer.Params, values)
