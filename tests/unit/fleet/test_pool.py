"""The pool: the snapshots of the endpoint table that requests see."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.domain.facts import EndpointFactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.fleet.pool import EndpointPool
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


def test_the_next_request_sees_new_metrics(pool: EndpointPool) -> None:
    pool.record(B, BUSY)
    candidates = pool.candidates()
    assert (candidates.waiting.tolist(), candidates.running.tolist()) == ([1, 9, 1], [1, 4, 1])
    assert (candidates.kv_cache_usage.tolist(), candidates.metrics) == ([0.8] * 3, (None, BUSY, None))


def test_new_metrics_replace_earlier_ones(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.candidates()
    pool.record(A, EndpointMetrics(waiting=2, running=0))
    assert waiting(pool)[0] == 2


def test_what_new_metrics_lack_is_unknown(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.record(A, EndpointMetrics(kv_cache_usage=0.1))
    assert not pool.candidates().known[0]


@pytest.mark.parametrize(
    ("age", "known"),
    [
        pytest.param(0.0, True, id="just scraped"),
        pytest.param(4.875, True, id="a little younger than the limit"),
        pytest.param(5.0, False, id="as old as the limit"),
        pytest.param(5.125, False, id="a little older than the limit"),
    ],
)
def test_metrics_stop_counting_at_the_limit_of_age(
    pool: EndpointPool, clock: FakeClock, age: float, known: bool
) -> None:
    pool.record(A, BUSY)
    clock.advance(age)
    assert (bool(pool.candidates().known[0]), pool.is_fresh(status(pool))) == (known, known)


def test_an_earlier_snapshot_does_not_keep_metrics_fresh(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(4)
    before = waiting(pool)
    clock.advance(1.5)
    assert (before, waiting(pool)) == ([9, 1, 1], [1, 1, 1])


def test_each_endpoint_s_metrics_have_their_own_age(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(3)
    pool.record(B, BUSY)
    pool.candidates()
    clock.advance(3)
    assert (pool.candidates().known.tolist(), pool.candidates().metrics) == ([False, True, False], (None, BUSY, None))


def test_stale_metrics_are_replaced_by_new_ones(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(60)
    pool.candidates()
    pool.record(A, BUSY)
    assert waiting(pool)[0] == 9


def test_the_age_of_metrics_follows_the_clock(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(2)
    assert pool.candidates().metrics_age.tolist() == [2.0, math.inf, math.inf]


def test_after_a_failure_to_scrape_the_last_metrics_keep_aging(pool: EndpointPool, clock: FakeClock) -> None:
    pool.record(A, BUSY)
    clock.advance(2)
    pool.record_failure(A, "no metrics within 1 s")
    assert (waiting(pool)[0], pool.candidates().metrics_age[0], status(pool).reason) == (9, 2, "no metrics within 1 s")
    clock.advance(3)
    assert waiting(pool)[0] == 1


# -- snapshots


def test_a_snapshot_does_not_change_with_new_metrics(pool: EndpointPool) -> None:
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


def test_requests_share_a_snapshot_until_something_is_written(pool: EndpointPool) -> None:
    for endpoint in (A, B, C):
        pool.record(endpoint, BUSY)
    first, second = pool.candidates(), pool.candidates()
    pool.record(A, BUSY)
    assert (first.waiting is second.waiting, first.waiting is pool.candidates().waiting) == (True, False)


def test_candidates_have_the_facts_given(pool: EndpointPool) -> None:
    hits = EndpointFactKey("hits", "producer")
    assert pool.candidates(Facts({hits: {"b": 2.0}})).fact(hits).tolist() == [0, 2, 0]


# -- the list, up and down


def test_an_endpoint_that_is_down_is_no_candidate(pool: EndpointPool, clock: FakeClock) -> None:
    clock.advance(7)
    assert (pool.mark_down(B, "refused"), pool.candidates().names, pool.names) == (True, ("a", "c"), frozenset("ac"))
    assert status(pool, "b").since == clock.now()
    clock.advance(1)
    assert (pool.mark_up(B), pool.candidates().names, pool.names) == (True, ("a", "b", "c"), frozenset("abc"))
    assert status(pool, "b").since == clock.now()


def test_metrics_from_before_it_was_down_no_longer_count(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.mark_down(A, "refused")
    pool.mark_up(A)
    assert (waiting(pool)[0], pool.candidates().metrics[0]) == (1, None)


def test_metrics_of_the_others_are_kept_when_one_goes_down(pool: EndpointPool) -> None:
    pool.record(C, BUSY)
    pool.mark_down(B, "refused")
    assert waiting(pool) == [1, 9]


def test_metrics_scraped_while_it_was_down_count_once_it_is_up(pool: EndpointPool) -> None:
    pool.mark_down(A, "refused")
    pool.candidates()
    pool.record(A, BUSY)
    pool.mark_up(A)
    assert waiting(pool) == [9, 1, 1]


def test_endpoints_are_found_by_name_up_or_down(pool: EndpointPool) -> None:
    pool.mark_down(B, "refused")
    assert (pool.get("b"), pool.incarnation("b") > 0) == (B, True)
    assert (pool.get("x"), pool.incarnation("x")) == (None, 0)


def test_names_are_one_object_until_the_list_changes(pool: EndpointPool) -> None:
    before = pool.names
    pool.record(A, BUSY)
    same = pool.names is before
    pool.mark_down(A, "refused")
    assert (same, pool.names) == (True, frozenset("bc"))


def test_candidates_are_in_the_order_of_the_list(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.replace_all([C, B, A])
    assert (pool.candidates().names, waiting(pool)) == (("c", "b", "a"), [1, 1, 9])


def test_a_replaced_endpoint_starts_without_metrics(pool: EndpointPool) -> None:
    pool.record(A, BUSY)
    pool.replace_all([make_endpoint("a", port=1)])
    pool.candidates()
    pool.record(A, BUSY)  # too late
    assert (waiting(pool), pool.candidates().metrics) == ([1], (None,))


# -- models


@pytest.fixture
def lists(pool: EndpointPool) -> EndpointPool:
    """`a` lists one model, `b` two; the models of `c` are unknown."""
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
def test_candidates_list_the_model_or_have_an_unknown_list(
    lists: EndpointPool, model: str, names: tuple[str, ...]
) -> None:
    assert [lists.candidates(model=model).names for _ in range(2)] == [names, names]


def test_columns_are_those_of_the_model_s_endpoints(lists: EndpointPool) -> None:
    lists.record(B, BUSY)
    assert lists.candidates(model="large").waiting.tolist() == [9, 1]


@pytest.mark.parametrize(
    ("model", "excluding", "names"),
    [
        pytest.param("", "a", ("b", "c"), id="any model"),
        pytest.param("large", "b", ("c",), id="one model"),
        pytest.param("small", "c", ("a", "b"), id="model that all may serve"),
        pytest.param("large", "bc", (), id="all of them"),
        pytest.param("", "x", ("a", "b", "c"), id="an unknown one"),
    ],
)
def test_excluded_endpoints_are_no_candidates(
    lists: EndpointPool, model: str, excluding: str, names: tuple[str, ...]
) -> None:
    assert lists.candidates(model=model, excluding=frozenset(excluding)).names == names


def test_a_new_model_list_counts_at_once_and_keeps_metrics(lists: EndpointPool) -> None:
    lists.record(A, BUSY)
    lists.candidates(model="large")
    lists.record_models(A, frozenset({"large"}))
    candidates = lists.candidates(model="large")
    assert (candidates.names, candidates.waiting.tolist()) == (("a", "b", "c"), [9, 1, 1])


@pytest.mark.parametrize(
    ("down", "model", "serves"),
    [
        pytest.param("", "", True, id="any model"),
        pytest.param("", "large", True, id="listed"),
        pytest.param("", "other", True, id="one list is unknown"),
        pytest.param("c", "large", True, id="listed by one that is up"),
        pytest.param("c", "other", False, id="listed by none that is up"),
        pytest.param("bc", "large", False, id="listed by one that is down"),
        pytest.param("abc", "", False, id="all are down"),
    ],
)
def test_a_pool_serves_a_model_if_there_are_candidates(
    lists: EndpointPool, down: str, model: str, serves: bool
) -> None:
    for endpoint in (A, B, C):
        if endpoint.name in down:
            lists.mark_down(endpoint, "refused")
    assert (lists.serves(model), len(lists.candidates(model=model)) > 0) == (serves, serves)


@pytest.mark.parametrize(
    ("known", "down", "model", "lacks"),
    [
        pytest.param(True, "", "other", True, id="listed by none"),
        pytest.param(True, "", "large", False, id="listed by one"),
        pytest.param(True, "b", "large", False, id="listed by one that is down"),
        pytest.param(False, "", "other", False, id="one list is unknown"),
        pytest.param(False, "c", "other", False, id="the list of one that is down is unknown"),
    ],
)
def test_a_pool_lacks_a_model_if_all_lists_are_known_and_none_has_it(
    lists: EndpointPool, known: bool, down: str, model: str, lacks: bool
) -> None:
    if known:
        lists.record_models(C, frozenset({"small"}))
    if down:
        lists.mark_down({"b": B, "c": C}[down], "refused")
    assert lists.lacks(model) is lacks


def test_an_empty_pool_lacks_no_model(lists: EndpointPool) -> None:
    lists.replace_all([])
    assert not lists.lacks("other")
