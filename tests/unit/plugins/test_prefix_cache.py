"""`prefix-cache`: finds, scores and remembers the beginnings of prompts by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.domain.decision import Decision
from app.extension import (
    PREFIX_HITS,
    PREFIX_SHAPE,
    InferenceRequest,
    OnScheduled,
    PluginName,
    Producer,
    Scorer,
)
from app.fleet.pool import EndpointPool
from plugins.scorers.prefix_cache import PrefixCache
from pointsman.testing import FakeClock, FakePool, make_candidates, make_decision, make_endpoint, make_request
from tests.unit.plugins.given import params_of

BLOCK = "0123456789abcdef"
"""A block of 16 bytes."""


def plugin_of(name: str = "prefix-cache", **params: Any) -> PrefixCache:
    values = params_of(PrefixCache.Params, {"hashBlockSize": 16, **params})
    return PrefixCache(values, PluginName(name))


def pool(*names: str) -> FakePool:
    return FakePool(make_candidates(*names))


async def ask(plugin: PrefixCache, request: InferenceRequest, among: Any) -> InferenceRequest:
    return request.with_facts(request.facts.and_(await plugin.produce(request, among)))


async def send(plugin: PrefixCache, prompt: str, among: Any, decision: Decision | str = "a") -> None:
    decided = make_decision(decision) if isinstance(decision, str) else decision
    plugin.on_scheduled(await ask(plugin, make_request(prompt), among), decided)


async def scores(plugin: PrefixCache, request: InferenceRequest | str, among: Any) -> list[float]:
    known = await ask(plugin, make_request(request) if isinstance(request, str) else request, among)
    return list(plugin.score(known, among.candidates(known.facts)))


def endpoints(*names: str, clock: FakeClock | None = None) -> EndpointPool:
    made = EndpointPool(clock=clock or FakeClock(), in_flight=lambda _: 0)
    made.replace_all([make_endpoint(name) for name in names])
    return made


def test_it_is_a_producer_a_scorer_and_an_observer() -> None:
    plugin = plugin_of()
    assert all(isinstance(plugin, point) for point in (Producer, Scorer, OnScheduled))


# -- scores


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(BLOCK * 4, BLOCK * 4, 1.0, id="the same prompt"),
        pytest.param(BLOCK * 2, BLOCK * 4, 0.5, id="a longer prompt"),
        pytest.param(BLOCK * 4, BLOCK * 2, 1.0, id="a shorter prompt"),
        pytest.param(BLOCK * 4, BLOCK * 3 + "x" * 16, 0.75, id="another end"),
        pytest.param(BLOCK * 4, "x" + BLOCK * 4, 0.0, id="another beginning"),
        pytest.param("x" * 16 + BLOCK, BLOCK * 2, 0.0, id="a block at another place"),
        pytest.param(BLOCK * 4 + "rest", BLOCK * 4 + "more", 1.0, id="what is left of a block does not count"),
        pytest.param(BLOCK[:15], BLOCK[:15], 0.0, id="less than a block"),
        pytest.param("", "", 0.0, id="an empty prompt"),
    ],
)
async def test_the_share_of_the_prompt_that_an_endpoint_has_is_its_score(
    first: str, second: str, expected: float
) -> None:
    plugin, among = plugin_of(), endpoints("a", "b")
    await send(plugin, first, among)
    assert await scores(plugin, second, among) == pytest.approx([expected, 0.0])


async def test_without_a_prompt_nothing_is_produced_and_all_score_0() -> None:
    plugin, among = plugin_of(), endpoints("a", "b")
    request = InferenceRequest("n", "/v1/x", "GET")
    assert await plugin.produce(request, among) == {}
    assert await scores(plugin, request, among) == [0.0, 0.0]


async def test_a_growing_chat_scores_higher_where_it_was() -> None:
    plugin, among, found = plugin_of(), endpoints("a", "b"), []
    for turn in range(1, 5):
        found.append(await scores(plugin, BLOCK * turn, among))
        await send(plugin, BLOCK * turn, among, "b")
    assert found == [[0.0, pytest.approx(share)] for share in (0, 1 / 2, 2 / 3, 3 / 4)]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"model": "other"}, id="model"),
        pytest.param({"adapter": "lora"}, id="adapter"),
        pytest.param({"cache_salt": "tenant"}, id="salt"),
    ],
)
async def test_a_prompt_under_another_name_does_not_match(fields: dict[str, Any]) -> None:
    plugin, among = plugin_of(), endpoints("a")
    await send(plugin, BLOCK, among)
    assert await scores(plugin, make_request(BLOCK, **fields), among) == [0.0]


async def test_the_blocks_of_several_prompts_are_added_up() -> None:
    plugin, among = plugin_of(), endpoints("a", "b")
    await send(plugin, BLOCK * 2, among)
    several = InferenceRequest("s", "/v1/completions", model="demo", prompts=(BLOCK.encode() * 3, b"", BLOCK.encode()))
    assert await scores(plugin, several, among) == [0.75, 0.0]


async def test_narrowed_candidates_keep_their_own_scores() -> None:
    plugin, among = plugin_of(), endpoints("a", "b", "c")
    await send(plugin, BLOCK, among, "c")
    known = await ask(plugin, make_request(BLOCK * 2), among)
    left = among.candidates(known.facts).where(np.array([False, True, True]))
    assert list(plugin.score(known, left)) == [0.0, 0.5]


# -- what is remembered


async def test_the_endpoint_that_prefills_is_credited_too() -> None:
    plugin, among = plugin_of(), endpoints("a", "b", "c")
    results = {**make_decision("a", profile="decode").results, **make_decision("b", profile="prefill").results}
    await send(plugin, BLOCK, among, Decision("decode", results))
    assert await scores(plugin, BLOCK, among) == [1.0, 1.0, 0.0]


async def test_other_profiles_picks_are_not_credited() -> None:
    plugin, among = plugin_of(), endpoints("a", "b")
    results = {**make_decision("a", profile="decode").results, **make_decision("b", profile="shadow").results}
    await send(plugin, BLOCK, among, Decision("decode", results))
    assert await scores(plugin, BLOCK, among) == [1.0, 0.0]


async def test_only_the_first_of_a_list_is_credited() -> None:
    plugin, among = plugin_of(), endpoints("a", "b")
    await send(plugin, BLOCK, among, make_decision("b", "a"))
    assert await scores(plugin, BLOCK, among) == [0.0, 1.0]


async def test_scoring_alone_credits_no_endpoint() -> None:
    plugin, among = plugin_of(), endpoints("a")
    await scores(plugin, BLOCK, among)
    assert await scores(plugin, BLOCK, among) == [0.0]


@pytest.mark.parametrize("key", ["lruIndexerCapacity", "LRUIndexerSize", "lruCapacityPerServer"])
async def test_no_more_blocks_are_remembered_than_fit(key: str) -> None:
    plugin, among = plugin_of(**{key: 3}), endpoints("a")
    await send(plugin, BLOCK * 5, among)
    assert await scores(plugin, BLOCK * 5, among) == [pytest.approx(3 / 5)]


async def test_what_was_sent_least_recently_is_forgotten_first() -> None:
    plugin, among = plugin_of(lruIndexerCapacity=2), endpoints("a")
    one, two, three = (letter * 16 for letter in "xyz")
    for prompt in (one, two, one, three):
        await send(plugin, prompt, among)
    assert [(await scores(plugin, prompt, among))[0] for prompt in (one, two, three)] == [1.0, 0.0, 1.0]


async def test_each_endpoint_has_a_capacity_of_its_own() -> None:
    plugin, among = plugin_of(lruIndexerCapacity=1), endpoints("a", "b")
    await send(plugin, "x" * 16, among, "a")
    await send(plugin, "y" * 16, among, "b")
    assert (await scores(plugin, "x" * 16, among), await scores(plugin, "y" * 16, among)) == ([1.0, 0.0], [0.0, 1.0])


@pytest.mark.parametrize(
    ("params", "blocks", "tokens"),
    [
        pytest.param({"hashBlockSize": 64}, 16, 16, id="64 bytes"),
        pytest.param({"hashBlockSize": 16}, 64, 4, id="16 bytes"),
        pytest.param({"hashBlockSize": 100}, 10, 25, id="what is left of a block is left out"),
        pytest.param({"hashBlockSize": 1024}, 1, 256, id="the whole prompt"),
        pytest.param({"hashBlockSize": 1025}, None, None, id="more than the prompt"),
        pytest.param({"hashBlockSize": 3, "maxPrefixBlocksToMatch": 5}, 5, 1, id="less than a token"),
        pytest.param({"maxPrefixBlocksToMatch": 7}, 7, 4, id="so many blocks at most"),
    ],
)
async def test_a_prompt_of_1024_bytes_is_cut_into_blocks(
    params: dict[str, Any], blocks: int | None, tokens: int | None
) -> None:
    found = await plugin_of(**params).produce(make_request("x" * 1024), pool("a"))
    shape: Any = found.get(PREFIX_SHAPE.of("prefix-cache"))
    assert (shape and shape.total_blocks, shape and shape.block_tokens) == (blocks, tokens)


async def test_by_default_256_blocks_of_64_bytes_are_compared() -> None:
    plugin = PrefixCache(PrefixCache.Params(), PluginName("prefix-cache"))
    known = await ask(plugin, make_request("x" * 64 * 1000), pool("a"))
    shape = known.facts.get(PREFIX_SHAPE.of("prefix-cache"))
    assert (shape.total_blocks, shape.block_tokens) == (256, 16)


async def test_only_the_compared_beginning_makes_the_score() -> None:
    plugin, among = plugin_of(maxPrefixBlocksToMatch=2), endpoints("a")
    await send(plugin, BLOCK * 2, among)
    assert await scores(plugin, BLOCK * 100, among) == [1.0]


# -- several instances, and endpoints that come and go


async def test_facts_have_the_instance_s_name() -> None:
    plugin = plugin_of("mine")
    keys = {PREFIX_HITS.of("mine"), PREFIX_SHAPE.of("mine")}
    assert set(await plugin.produce(make_request(BLOCK), pool("a"))) == keys
    assert set(PrefixCache.produces("mine", PrefixCache.Params())) == keys


async def test_each_instance_has_a_memory_of_its_own() -> None:
    coarse, fine, among = plugin_of("coarse", hashBlockSize=32), plugin_of("fine"), endpoints("a")
    request = await ask(fine, await ask(coarse, make_request(BLOCK), among), among)
    for plugin in (coarse, fine):
        plugin.on_scheduled(request, make_decision("a"))
    known = await ask(fine, await ask(coarse, make_request(BLOCK * 2), among), among)
    candidates = among.candidates(known.facts)
    assert [list(plugin.score(known, candidates)) for plugin in (coarse, fine)] == [[0.0], [0.5]]


async def test_an_endpoint_that_restarts_is_forgotten_and_the_others_are_not(clock: FakeClock) -> None:
    plugin, among = plugin_of(), endpoints("a", "b", clock=clock)
    for name in "ab":
        await send(plugin, BLOCK, among, name)
    assert await scores(plugin, BLOCK, among) == [1.0, 1.0]
    endpoint = among.get("a")
    assert endpoint is not None
    among.mark_down(endpoint, "restarting")
    among.mark_up(endpoint)
    assert await scores(plugin, BLOCK, among) == [0.0, 1.0]


async def test_an_endpoint_that_is_down_is_forgotten(clock: FakeClock) -> None:
    plugin, among = plugin_of(), endpoints("a", "b", clock=clock)
    await send(plugin, BLOCK, among)
    endpoint = among.get("a")
    assert endpoint is not None
    among.mark_down(endpoint, "gone")
    assert await scores(plugin, BLOCK, among) == [0.0]
    among.mark_up(endpoint)
    assert await scores(plugin, BLOCK, among) == [0.0, 0.0]


async def test_a_new_list_with_the_same_endpoints_forgets_none(clock: FakeClock) -> None:
    plugin, among = plugin_of(), endpoints("a", "b", clock=clock)
    await send(plugin, BLOCK, among)
    among.replace_all([make_endpoint("a"), make_endpoint("b"), make_endpoint("c")])
    assert await scores(plugin, BLOCK, among) == [1.0, 0.0, 0.0]


# -- the next configuration


@pytest.mark.parametrize(
    ("after", "inherits"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"lruIndexerCapacity": 1}, True, id="another capacity"),
        pytest.param({"maxPrefixBlocksToMatch": 1}, True, id="another limit on the prompt"),
        pytest.param({"hashBlockSize": 32}, False, id="larger blocks"),
        pytest.param({"hashBlockSize": 17}, False, id="blocks of as many tokens"),
    ],
)
@pytest.mark.parametrize("name", ["prefix-cache", "renamed"])
async def test_the_memory_is_inherited_if_blocks_are_cut_alike(
    name: str, after: dict[str, Any], inherits: bool
) -> None:
    plugin, successor, among = plugin_of(), plugin_of(name, **after), endpoints("a", "b")
    await send(plugin, BLOCK * 4, among)
    successor.inherit_from(plugin)
    known = await ask(successor, make_request(BLOCK * 4), among)
    assert list(successor.score(known, among.candidates(known.facts))) == [float(inherits), 0.0]


async def test_both_configurations_learn_from_requests_of_either_one() -> None:
    plugin, successor, among = plugin_of(), plugin_of(), endpoints("a", "b")
    successor.inherit_from(plugin)
    await send(plugin, BLOCK, among, "b")
    await send(successor, BLOCK, among, "a")
    assert [await scores(one, BLOCK, among) for one in (plugin, successor)] == [[1.0, 1.0]] * 2


async def test_a_smaller_capacity_counts_from_the_next_pick() -> None:
    plugin, successor, among = plugin_of(), plugin_of(lruIndexerCapacity=1), endpoints("a")
    await send(plugin, BLOCK * 4, among)
    successor.inherit_from(plugin)
    found = [await scores(successor, BLOCK * 4, among)]
    await send(successor, BLOCK * 4, among)
    found.append(await scores(successor, BLOCK * 4, among))
    assert found == [[1.0], [0.25]]


# -- parameters


@pytest.mark.parametrize(
    "key", ["lruIndexerCapacity", "LRUIndexerSize", "lruCapacityPerServer", "lru_indexer_capacity"]
)
def test_the_capacity_has_the_names_that_it_had(key: str) -> None:
    assert params_of(PrefixCache.Params, {key: 5}).lru_indexer_capacity == 5


def test_the_default_parameters() -> None:
    params = params_of(PrefixCache.Params, {})
    assert (params.hash_block_size, params.max_prefix_blocks_to_match, params.lru_indexer_capacity) == (64, 256, 31250)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"hashBlockSize": 0}, id="blocks of nothing"),
        pytest.param({"hashBlockSize": -64}, id="negative blocks"),
        pytest.param({"hashBlockSize": 2_000_000}, id="blocks of two megabytes"),
        pytest.param({"hashBlockSize": "64"}, id="blocks as text"),
        pytest.param({"maxPrefixBlocksToMatch": 0}, id="no blocks to compare"),
        pytest.param({"lruIndexerCapacity": 0}, id="no capacity"),
        pytest.param({"LRUIndexerSize": 0}, id="no capacity under an older name"),
        pytest.param({"lruCapacityPerServer": -1}, id="negative capacity under another name"),
        pytest.param({"lruIndexerCapacity": 5, "LRUIndexerSize": 5}, id="capacity under two names"),
        pytest.param({"autoTune": False}, id="key of the producer"),
    ],
)
def test_parameters_out_of_bounds_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(PrefixCache.Params, values)
