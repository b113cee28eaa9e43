"""The endpoint table: what is written of endpoints, how long it is kept, and who is notified."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics
from app.domain.status import EndpointStatus
from app.fleet.pool import EndpointPool
from app.fleet.table import MODELS_REMEMBERED, EndpointTable
from pointsman.testing import FakeClock, make_endpoint

A, B, C = (make_endpoint(name) for name in "abc")
BUSY = EndpointMetrics(waiting=9, running=4, kv_cache_usage=0.8)
NOW = 1000.0


@pytest.fixture
def table() -> EndpointTable:
    """Three endpoints."""
    table = EndpointTable()
    table.replace_all([A, B, C], NOW)
    return table


def status(table: EndpointTable, name: str = "a") -> EndpointStatus:
    found = table.get(name)
    assert found is not None
    return found


def up(table: EndpointTable) -> str:
    """Names of the endpoints that are up, in order."""
    return "".join(table.rows().roster.names)


# -- up and down


def test_a_new_endpoint_is_up_and_nothing_is_known_of_it(table: EndpointTable) -> None:
    assert up(table) == "abc"
    assert status(table) == EndpointStatus(A, up=True, incarnation=status(table).incarnation, since=NOW)


def test_an_endpoint_that_goes_down_has_a_reason_and_a_time(table: EndpointTable) -> None:
    changed = table.mark_down(B, "refused", NOW + 7)
    found = status(table, "b")
    assert (changed, up(table)) == (True, "ac")
    assert (found.up, found.reason, found.since) == (False, "refused", NOW + 7)


def test_an_endpoint_that_comes_up_again_is_in_its_old_place(table: EndpointTable) -> None:
    table.mark_down(B, "refused", NOW)
    changed = table.mark_up(B, NOW + 7)
    found = status(table, "b")
    assert (changed, up(table)) == (True, "abc")
    assert (found.up, found.reason, found.since) == (True, "", NOW + 7)


def test_marking_an_endpoint_again_changes_nothing(table: EndpointTable) -> None:
    up_again = table.mark_up(B, NOW + 1)
    table.mark_down(B, "refused", NOW + 2)
    before = status(table, "b")
    assert (up_again, table.mark_down(B, "refused again", NOW + 3), status(table, "b")) == (False, False, before)


def test_metrics_scraped_before_it_was_down_no_longer_count(table: EndpointTable) -> None:
    table.record(A, BUSY, NOW)
    table.mark_down(A, "refused", NOW)
    table.mark_up(A, NOW)
    assert status(table).read_at == -math.inf


# -- metrics and models


def test_metrics_are_recorded_with_their_time_and_end_a_failure(table: EndpointTable) -> None:
    table.record_failure(A, "no metrics within 1 s")
    table.record(A, BUSY, NOW + 3)
    assert (status(table).metrics, status(table).read_at, status(table).reason) == (BUSY, NOW + 3, "")


def test_a_failure_to_scrape_keeps_the_last_metrics(table: EndpointTable) -> None:
    table.record(A, BUSY, NOW + 3)
    table.record_failure(A, "no metrics within 1 s")
    assert (status(table).metrics, status(table).read_at, status(table).reason) == (
        BUSY, NOW + 3, "no metrics within 1 s",
    )  # fmt: skip


@pytest.mark.parametrize("models", [frozenset(), frozenset({"demo"}), None], ids=["none", "one", "unknown again"])
def test_models_are_recorded(table: EndpointTable, models: frozenset[str] | None) -> None:
    table.record_models(A, frozenset({"other"}))
    table.record_models(A, models)
    assert status(table).models == models


def test_only_so_many_model_names_are_remembered(table: EndpointTable) -> None:
    table.record_models(A, frozenset({"small"}))
    for number in range(3 * MODELS_REMEMBERED):
        table.rows().serving(f"made-up-{number}")
    rows = table.rows().serving("large")
    assert rows is not None
    assert (rows.tolist(), len(table.rows()._serving) <= MODELS_REMEMBERED) == ([1, 2], True)


# -- the list


def test_a_table_is_discovered_with_its_first_list() -> None:
    table = EndpointTable()
    before = (table.discovered, table.has_been_written())
    table.replace_all([], NOW)
    assert (before, table.discovered, table.has_been_written()) == ((False, False), True, True)
    assert (table.statuses(), up(table)) == ((), "")


def test_an_unchanged_endpoint_keeps_what_is_known_of_it(table: EndpointTable) -> None:
    table.record(A, BUSY, NOW)
    table.record_models(A, frozenset({"demo"}))
    table.mark_down(C, "refused", NOW)
    before = (status(table, "c"), status(table))
    table.replace_all([make_endpoint("c"), make_endpoint("a")], NOW + 5)
    assert (table.statuses(), status(table).endpoint is A) == (before, True)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(make_endpoint("a", port=1), id="port"),
        pytest.param(make_endpoint("a", labels={"x": "y"}), id="labels"),
        pytest.param(make_endpoint("a", address="10.0.0.1"), id="address"),
        pytest.param(Endpoint("a", "127.0.0.1", 8000, metrics_port=9), id="metrics port"),
        pytest.param(Endpoint("a", "127.0.0.1", 8000, tls=True), id="TLS"),
    ],
)
def test_of_a_changed_endpoint_nothing_is_known(table: EndpointTable, changed: Endpoint) -> None:
    table.record(A, BUSY, NOW)
    table.record_models(A, frozenset())
    table.mark_down(A, "refused", NOW)
    table.replace_all([changed], NOW + 1)
    assert status(table) == EndpointStatus(changed, up=True, incarnation=status(table).incarnation, since=NOW + 1)


LATE: list[Any] = [
    pytest.param([make_endpoint("a", port=1)], id="replaced"),
    pytest.param([B], id="removed"),
]


@pytest.mark.parametrize("endpoints", LATE)
def test_what_is_written_too_late_is_ignored(table: EndpointTable, endpoints: list[Endpoint]) -> None:
    table.replace_all(endpoints, NOW)
    before = (table.statuses(), table.rows(), table.version)
    table.record(A, BUSY, NOW)
    table.record_failure(A, "refused")
    table.record_models(A, frozenset())
    marked = (table.mark_down(A, "refused", NOW), table.mark_up(A, NOW))
    assert marked == (False, False)
    assert (table.statuses(), table.rows(), table.version) == before


# -- versions and incarnations

WRITES: list[Any] = [
    pytest.param(lambda t: t.record(A, BUSY, NOW), id="metrics"),
    pytest.param(lambda t: t.record_models(A, frozenset({"demo"})), id="models"),
    pytest.param(lambda t: t.mark_down(A, "refused", NOW), id="down"),
    pytest.param(lambda t: t.mark_up(C, NOW), id="up"),
    pytest.param(lambda t: t.replace_all([A], NOW), id="list"),
]


@pytest.mark.parametrize("write", WRITES)
def test_the_version_changes_with_what_is_written(table: EndpointTable, write: Callable[[EndpointTable], None]) -> None:
    table.mark_down(C, "refused", NOW)
    before = table.version
    write(table)
    assert table.version != before


@pytest.mark.parametrize("write", WRITES)
def test_the_rows_are_one_object_as_long_as_the_list_and_the_models_are(
    table: EndpointTable, write: Callable[[EndpointTable], None]
) -> None:
    table.mark_down(C, "refused", NOW)
    before = (table.rows(), status(table).models, up(table))
    write(table)
    same = (status(table).models, up(table)) == before[1:]
    assert (table.rows() is before[0]) is same


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        pytest.param(lambda t: (t.mark_down(A, "refused", NOW), t.mark_up(A, NOW)), True, id="down and up"),
        pytest.param(lambda t: t.replace_all([make_endpoint("a", port=1)], NOW), True, id="replaced"),
        pytest.param(lambda t: (t.replace_all([], NOW), t.replace_all([A], NOW)), True, id="removed and added"),
        pytest.param(lambda t: t.record(A, BUSY, NOW), False, id="metrics"),
        pytest.param(lambda t: t.mark_down(A, "refused", NOW), False, id="down"),
        pytest.param(lambda t: t.replace_all([make_endpoint("a")], NOW), False, id="an equal one"),
    ],
)
def test_an_incarnation_changes_when_an_endpoint_comes_up_again_or_is_replaced(
    table: EndpointTable, change: Callable[[EndpointTable], Any], changes: bool
) -> None:
    before = status(table).incarnation
    change(table)
    assert (status(table).incarnation != before) is changes


def test_no_two_endpoints_have_the_same_incarnation(table: EndpointTable) -> None:
    assert len({one.incarnation for one in table.statuses()} | {0}) == 4


# -- listening


def test_listeners_are_called_after_each_new_list_until_they_unsubscribe(table: EndpointTable) -> None:
    seen: list[str] = []

    def listener() -> None:
        seen.append(up(table))

    table.subscribe(listener)
    table.replace_all([A], NOW)
    table.mark_down(A, "refused", NOW)
    table.record_models(A, frozenset())
    table.replace_all([], NOW)
    table.unsubscribe(listener)
    table.replace_all([B], NOW)
    assert seen == ["a", ""]


def test_suspicions_are_passed_on_until_the_listener_unsubscribes(table: EndpointTable) -> None:
    seen: list[Endpoint] = []
    table.suspect(A)
    table.subscribe_to_suspicions(seen.append)
    for endpoint in (B, C):
        table.suspect(endpoint)
    table.unsubscribe_from_suspicions(seen.append)
    table.suspect(A)
    assert seen == [B, C]


@pytest.mark.parametrize("list_change", [True, False], ids=["list", "suspicion"])
def test_a_listener_may_unsubscribe_when_it_is_called(table: EndpointTable, list_change: bool) -> None:
    seen: list[str] = []
    unsubscribe = table.unsubscribe if list_change else table.unsubscribe_from_suspicions

    def first(*_: Endpoint) -> None:
        seen.append("first")
        unsubscribe(first)

    def second(*_: Endpoint) -> None:
        seen.append("second")

    for listener in (first, second):
        (table.subscribe if list_change else table.subscribe_to_suspicions)(listener)
    for _ in range(2):
        table.replace_all([], NOW) if list_change else table.suspect(A)
    assert seen == ["first", "second", "second"]


# -- two configurations


def make_pool(clock: FakeClock, table: EndpointTable, stale_after: float) -> EndpointPool:
    return EndpointPool(clock=clock, in_flight=lambda _: 0, stale_after=stale_after, table=table)


def test_each_pool_over_a_table_has_its_own_limit_of_age(clock: FakeClock) -> None:
    table = EndpointTable()
    short, long = make_pool(clock, table, 2), make_pool(clock, table, 10)
    short.replace_all([A, B])
    seen = []
    long.record(A, BUSY)
    for seconds in (0, 2, 8):
        clock.advance(seconds)
        seen.append(tuple((bool(pool.candidates().known[0]), pool.is_fresh(status(table))) for pool in (short, long)))
    assert seen == [((True, True),) * 2, ((False, False), (True, True)), ((False, False),) * 2]


def test_pools_over_a_table_see_each_other_s_changes(clock: FakeClock) -> None:
    table = EndpointTable()
    one, two = make_pool(clock, table, 5), make_pool(clock, table, 5)
    before = (one.discovered, two.candidates().names)
    one.replace_all([A, B])
    two.mark_down(A, "refused")
    two.record(B, BUSY)
    assert before == (False, ())
    for pool in (one, two):
        assert (pool.discovered, pool.candidates().names, pool.candidates().waiting.tolist()) == (True, ("b",), [9])


def test_a_pool_that_begins_later_has_what_was_known(clock: FakeClock) -> None:
    table = EndpointTable()
    make_pool(clock, table, 5).replace_all([A, B])
    table.record(A, BUSY, clock.now())
    table.record_models(B, frozenset({"other"}))
    later = make_pool(clock, table, 5)
    assert later.candidates(model="demo").names == ("a",)
    assert (later.candidates().waiting.tolist(), later.incarnation("a")) == ([9, 0], status(table).incarnation)


def test_pools_without_a_table_have_nothing_in_common(clock: FakeClock) -> None:
    one, two = (EndpointPool(clock=clock, in_flight=lambda _: 0) for _ in range(2))
    one.replace_all([A])
    assert (one.names, two.names, two.discovered) == (frozenset("a"), frozenset(), False)
