"""Which prompts a prefix memory assumes endpoints to hold, and when it forgets them."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.decision import Decision, ProfileResult
from app.domain.request import InferenceRequest
from app.fleet.pool import EndpointPool
from plugins.shared.prefix_memory import PrefixMemory
from pointsman.testing import FakeClock, make_decision, make_endpoint

BLOCK = b"0123456789abcdef"


def chains(memory: PrefixMemory, *prompts: bytes, most: int = 100, **fields: Any) -> Any:
    request = InferenceRequest("r", "/v1/completions", prompts=prompts, **{"model": "demo", **fields})
    return memory.chains(request, len(BLOCK), most)


def pool(clock: FakeClock, *names: str) -> EndpointPool:
    made = EndpointPool(clock=clock, in_flight=lambda _: 0)
    made.replace_all([make_endpoint(name) for name in names])
    return made


def two_profiles(first: str, second: str, name: str = "prefill") -> Decision:
    return Decision(
        "decode", {**make_decision(first, profile="decode").results, **make_decision(second, profile=name).results}
    )


@pytest.mark.parametrize(
    ("prompts", "most", "lengths"),
    [
        pytest.param([BLOCK * 3], 100, [3], id="whole blocks"),
        pytest.param([BLOCK * 3 + b"rest"], 100, [3], id="the rest is left out"),
        pytest.param([BLOCK * 3], 2, [2], id="so many at most"),
        pytest.param([b""], 100, [0], id="empty"),
        pytest.param([BLOCK, b"", BLOCK * 2], 100, [1, 0, 2], id="a chain for each prompt"),
        pytest.param([], 100, [], id="no prompt"),
    ],
)
def test_prompts_are_cut_into_chains_of_blocks(prompts: list[bytes], most: int, lengths: list[int]) -> None:
    assert [len(chain) for chain in chains(PrefixMemory(), *prompts, most=most)] == lengths


def test_a_block_s_hash_depends_on_everything_before_it() -> None:
    ((one, two), (other, same)) = chains(PrefixMemory(), BLOCK * 2, b"x" * 16 + BLOCK)
    assert len({one, two, other, same}) == 4


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"model": "other"}, id="model"),
        pytest.param({"adapter": "sql"}, id="adapter"),
        pytest.param({"cache_salt": "tenant"}, id="salt"),
    ],
)
def test_another_model_adapter_or_salt_is_another_chain(fields: dict[str, Any]) -> None:
    memory = PrefixMemory()
    assert chains(memory, BLOCK) != chains(memory, BLOCK, **fields)


def test_the_endpoint_picked_holds_the_chains() -> None:
    memory = PrefixMemory()
    memory.credit(make_decision("a"), chains(memory, BLOCK * 2), {}, 100)
    assert dict(memory.match(chains(memory, BLOCK * 3))) == {"a": 2}


def test_matches_of_several_chains_are_added_up_by_endpoint() -> None:
    memory = PrefixMemory()
    memory.credit(make_decision("a"), chains(memory, BLOCK * 2), {}, 100)
    memory.credit(make_decision("b"), chains(memory, b"x" * 16), {}, 100)
    assert dict(memory.match(chains(memory, BLOCK * 3, b"x" * 32, BLOCK))) == {"a": 3, "b": 1}


def test_no_chains_match_no_endpoint() -> None:
    assert dict(PrefixMemory().match([])) == {}


@pytest.mark.parametrize(
    ("decision", "holders"),
    [
        pytest.param(two_profiles("a", "b"), {"a", "b"}, id="prefill beside decode"),
        pytest.param(two_profiles("a", "a"), {"a"}, id="prefill by the same"),
        pytest.param(two_profiles("a", "b", "shadow"), {"a"}, id="another profile"),
        pytest.param(make_decision("a", "b"), {"a"}, id="a second destination"),
        pytest.param(make_decision("a", "b", profile="prefill"), {"a"}, id="prefill alone"),
    ],
)
def test_the_endpoints_that_are_picked_and_that_prefill_are_credited(decision: Decision, holders: set[str]) -> None:
    memory = PrefixMemory()
    memory.credit(decision, chains(memory, BLOCK), {}, 100)
    assert set(memory.match(chains(memory, BLOCK))) == holders


def test_a_prefill_without_a_pick_credits_no_other_endpoint() -> None:
    memory, decided = PrefixMemory(), make_decision("a", profile="decode")
    full = decided.results["decode"]
    nobody = ProfileResult("prefill", (), (), full.scored, (), full.weights, full.scores)
    memory.credit(Decision("decode", {**decided.results, "prefill": nobody}), chains(memory, BLOCK), {}, 100)
    assert set(memory.match(chains(memory, BLOCK))) == {"a"}


@pytest.mark.parametrize(
    ("capacity", "usual", "found"),
    [
        pytest.param({}, 3, {"a": 3, "b": 3}, id="the default"),
        pytest.param({"a": 2}, 4, {"a": 2, "b": 4}, id="its own and the default"),
        pytest.param({"a": 5, "b": 1}, 2, {"a": 5, "b": 1}, id="their own"),
        pytest.param({"z": 1}, 100, {"a": 5, "b": 5}, id="another endpoint's"),
    ],
)
def test_no_endpoint_holds_more_than_its_capacity(capacity: dict[str, int], usual: int, found: dict[str, int]) -> None:
    memory = PrefixMemory()
    memory.credit(two_profiles("a", "b"), chains(memory, BLOCK * 5), capacity, usual)
    assert dict(memory.match(chains(memory, BLOCK * 5))) == found


def credited(among: EndpointPool, *names: str) -> PrefixMemory:
    memory = PrefixMemory()
    memory.follow(among)
    for name in names:
        memory.credit(make_decision(name), chains(memory, BLOCK), {}, 100)
    return memory


def holders_after_following(memory: PrefixMemory, among: EndpointPool) -> set[str]:
    memory.follow(among)
    return set(memory.match(chains(memory, BLOCK)))


def test_as_long_as_nothing_changes_no_endpoint_is_forgotten(clock: FakeClock) -> None:
    among = pool(clock, "a", "b")
    assert holders_after_following(credited(among, "a", "b"), among) == {"a", "b"}


@pytest.mark.parametrize("follows_between", [pytest.param(True, id="seen down"), pytest.param(False, id="not seen")])
def test_an_endpoint_that_was_down_is_forgotten_even_if_that_was_not_seen(
    clock: FakeClock, follows_between: bool
) -> None:
    among = pool(clock, "a", "b")
    memory, endpoint = credited(among, "a", "b"), among.get("a")
    assert endpoint is not None
    among.mark_down(endpoint, "restarting")
    if follows_between:
        assert holders_after_following(memory, among) == {"b"}
    among.mark_up(endpoint)
    assert holders_after_following(memory, among) == {"b"}


def test_an_endpoint_of_the_same_name_at_another_address_is_another(clock: FakeClock) -> None:
    among = pool(clock, "a", "b")
    memory = credited(among, "a", "b")
    among.replace_all([make_endpoint("a", port=9999), make_endpoint("b")])
    assert holders_after_following(memory, among) == {"b"}


def test_an_endpoint_that_joins_leaves_the_others_as_they_are(clock: FakeClock) -> None:
    among = pool(clock, "a")
    memory = credited(among, "a")
    among.replace_all([make_endpoint("a"), make_endpoint("b")])
    assert holders_after_following(memory, among) == {"a"}


def test_a_pick_that_is_credited_after_a_restart_is_forgotten_with_it(clock: FakeClock) -> None:
    among = pool(clock, "a", "b")
    memory, endpoint = credited(among), among.get("a")
    assert endpoint is not None
    among.mark_down(endpoint, "restarting")
    among.mark_up(endpoint)
    memory.credit(make_decision("a"), chains(memory, BLOCK), {}, 100)
    assert holders_after_following(memory, among) == set()


@pytest.mark.parametrize("joins", [False, True], ids=["", "another endpoint joins"])
def test_the_pool_of_the_next_configuration_has_the_same_endpoints(clock: FakeClock, joins: bool) -> None:
    among = pool(clock, "a", "b")
    memory = credited(among, "a", "b")
    following = EndpointPool(clock=clock, in_flight=lambda _: 0, table=among.table)
    if joins:
        following.replace_all([make_endpoint(name) for name in "abc"])
    found = [holders_after_following(memory, one) for one in (following, among, following)]
    assert found == [{"a", "b"}] * 3


def test_an_endpoint_that_restarts_is_forgotten_once_whichever_pool_is_followed(clock: FakeClock) -> None:
    among = pool(clock, "a", "b")
    following = EndpointPool(clock=clock, in_flight=lambda _: 0, table=among.table)
    memory, endpoint = credited(among, "a", "b"), among.get("a")
    assert endpoint is not None
    among.mark_down(endpoint, "restarting")
    among.mark_up(endpoint)
    found = [holders_after_following(memory, following)]
    memory.credit(make_decision("a"), chains(memory, BLOCK), {}, 100)
    found += [holders_after_following(memory, one) for one in (among, following)]
    assert found == [{"b"}, {"a", "b"}, {"a", "b"}]
