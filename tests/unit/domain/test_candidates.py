"""Candidates: a sequence of endpoints with columns that stay aligned, read-only and without NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from app.domain.candidates import Candidates, Roster
from app.domain.facts import EndpointFactKey
from app.domain.metrics import EndpointMetrics
from pointsman import PREFIX_HITS
from pointsman.testing import make_candidates, make_endpoint

NAN = math.nan
HITS = EndpointFactKey("hits", "producer", default=-1.0)
COLUMNS = ["waiting", "running", "kv_cache_usage", "metrics_age", "known", "in_flight"]


def three() -> Candidates:
    """A pool of a busy, an unknown and an idle endpoint."""
    return make_candidates(
        "busy",
        "unknown",
        "idle",
        waiting=[9, NAN, 0],
        running=[4, NAN, 1],
        kv_cache_usage=[0.8, NAN, 0.2],
        in_flight={"busy": 1, "unknown": 7},
        facts={HITS: {"busy": 3.0, "idle": 5.0}},
        metrics=[EndpointMetrics(waiting=9), None, EndpointMetrics(waiting=0)],
    )


def all_known() -> Candidates:
    """A pool whose metrics are all known."""
    return make_candidates("a", "b", "c", waiting=[1, 2, 3], running=[4, 5, 6], kv_cache_usage=[0.1, 0.2, 0.3])


# -- columns


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param("waiting", [9, 7, 0], id="waiting is what is in flight"),
        pytest.param("running", [4, 7, 1], id="running is what is in flight"),
        pytest.param("kv_cache_usage", [0.8, 0.5, 0.2], id="usage is the mean of the known"),
        pytest.param("in_flight", [1, 7, 0], id="in flight is our own count"),
        pytest.param("known", [True, False, True], id="known is the mask"),
    ],
)
def test_an_unknown_endpoint_has_assumed_load(column: str, expected: Sequence[float]) -> None:
    assert getattr(three(), column).tolist() == pytest.approx(expected)


def test_usage_is_a_half_if_that_of_no_endpoint_is_known() -> None:
    assert make_candidates("a", "b", kv_cache_usage=[NAN, NAN]).kv_cache_usage.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("waiting", "running", "expected", "known"),
    [
        pytest.param(NAN, 3, ([2.0], [3.0]), False, id="waiting is missing"),
        pytest.param(3, NAN, ([3.0], [2.0]), True, id="running is missing"),
    ],
)
def test_a_missing_metric_is_replaced_by_the_requests_in_flight(
    waiting: float, running: float, expected: tuple[list[float], list[float]], known: bool
) -> None:
    candidates = make_candidates("a", waiting=[waiting], running=[running], in_flight={"a": 2})
    assert (candidates.waiting.tolist(), candidates.running.tolist()) == expected
    assert candidates.known.tolist() == [known]


def test_known_load_is_used_as_scraped() -> None:
    assert (all_known().waiting.tolist(), all_known().running.tolist()) == ([1, 2, 3], [4, 5, 6])


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("pool", [pytest.param(three, id="one unknown"), pytest.param(all_known, id="all known")])
@pytest.mark.parametrize("narrowed", [pytest.param(False, id="whole"), pytest.param(True, id="narrowed")])
def test_columns_are_read_only(column: str, pool: Callable[[], Candidates], narrowed: bool) -> None:
    candidates = pool()
    candidates = candidates.where(np.array([True, False, True])) if narrowed else candidates
    with pytest.raises(ValueError, match="read-only"):
        getattr(candidates, column)[0] = 1


@pytest.mark.parametrize("column", COLUMNS)
def test_no_column_holds_nan(column: str) -> None:
    values = getattr(make_candidates("a", "b", waiting=[NAN, 1], running=[0, NAN], kv_cache_usage=[NAN] * 2), column)
    assert not np.isnan(values).any()


def test_the_age_of_metrics_starts_at_their_scrape() -> None:
    assert make_candidates("a", metrics_age=3.0).metrics_age.tolist() == [3.0]


@pytest.mark.parametrize(
    ("age", "expected"), [pytest.param(math.inf, math.inf, id="never read"), pytest.param(-1.0, 0.0, id="just read")]
)
def test_the_age_of_metrics_is_never_negative(age: float, expected: float) -> None:
    assert make_candidates("a", metrics_age=age).metrics_age.tolist() == [expected]


def test_in_flight_is_counted_once_per_decision() -> None:
    counts = {"a": 1}
    candidates = make_candidates("a", in_flight=counts)
    before = candidates.in_flight.tolist()
    counts["a"] = 5
    assert candidates.in_flight.tolist() == before == [1.0]


def test_assumed_load_does_not_change_within_a_decision() -> None:
    counts = {"a": 1}
    candidates = make_candidates("a", waiting=[NAN], in_flight=counts)
    before = candidates.waiting
    counts["a"] = 5
    assert (candidates.waiting is before, before.tolist()) == (True, [1.0])


def test_metrics_are_those_of_the_endpoints() -> None:
    assert [m and m.waiting for m in three().metrics] == [9, None, 0]


def test_an_empty_pool_has_empty_columns() -> None:
    assert [len(getattr(make_candidates(), column)) for column in COLUMNS] == [0] * len(COLUMNS)


# -- narrowing


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param("names", ("unknown", "idle"), id="names"),
        pytest.param("waiting", [7, 0], id="waiting"),
        pytest.param("running", [7, 1], id="running"),
        pytest.param("kv_cache_usage", [0.5, 0.2], id="usage"),
        pytest.param("known", [False, True], id="known"),
        pytest.param("in_flight", [7, 0], id="in flight"),
        pytest.param("metrics_age", [0, 0], id="age"),
    ],
)
def test_narrowing_keeps_columns_aligned(column: str, expected: Sequence[float]) -> None:
    assert list(getattr(three().where(np.array([False, True, True])), column)) == pytest.approx(list(expected))


def test_narrowing_keeps_facts_and_metrics_aligned() -> None:
    left = three().where(np.array([False, True, True]))
    assert (left.fact(HITS).tolist(), left.metrics) == ([-1.0, 5.0], (None, EndpointMetrics(waiting=0)))


def test_narrowing_again_keeps_everything_aligned() -> None:
    left = three().where(np.array([True, False, True])).where(np.array([False, True]))
    assert (left.names, left.waiting.tolist(), left.fact(HITS).tolist()) == (("idle",), [0.0], [5.0])


def test_narrowing_again_keeps_known_load_aligned() -> None:
    left = all_known().where(np.array([True, False, True])).where(np.array([False, True]))
    assert (left.waiting.tolist(), left.running.tolist(), left.kv_cache_usage.tolist()) == ([3], [6], [0.3])


def test_narrowing_leaves_the_candidates_it_came_from() -> None:
    candidates = three()
    candidates.where(np.array([False, False, False]))
    assert candidates.names == ("busy", "unknown", "idle")


def test_narrowing_to_nothing_leaves_an_empty_sequence() -> None:
    left = three().where(np.zeros(3, np.bool_))
    assert (list(left), left.waiting.tolist(), bool(left)) == ([], [], False)


@pytest.mark.parametrize("seed", range(5))
def test_narrowing_often_is_the_same_as_once(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"e{number}" for number in range(30)]
    first, second = random.random(30) < 0.7, random.random(30) < 0.7
    candidates = make_candidates(*names, waiting=list(range(30)), facts={HITS: {"e3": 1.0, "e20": 2.0}})
    twice, once = candidates.where(first).where(second[first]), candidates.where(first & second)
    assert (twice.names, twice.waiting.tolist()) == (once.names, once.waiting.tolist())
    assert twice.fact(HITS).tolist() == once.fact(HITS).tolist()


# -- facts


def test_a_fact_that_nothing_produced_is_its_default() -> None:
    assert make_candidates("a", "b").fact(HITS).tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"e1": 4.0, "gone": 9.0}, id="few"),
        pytest.param({"e1": 4.0, "gone": 9.0} | {f"gone{n}": 9.0 for n in range(9)}, id="many"),
    ],
)
def test_a_fact_is_by_name_and_missing_ones_are_the_default(given: dict[str, float]) -> None:
    candidates = make_candidates(*[f"e{number}" for number in range(6)], facts={HITS: given})
    assert candidates.fact(HITS).tolist() == [-1.0, 4.0, -1.0, -1.0, -1.0, -1.0]


def test_a_live_fact_is_read_when_it_is_asked_for() -> None:
    live = {"a": 1.0}
    candidates = make_candidates("a", facts={HITS: live})
    live["a"] = 8.0
    assert candidates.fact(HITS).tolist() == [8.0]


def test_a_fact_does_not_change_within_a_decision() -> None:
    live = {"a": 1.0}
    candidates = make_candidates("a", facts={HITS: live})
    before = candidates.fact(HITS)
    live["a"] = 8.0
    assert candidates.fact(HITS) is before


def test_a_fact_s_column_can_not_be_written() -> None:
    column = three().where(np.array([True, False, True])).fact(HITS)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


class WholeColumn(dict[str, float]):
    """A mapping that gives its column at once."""

    def column(self, names: tuple[str, ...], default: float) -> np.ndarray:
        return np.array([self.get(name, default) * 10 for name in names], np.float64)


def test_a_mapping_that_has_columns_is_asked_for_one() -> None:
    candidates = make_candidates("a", "b", facts={HITS: WholeColumn(a=1.0)})
    assert candidates.fact(HITS).tolist() == [10.0, -10.0]


# -- a sequence


def test_a_roster_knows_its_endpoints_by_position() -> None:
    roster = Roster([make_endpoint("a"), make_endpoint("b")])
    assert (len(roster), roster.names, dict(roster.positions)) == (2, ("a", "b"), {"a": 0, "b": 1})


def test_candidates_have_the_order_given() -> None:
    assert [endpoint.name for endpoint in three()] == ["busy", "unknown", "idle"]


@pytest.mark.parametrize(
    ("index", "name"), [pytest.param(0, "busy", id="first"), pytest.param(-1, "idle", id="last from the end")]
)
def test_a_candidate_can_be_indexed(index: int, name: str) -> None:
    assert three()[index].name == name


@pytest.mark.parametrize(
    ("index", "name"), [pytest.param(0, "unknown", id="first"), pytest.param(-1, "idle", id="last from the end")]
)
def test_an_index_counts_only_the_remaining_candidates(index: int, name: str) -> None:
    assert three().where(np.array([False, True, True]))[index].name == name


def test_a_slice_is_a_tuple_of_endpoints() -> None:
    assert tuple(endpoint.name for endpoint in three()[1:]) == ("unknown", "idle")


@pytest.mark.parametrize("index", [3, -4])
def test_a_position_outside_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        three()[index]


def test_membership_is_by_identity() -> None:
    endpoint = make_endpoint("a")
    candidates = make_candidates(endpoint)
    assert (endpoint in candidates, make_endpoint("a") in candidates, candidates.index(endpoint)) == (True, False, 0)


def test_candidates_are_shown_by_name() -> None:
    assert repr(three().where(np.array([True, False, True]))) == "Candidates(busy, idle)"


def test_a_fact_that_is_not_a_number_counts_as_missing() -> None:
    candidates = make_candidates("a", "b", facts={PREFIX_HITS: {"a": math.nan, "b": 2.0}})
    assert candidates.fact(PREFIX_HITS).tolist() == [0.0, 2.0]
