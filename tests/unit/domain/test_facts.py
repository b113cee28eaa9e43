"""Facts and their keys."""

from __future__ import annotations

import pytest

from app.domain.facts import NO_FACTS, AnyFactKey, EndpointFactKey, FactKey, Facts

SHAPE = FactKey("shape", "producer", "none")
HITS = EndpointFactKey("hits", "producer")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(FactKey("shape", "producer", "other default"), True, id="another default"),
        pytest.param(EndpointFactKey("shape", "producer"), True, id="another kind of key"),
        pytest.param(FactKey("other", "producer", "none"), False, id="another name"),
        pytest.param(FactKey("shape", "other", "none"), False, id="another producer"),
        pytest.param("shape/producer", False, id="not a key"),
    ],
)
def test_keys_are_equal_by_name_and_producer(other: object, same: bool) -> None:
    assert (other == SHAPE) is same


def test_equal_keys_have_equal_hashes() -> None:
    assert hash(SHAPE) == hash(AnyFactKey("shape", "producer"))


def test_a_fact_of_another_producer_keeps_name_and_default() -> None:
    key = SHAPE.of("mine")
    assert (key.name, key.producer, key.default) == ("shape", "mine", "none")


def test_the_hash_depends_on_the_producer() -> None:
    assert Facts({SHAPE.of("mine"): "x"}).get(FactKey("shape", "mine", "none")) == "x"


@pytest.mark.parametrize("producer", [pytest.param(None, id="none"), pytest.param("", id="empty")])
def test_without_another_producer_the_key_is_unchanged(producer: str | None) -> None:
    assert SHAPE.of(producer) is SHAPE


def test_a_key_is_shown_as_name_and_producer() -> None:
    assert str(SHAPE) == "shape/producer"


def test_a_missing_fact_has_its_default() -> None:
    assert (NO_FACTS.get(SHAPE), dict(NO_FACTS.per_endpoint(HITS))) == ("none", {})


def test_a_fact_is_looked_up_by_its_key() -> None:
    facts = Facts({SHAPE: "round", HITS: {"a": 1.0}})
    assert (facts.get(SHAPE), facts.per_endpoint(HITS)) == ("round", {"a": 1.0})


def test_a_falsy_fact_is_not_missing() -> None:
    assert Facts({SHAPE: ""}).get(SHAPE) == ""


def test_later_facts_win() -> None:
    facts = Facts({SHAPE: "round", HITS: {}}).and_({SHAPE: "square"})
    assert (facts.get(SHAPE), len(facts)) == ("square", 2)


def test_adding_facts_does_not_change_the_original() -> None:
    facts = Facts({SHAPE: "round"})
    facts.and_({SHAPE: "square"})
    assert facts.get(SHAPE) == "round"


def test_adding_nothing_returns_the_same_object() -> None:
    assert NO_FACTS.and_({}) is NO_FACTS


def test_facts_support_in() -> None:
    facts = Facts({SHAPE: "round"})
    assert (SHAPE in facts, HITS in facts) == (True, False)


def test_facts_are_shown_by_their_keys() -> None:
    assert repr(Facts({SHAPE: "secret", HITS: {}})) == "Facts(shape/producer, hits/producer)"
