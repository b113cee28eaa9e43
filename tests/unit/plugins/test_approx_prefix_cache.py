"""`approx-prefix-cache-producer`: what it takes each endpoint to hold."""

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

FIXED = {"autoTune": False, "blockSizeTokens": 4}
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


async def test_who_got_a_prompt_has_its_whole_blocks() -> None:
    request = make_request(BLOCK * 3 + "rest")
    assert await hits_of_b_after_a(request, request) == {"a": 3}


async def test_a_new_prompt_matches_nobody() -> None:
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


async def test_whoever_prefills_is_credited_too() -> None:
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


async def test_facts_stand_under_the_instance_s_name() -> None:
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
async def test_auto_tuned_blocks_are_whole_blocks_of_the_engine_and_not_small(engine: int, tokens: int) -> None:
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
async def test_without_an_engine_s_word_the_configured_size_counts(params: dict[str, Any], tokens: int) -> None:
    known = await ask(producer(**params), make_request("x" * 4096), pool("a"))
    assert shape(known).block_tokens == tokens


async def test_without_auto_tune_the_engine_s_block_size_is_not_looked_at() -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=128, num_blocks=1)])
    known = await ask(producer(**FIXED), make_request(BLOCK * 9), among)
    assert (shape(known).block_tokens, shape(known).total_blocks) == (4, 9)


async def test_the_engine_s_cache_bounds_what_it_is_taken_to_hold() -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=16, num_blocks=8)])
    plugin, request = producer(), make_request("x" * 256 * 5)
    await send(plugin, request, among)
    assert hits(await ask(plugin, request, among)) == {"a": 2}  # 8 * 16 tokens are two blocks of 64


async def test_a_cache_smaller_than_a_block_holds_one() -> None:
    among = pool("a", metrics=[EndpointMetrics(waiting=0.0, block_size=16, num_blocks=1)])
    plugin, request = producer(), make_request("x" * 256 * 5)
    await send(plugin, request, among)
    assert hits(await ask(plugin, request, among)) == {"a": 1}


async def test_the_configured_capacity_bounds_an_endpoint_that_does_not_tell() -> None:
    request = make_request(BLOCK * 5)
    assert await hits_of_b_after_a(request, request, lruCapacityPerServer=3) == {"a": 3}


async def test_block_size_is_looked_at_again_after_a_second(clock: FakeClock) -> None:
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
async def test_only_so_much_of_a_prompt_is_compared(params: dict[str, Any], blocks: int) -> None:
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


def test_candidates_take_a_match_as_a_column() -> None:
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
