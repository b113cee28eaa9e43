"""The pool: what is known of endpoints, for how long, and the snapshots that requests see."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.domain.endpoint import Endpoint
from app.domain.facts import EndpointFactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.fleet.pool import MODELS_REMEMBERED, EndpointPool
from pointsman.testing import FakeClock, make_endpoint

A, B, C = (make_endpoint(name) for name in "abc")
BUSY = EndpointMetrics(waiting=9, running=4, kv_cache_usage=0.8)


@pytest.fixture
def pool(clock: FakeClock) -> EndpointPool:
    """Three endpoints, one request in flight to each; metrics are stale after five seconds."""
    pool = EndpointPool(clock=clock, in_flight=lambda _: 1, stale_after=5.0)
    pool.replace_all([A, B, C])
    return pool


def waiting(pool: EndpointPool) -> list[float]:
    return list(pool.candidates().waiting)


def status(pool: EndpointPool, name: str = "a") -> Any:
    return {status.endpoint.name: status for status in pool.statuses()}[name]


# -- metrics and their age


def test_endpoints_are_unknown_at_first(pool: EndpointPool) -> None:
    candidates = pool.candidates()
    assert (candidates.known.tolist(), candidates.waiting.tolist()) == ([False] * 3, [1, 1, 1])
    assert (candidates.metrics_age.tolist(), candidates.metrics) == ([math.inf] * 3, (None, None, None))


def test_a_reading_is_seen_by_the_next_request(pool: EndpointPool) -> None:
    pool.record(B, BUSY)
    candidates = pool.candidates()
    assert (candidates.waiting.tolist(), candidates.running.tolist()) == ([1, 9, 1], [1, 4, 1])
    assert (candidates.kv_cache_usage.tolist(), candidates.metrics) == ([0.8] * 3, (None, BUSY, None))


def test_a_later_reading_takes_the_place_of_an_earlier_one(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.candidates()
    pool.record(A, EndpointMetrics(waiting=2, running=0))
    assert waiting(pool)[0] == 2


def test_what_a_later_reading_lacks_is_unknown(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.record(A, EndpointMetrics(kv_cache_usage=0.1))
    assert not pool.candidates().known[0]


@pytest.mark.parametrize(
    ("age", "known"),
    [
        pytest.param(0.0, True, id="just read"),
        pytest.param(4.875, True, id="a little younger than the limit"),
        pytest.param(5.0, False, id="as old as the limit"),
        pytest.param(5.125, False, id="a little older than the limit"),
    ],
)
def test_metrics_stop_counting_at_their_limit_of_age(
    pool: EndpointPool, clock: FakeClock, age: float, known: bool
) -> None:
    pool.record(A, BUSY)
    clock.advance(age)
    assert (bool(pool.candidates().known[0]), pool.is_fresh(status(pool))) == (known, known)


def test_a_snapshot_taken_earlier_does_not_keep_metrics_fresh(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(4)
    before = waiting(pool)
    clock.advance(1.5)
    assert (before, waiting(pool)) == ([9, 1, 1], [1, 1, 1])


def test_each_endpoint_s_metrics_grow_old_on_their_own(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(3)
    pool.record(B, BUSY)
    pool.candidates()
    clock.advance(3)
    assert (pool.candidates().known.tolist(), pool.candidates().metrics) == ([False, True, False], (None, BUSY, None))


def test_stale_metrics_count_again_after_a_new_reading(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(60)
    pool.candidates()
    pool.record(A, BUSY)
    assert waiting(pool)[0] == 9


def test_the_age_of_metrics_goes_with_the_clock(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(2)
    assert pool.candidates().metrics_age.tolist() == [2.0, math.inf, math.inf]


def test_a_failure_to_read_lets_the_last_reading_age_on(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(2)
    pool.record_failure(A, "no metrics within 1 s")
    assert (waiting(pool)[0], status(pool).reason, status(pool).metrics) == (9, "no metrics within 1 s", BUSY)


def test_a_reading_ends_the_failure(pool: EndpointPool) -> None:
    pool.record_failure(A, "no metrics within 1 s")
    pool.record(A, BUSY)
    assert status(pool).reason == ""


# -- snapshots


def test_a_snapshot_does_not_change_while_new_metrics_come(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    candidates = pool.candidates()
    pool.record(A, EndpointMetrics(waiting=0, running=0, kv_cache_usage=0.0))
    pool.record(B, BUSY)
    assert (candidates.waiting.tolist(), candidates.running.tolist()) == ([9, 1, 1], [4, 1, 1])
    assert (candidates.kv_cache_usage.tolist(), candidates.metrics) == ([0.8] * 3, (BUSY, None, None))


def test_a_snapshot_does_not_change_with_the_list(pool: EndpointPool) -> None:
    candidates = pool.candidates()
    pool.replace_all([C])
    pool.mark_down(C, "gone")
    assert (candidates.names, len(candidates.waiting)) == (("a", "b", "c"), 3)


def test_requests_share_a_snapshot_until_something_is_written(pool: EndpointPool, clock: FakeClock) -> None:
    for endpoint in (A, B, C):
        pool.record(endpoint, BUSY)
    first, second = pool.candidates(), pool.candidates()
    assert first.waiting is second.waiting


def test_candidates_have_the_facts_given(pool: EndpointPool) -> None:
    hits = EndpointFactKey("hits", "producer")
    assert pool.candidates(Facts({hits: {"b": 2.0}})).fact(hits).tolist() == [0, 2, 0]


# -- up and down


def test_an_endpoint_that_is_down_is_no_candidate(pool: EndpointPool, clock: FakeClock) -> None:
    clock.advance(7)
    news = pool.mark_down(B, "refused")
    assert (news, pool.candidates().names, pool.names) == (True, ("a", "c"), frozenset("ac"))
    assert (status(pool, "b").up, status(pool, "b").reason, status(pool, "b").since) == (False, "refused", clock.now())


def test_an_endpoint_that_is_up_again_is_a_candidate_in_its_old_place(pool: EndpointPool) -> None:
    pool.mark_down(B, "refused")
    assert (pool.mark_up(B), pool.candidates().names, status(pool, "b").reason) == (True, ("a", "b", "c"), "")


def test_what_was_already_so_is_no_news(pool: EndpointPool) -> None:
    up = pool.mark_up(B)
    pool.mark_down(B, "refused")
    assert (up, pool.mark_down(B, "refused again"), status(pool, "b").reason) == (False, False, "refused")


def test_metrics_from_before_it_was_down_no_longer_count(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.mark_down(A, "refused")
    pool.mark_up(A)
    assert (waiting(pool)[0], pool.candidates().metrics[0]) == (1, None)


def test_metrics_of_others_are_kept_when_one_goes_down(pool: EndpointPool) -> None:
    pool.record(C, BUSY)
    pool.mark_down(B, "refused")
    assert waiting(pool) == [1, 9]


def test_a_reading_while_it_is_down_counts_once_it_is_up(pool: EndpointPool) -> None:
    pool.mark_down(A, "refused")
    pool.candidates()
    pool.record(A, BUSY)
    pool.mark_up(A)
    assert waiting(pool) == [9, 1, 1]


def test_an_endpoint_that_is_down_can_be_had_by_name(pool: EndpointPool) -> None:
    pool.mark_down(B, "refused")
    assert (pool.get("b"), pool.get("x")) == (B, None)


def test_names_are_one_object_until_the_list_is_touched(pool: EndpointPool) -> None:
    before = pool.names
    pool.record(A, BUSY)
    same = pool.names is before
    pool.mark_down(A, "refused")
    assert (same, pool.names) == (True, frozenset("bc"))


def test_an_endpoint_s_incarnation_changes_when_it_comes_up_again(pool: EndpointPool) -> None:
    before = pool.incarnation("a")
    pool.mark_down(A, "refused")
    pool.mark_up(A)
    assert before != pool.incarnation("a") != 0


def test_an_endpoint_s_incarnation_changes_when_it_is_another_one(pool: EndpointPool) -> None:
    before = pool.incarnation("a")
    pool.replace_all([make_endpoint("a", port=1)])
    assert before != pool.incarnation("a") != 0


def test_an_endpoint_s_incarnation_stays_as_long_as_it_does(pool: EndpointPool) -> None:
    before = (pool.incarnation("a"), pool.incarnation("x"))
    pool.record(A, BUSY)
    pool.replace_all([make_endpoint("a")])
    assert before == (pool.incarnation("a"), 0)


# -- the list


def test_a_pool_is_not_discovered_before_its_first_list(clock: FakeClock) -> None:
    pool = EndpointPool(clock=clock, in_flight=lambda _: 0)
    before = pool.discovered
    pool.replace_all([])
    assert (before, pool.discovered, len(pool.candidates()), pool.names) == (False, True, 0, frozenset())


def test_an_unchanged_endpoint_keeps_what_is_known_of_it(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.record_models(A, frozenset({"demo"}))
    pool.mark_down(C, "refused")
    pool.replace_all([make_endpoint("c"), make_endpoint("a")])
    assert (pool.get("a"), waiting(pool), status(pool).models) == (A, [9], frozenset({"demo"}))
    assert not status(pool, "c").up


def test_the_new_order_is_that_of_the_new_list(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.replace_all([C, B, A])
    assert (pool.candidates().names, waiting(pool)) == (("c", "b", "a"), [1, 1, 9])


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(make_endpoint("a", port=1), id="port"),
        pytest.param(make_endpoint("a", labels={"x": "y"}), id="labels"),
        pytest.param(make_endpoint("a", address="10.0.0.1"), id="address"),
        pytest.param(Endpoint("a", "127.0.0.1", 8000, metrics_port=9), id="metrics port"),
    ],
)
def test_a_changed_endpoint_is_forgotten(pool: EndpointPool, clock: FakeClock, changed: Endpoint) -> None:
    pool.record(A, BUSY)
    pool.record_models(A, frozenset())
    pool.mark_down(A, "refused")
    clock.advance(1)
    pool.replace_all([changed])
    assert (status(pool).endpoint, status(pool).up, status(pool).metrics) == (changed, True, None)
    assert (status(pool).models, status(pool).since) == (None, clock.now())


def test_what_comes_late_for_a_replaced_endpoint_is_ignored(pool: EndpointPool) -> None:
    pool.replace_all([make_endpoint("a", port=1)])
    pool.candidates()
    pool.record(A, BUSY)
    pool.record_failure(A, "refused")
    pool.record_models(A, frozenset())
    news = (pool.mark_down(A, "refused"), pool.mark_up(A))
    assert (news, waiting(pool), status(pool).metrics) == ((False, False), [1], None)
    assert (status(pool).models, status(pool).reason) == (None, "")


def test_what_comes_late_for_an_endpoint_that_left_is_ignored(pool: EndpointPool) -> None:
    pool.replace_all([B])
    pool.candidates()
    pool.record(A, BUSY)
    pool.record_models(A, frozenset())
    assert ((pool.mark_down(A, "refused"), pool.mark_up(A)), waiting(pool)) == ((False, False), [1])


def test_listeners_hear_of_each_new_list(pool: EndpointPool) -> None:
    heard: list[tuple[str, ...]] = []
    pool.subscribe(lambda: heard.append(pool.candidates().names))
    pool.replace_all([A])
    pool.mark_down(A, "refused")
    pool.replace_all([])
    assert heard == [("a",), ()]


# -- models


@pytest.fixture
def lists(pool: EndpointPool) -> EndpointPool:
    """`a` lists one model, `b` two, and `c` did not say."""
    pool.record_models(A, frozenset({"small"}))
    pool.record_models(B, frozenset({"small", "large"}))
    return pool


@pytest.mark.parametrize(
    ("model", "names"),
    [
        pytest.param("small", ("a", "b", "c"), id="listed by two"),
        pytest.param("large", ("b", "c"), id="listed by one"),
        pytest.param("other", ("c",), id="listed by none"),
        pytest.param("", ("a", "b", "c"), id="no model"),
    ],
)
def test_candidates_list_the_model_or_did_not_say(lists: EndpointPool, model: str, names: tuple[str, ...]) -> None:
    assert (lists.candidates(model=model).names, lists.candidates(model=model).names) == (names, names)


def test_columns_of_a_model_s_endpoints_are_theirs(lists: EndpointPool) -> None:
    lists.record(B, BUSY)
    assert lists.candidates(model="large").waiting.tolist() == [9, 1]


@pytest.mark.parametrize(
    ("model", "excluding", "names"),
    [
        pytest.param("", "a", ("b", "c"), id="any model"),
        pytest.param("large", "b", ("c",), id="one model"),
        pytest.param("small", "c", ("a", "b"), id="model that all may serve"),
        pytest.param("large", "bc", (), id="everyone"),
        pytest.param("", "x", ("a", "b", "c"), id="someone unknown"),
    ],
)
def test_excluded_endpoints_are_no_candidates(
    lists: EndpointPool, model: str, excluding: str, names: tuple[str, ...]
) -> None:
    assert lists.candidates(model=model, excluding=frozenset(excluding)).names == names


def test_a_new_model_list_counts_at_once(lists: EndpointPool) -> None:
    lists.candidates(model="large")
    lists.record_models(A, frozenset({"large"}))
    assert lists.candidates(model="large").names == ("a", "b", "c")


def test_a_new_model_list_keeps_metrics(lists: EndpointPool) -> None:
    lists.record(A, BUSY)
    lists.record_models(A, frozenset({"large"}))
    assert waiting(lists) == [9, 1, 1]


def test_only_so_many_model_names_are_remembered(lists: EndpointPool) -> None:
    for number in range(3 * MODELS_REMEMBERED):
        lists.candidates(model=f"made-up-{number}")
    assert len(lists._current().serving) <= MODELS_REMEMBERED
    assert lists.candidates(model="large").names == ("b", "c")


@pytest.mark.parametrize(
    ("model", "lacking"), [pytest.param("other", True, id="no one"), pytest.param("large", False, id="someone")]
)
async def test_a_pool_lacks_a_model_that_no_list_has(lists: EndpointPool, model: str, lacking: bool) -> None:
    lists.record_models(C, frozenset({"small"}))
    assert await lists.lacks(model) is lacking


async def test_a_pool_lacks_no_model_as_long_as_a_list_is_unknown(lists: EndpointPool) -> None:
    assert not await lists.lacks("other")


async def test_an_empty_pool_lacks_no_model(lists: EndpointPool) -> None:
    lists.replace_all([])
    assert not await lists.lacks("other")


async def test_lists_are_asked_for_again_only_where_a_model_seems_to_be_lacking(lists: EndpointPool) -> None:
    asked: list[str] = []

    async def ask() -> None:
        asked.append("lists")
        lists.record_models(A, frozenset({"other"}))

    lists.record_models(C, frozenset({"small"}))
    lists.ask_models_with(ask)
    assert (await lists.lacks("large"), asked) == (False, [])
    assert (await lists.lacks("other"), asked) == (False, ["lists"])
