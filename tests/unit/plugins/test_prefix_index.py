"""The prefix index, compared with a simple model."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from plugins.shared.prefix_index import PrefixIndex, chain_of, seed_of
from pointsman.testing import make_request

NAMES = ("a", "b", "c", "d")
BLOCK = 4

prompts = st.lists(st.sampled_from([b"aaaa", b"bbbb"]), max_size=7).map(b"".join)


def chain(prompt: bytes, *, seed: int = 1, most: int = 1000) -> list[int]:
    return list(chain_of(prompt, seed, BLOCK, most))


class Model:
    """A list of blocks per endpoint, least recently used first."""

    def __init__(self) -> None:
        self.held: dict[str, list[int]] = {}

    def touch(self, name: str, blocks: list[int], capacity: int) -> None:
        held = self.held.setdefault(name, [])
        for block in reversed(blocks[:capacity]):
            if block in held:
                held.remove(block)
            held.append(block)
        del held[: max(len(held) - capacity, 0)]

    def match(self, blocks: list[int]) -> dict[str, int]:
        depths = {name: self._depth(held, blocks) for name, held in self.held.items()}
        return {name: depth for name, depth in depths.items() if depth}

    @staticmethod
    def _depth(held: list[int], blocks: list[int]) -> int:
        for depth, block in enumerate(blocks):
            if block not in held:
                return depth
        return len(blocks)


class IndexAgainstModel(RuleBasedStateMachine):
    """The index equals the model after any sequence of picks and removals of endpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.model = Model()
        self.chains: list[list[int]] = []
        self.capacity: dict[str, int] = {}

    @rule(name=st.sampled_from(NAMES), prompt=prompts, capacity=st.integers(1, 6))
    def touch(self, name: str, prompt: bytes, capacity: int) -> None:
        self.chains.append(chain(prompt))
        self.capacity[name] = capacity
        self.index.touch(name, self.chains[-1], capacity)
        self.model.touch(name, self.chains[-1], capacity)

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def keep_only(self, names: set[str]) -> None:
        self.index.keep_only(names)
        self.model.held = {name: held for name, held in self.model.held.items() if name in names}

    @rule(prompt=prompts)
    def match(self, prompt: bytes) -> None:
        found, expected = self.index.match(chain(prompt)), self.model.match(chain(prompt))
        assert dict(found) == expected
        assert list(found.column(NAMES, 0.0)) == [expected.get(name, 0) for name in NAMES]

    @invariant()
    def holds_the_same_blocks_as_the_model(self) -> None:
        assert {name: self.index.blocks(name) for name in NAMES} == {
            name: len(self.model.held.get(name, [])) for name in NAMES
        }
        assert len(self.index) == len({block for held in self.model.held.values() for block in held})

    @invariant()
    def no_endpoint_holds_more_than_its_capacity(self) -> None:
        assert all(self.index.blocks(name) <= most for name, most in self.capacity.items())

    @invariant()
    def an_endpoint_that_holds_a_block_holds_all_before_it(self) -> None:
        for blocks in self.chains:
            for name in NAMES:
                held = self.index._held[name].steps if name in self.index._held else ()
                holds = [block in held for block in blocks]
                assert holds == sorted(holds, reverse=True)

    @invariant()
    def blocks_are_in_the_same_order_of_use(self) -> None:
        assert {name: list(held.steps) for name, held in self.index._held.items()} == self.model.held

    def teardown(self) -> None:
        self.index.keep_only(())
        assert (len(self.index), self.index._held, self.index._slots.by_name) == (0, {}, {})


TestIndexAgainstModel = IndexAgainstModel.TestCase
TestIndexAgainstModel.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@given(prompt=st.binary(max_size=64), cut=st.integers(0, 64))
def test_a_prefix_of_a_prompt_has_a_prefix_of_its_chain(prompt: bytes, cut: int) -> None:
    prefix = chain(prompt[:cut])
    assert chain(prompt)[: len(prefix)] == prefix


@pytest.mark.parametrize(
    ("length", "most", "blocks"),
    [
        pytest.param(0, 9, 0, id="empty"),
        pytest.param(3, 9, 0, id="less than a block"),
        pytest.param(4, 9, 1, id="one block"),
        pytest.param(7, 9, 1, id="more than a block"),
        pytest.param(40, 9, 9, id="more than the maximum"),
        pytest.param(40, 0, 0, id="maximum of zero"),
    ],
)
def test_only_whole_blocks_up_to_the_maximum_are_hashed(length: int, most: int, blocks: int) -> None:
    assert len(chain(b"x" * length, most=most)) == blocks


def test_a_block_s_hash_depends_on_all_blocks_before_it() -> None:
    assert chain(b"aaaazzzz")[1] != chain(b"bbbbzzzz")[1]


def test_equal_blocks_of_a_prompt_have_different_hashes() -> None:
    assert len(set(chain(b"aaaa" * 50))) == 32


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"model": "other"}, id="model"),
        pytest.param({"adapter": "lora"}, id="adapter"),
        pytest.param({"cache_salt": "tenant"}, id="salt"),
        pytest.param({"cache_salt": "lora", "adapter": None}, id="salt named like an adapter"),
        pytest.param({"model": "demo', 'lora"}, id="model that looks like two fields"),
    ],
)
def test_different_models_adapters_and_salts_have_different_seeds(fields: dict[str, str]) -> None:
    others = {seed_of(make_request()), seed_of(make_request(adapter="lora")) if "adapter" not in fields else 0}
    assert seed_of(make_request(**fields)) not in others  # type: ignore[arg-type]


def test_the_seed_does_not_depend_on_the_prompt() -> None:
    assert seed_of(make_request("one")) == seed_of(make_request("two", id="other"))


def test_a_model_name_with_a_lone_surrogate_has_a_seed() -> None:
    assert isinstance(seed_of(make_request(model="\ud800")), int)


def test_a_chain_longer_than_the_capacity_keeps_its_prefix() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaabbbbaaaabbbb")
    index.touch("a", blocks, 2)
    assert index.match(blocks) == {"a": 2}


def test_a_smaller_capacity_drops_the_ends_first() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaabbbbaaaabbbb")
    index.touch("a", blocks, 4)
    index.touch("a", blocks[:1], 2)
    assert index.match(blocks) == {"a": 2}


def test_the_least_recently_used_chain_is_evicted() -> None:
    index, old, new = PrefixIndex(), chain(b"aaaaaaaa"), chain(b"bbbbbbbb")
    for blocks in (old, new):
        index.touch("a", blocks, 2)
    assert (index.match(old), index.match(new)) == ({}, {"a": 2})


def test_each_endpoint_has_its_own_depth() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaa" * 6)
    for depth, name in enumerate(NAMES, 2):
        index.touch(name, blocks[:depth], 10)
    assert index.match(blocks) == {"a": 2, "b": 3, "c": 4, "d": 5}


def test_an_earlier_match_has_no_endpoint_that_was_added_later() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaaaaaa")
    index.touch("a", blocks, 4)
    before = index.match(blocks)
    index.keep_only(())
    index.touch("b", chain(b"bbbb"), 4)
    assert before.get("b", 0) == 0


def test_the_column_of_an_earlier_match_is_0_for_an_endpoint_that_was_added_later() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaaaaaa")
    index.touch("a", blocks, 4)
    before = index.match(blocks)
    index.keep_only(())
    index.touch("b", chain(b"bbbb"), 4)
    assert list(before.column(("b", "c"), 0.0)) == [0.0, 0.0]


def test_a_match_does_not_change_when_an_endpoint_is_removed() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaaaaaa")
    for name in "ab":
        index.touch(name, blocks, 4)
    found = index.match(blocks)
    index.keep_only({"b"})
    assert len(found) == len(list(found))


def test_a_column_has_the_default_for_endpoints_without_a_match() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaaaaaa")
    index.touch("b", blocks, 4)
    index.touch("c", blocks[:1], 4)
    assert list(index.match(blocks).column(("x", "c", "b"), 7.0)) == [7.0, 1.0, 2.0]


def test_a_new_endpoint_does_not_inherit_the_slot_of_a_removed_one() -> None:
    index, blocks = PrefixIndex(), chain(b"aaaaaaaa")
    index.touch("a", blocks, 4)
    index.keep_only(())
    index.touch("b", blocks[:1], 4)
    assert index.match(blocks) == {"b": 1}


# -- growing steps


def test_the_steps_of_a_long_prompt_double_in_size() -> None:
    steps = [len(chain(b"abcd" * blocks)) for blocks in (31, 32, 33, 34, 96, 97, 99, 100, 512)]
    assert steps == [23, 24, 24, 25, 44, 44, 44, 45, 80]


def test_a_match_is_counted_in_blocks() -> None:
    index = PrefixIndex()
    index.touch("a", chain(b"abcd" * 100), 1000)
    shared = b"abcd" * 50 + b"efgh" * 50
    assert dict(index.match(chain(shared))) == {"a": 48}
    assert dict(index.match(chain(b"abcd" * 200))) == {"a": 100}


def test_the_capacity_is_in_blocks() -> None:
    index = PrefixIndex()
    for number in range(20):
        index.touch("a", chain(b"%04d" % number * 200), 500)
        assert index.blocks("a") <= 500
    assert dict(index.match(chain(b"0019" * 200))) == {"a": 200}
    assert dict(index.match(chain(b"0000" * 200))) == {}


def test_a_prefix_of_a_chain_larger_than_the_capacity_is_held() -> None:
    index = PrefixIndex()
    index.touch("a", chain(b"abcd" * 200), 35)
    assert (index.blocks("a"), dict(index.match(chain(b"abcd" * 200)))) == (34, {"a": 34})
