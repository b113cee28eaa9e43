"""One profile: filters in order, clamped and weighted scores, a pick, and failures of each kind of plugin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from app.domain.decision import ProfileResult
from app.domain.errors import PluginError, SaturatedError
from app.domain.named import Named
from app.scheduling.profile import Profile
from pointsman.testing import make_candidates, make_request
from tests.unit.scheduling.given import FakeFilter, FakePicker, FakeScorer, answer_of, keep, make_profile

NAN = math.nan


def run(profile: Profile, *names: str) -> ProfileResult:
    return profile.run(make_request(), make_candidates(*(names or ("a", "b", "c"))))


def picked(result: ProfileResult) -> list[str]:
    return [endpoint.name for endpoint in result.endpoints]


# -- filters


def test_filters_run_in_order_each_on_the_candidates_left() -> None:
    first, second = FakeFilter(keep("b", "c")), FakeFilter(keep("c", "a"))
    filters = [Named("first", first), Named("second", second)]
    result = run(Profile("p", filters=filters, scorers=(), weights=(), picker=Named("picker", FakePicker())))
    assert (first.given, second.given, picked(result)) == ([("a", "b", "c")], [("b", "c")], ["c"])


def test_each_filter_s_step_is_kept() -> None:
    result = run(make_profile(filters=[keep("b", "c"), keep("c")]))
    assert [(step.plugin, step.dropped) for step in result.filters] == [("filter-0", ("a",)), ("filter-1", ("b",))]


def test_nothing_runs_once_no_candidate_is_left() -> None:
    late, scorer = FakeFilter(keep("a")), FakeScorer([])
    filters = [Named("none", FakeFilter(keep())), Named("late", late)]
    scorers = [Named("scorer", scorer)]
    picker = Named("picker", FakePicker(LookupError()))
    result = run(Profile("p", filters=filters, scorers=scorers, weights=[1], picker=picker))
    assert (picked(result), late.given, scorer.asked, len(result.filters)) == ([], [], 0, 1)


def test_an_empty_result_has_no_scores_and_no_faults() -> None:
    result = run(make_profile(filters=[keep()], scorers=[[]]))
    assert (result.scores.shape, len(result.scored), result.faults) == ((1, 0), 0, ())


def test_a_filter_that_keeps_all_leaves_the_candidates_as_they_are() -> None:
    candidates = make_candidates("a", "b")
    result = make_profile(filters=[[True, True]]).run(make_request(), candidates)
    assert result.scored.candidates is candidates


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param([True, False, True], id="list"),
        pytest.param((True, False, True), id="tuple"),
        pytest.param(np.array([True, False, True]), id="array"),
        pytest.param(list(np.array([True, False, True])), id="list of numpy booleans"),
        pytest.param([True, np.zeros(1, bool)[0], True], id="mixed list"),
        pytest.param(np.array([True, False, True])[:], id="view"),
    ],
)
def test_a_filter_may_return_any_sequence_of_booleans(returned: Any) -> None:
    assert picked(run(make_profile(filters=[returned]))) == ["a", "c"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        pytest.param([True], "it returned 1 value for 3 candidates", id="too few"),
        pytest.param([], "it returned 0 values for 3 candidates", id="none"),
        pytest.param([True] * 4, "it returned 4 values for 3 candidates", id="too many"),
        pytest.param(np.ones(2, bool), "it returned 2 values for 3 candidates", id="short array"),
        pytest.param([[True], [True], [True]], r"an array of shape \(3, 1\) for 3 candidates", id="two dimensions"),
        pytest.param(True, r"it returned an array of shape \(\)", id="one boolean"),
        pytest.param(None, "it returned None; a filter returns one boolean per candidate", id="None"),
        pytest.param(list, "it returned Endpoint values; a filter returns one boolean per candidate", id="endpoints"),
        pytest.param(lambda c: [c[0]], "it returned Endpoint values", id="the endpoints that stay"),
        pytest.param(lambda c: c, "it returned Endpoint values", id="the candidates"),
        pytest.param(lambda c: c.names, "it returned str values", id="names"),
        pytest.param("abc", "it returned an object of type str", id="text"),
        pytest.param([1, 0, 1], "it returned int values", id="integers"),
        pytest.param([True, 0, None], "it returned NoneType and int values", id="booleans among others"),
        pytest.param(np.array([1.0, 0.0, 1.0]), "it returned float64 values", id="numpy numbers"),
        pytest.param({"a", "b", "c"}, "it returned an object of type set", id="set"),
        pytest.param(lambda c: (True for _ in c), "it returned an object of type generator", id="generator"),
        pytest.param([[True], [True, False], [True]], "ValueError", id="ragged"),
        pytest.param(LookupError("oh"), "LookupError: oh", id="exception"),
        pytest.param(SaturatedError(), "SaturatedError", id="routing error"),
    ],
)
def test_a_filter_that_fails_is_an_error_that_names_it(returned: Any, message: str) -> None:
    with pytest.raises(PluginError, match=message) as caught:
        run(make_profile(filters=[[True] * 3, returned]))
    assert caught.value.plugin == "filter-1"


# -- scorers


def test_totals_are_the_weighted_sum_of_the_scores() -> None:
    result = run(make_profile(scorers=[[0, 0.5, 1], [1, 0.5, 0]], weights=[2, 1]))
    assert result.scored.totals.tolist() == [1.0, 1.5, 2.0]


def test_the_result_has_unweighted_scores() -> None:
    result = run(make_profile(scorers=[[0, 0.5, 1], [1, 0.5, 0]], weights=[2, 1]))
    assert (result.scorers, result.weights.tolist()) == (("scorer-0", "scorer-1"), [2, 1])
    assert result.scores.tolist() == [[0, 0.5, 1], [1, 0.5, 0]]


def test_scorers_rate_only_the_candidates_left() -> None:
    result = run(make_profile(filters=[keep("b", "c")], scorers=[[0.2, 0.7]]))
    assert (picked(result), result.scored.totals.tolist()) == (["c", "b"], [0.2, 0.7])


def test_without_scorers_all_candidates_are_equal() -> None:
    assert run(make_profile()).scored.totals.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        pytest.param([-0.5, 0.5, 1.5], [0, 0.5, 1], id="on both sides"),
        pytest.param([-2, -1, 0], [0, 0, 0], id="below"),
        pytest.param([1, 2, 3], [1, 1, 1], id="above"),
        pytest.param([math.inf, -math.inf, 0.3], [1, 0, 0.3], id="infinite"),
        pytest.param([NAN, 0.5, math.inf], [0, 0.5, 1], id="not a number"),
        pytest.param([True, False, True], [1, 0, 1], id="booleans"),
    ],
)
def test_scores_are_clamped(given: Sequence[float], counted: Sequence[float]) -> None:
    assert run(make_profile(scorers=[given])).scores.tolist() == [counted]


def test_a_score_out_of_range_is_no_fault() -> None:
    assert run(make_profile(scorers=[[-1, 2, math.inf]])).faults == ()


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(LookupError("oh"), id="exception"),
        pytest.param([0.5], id="too few"),
        pytest.param([0.5] * 4, id="too many"),
        pytest.param(0.5, id="no sequence"),
        pytest.param(None, id="None"),
        pytest.param(["x", "y", "z"], id="text"),
        pytest.param(list, id="endpoints"),
        pytest.param([NAN, NAN, NAN], id="NaN"),
    ],
)
def test_a_scorer_that_fails_counts_as_0_and_the_others_still_count(returned: Any) -> None:
    result = run(make_profile(scorers=[returned, [0, 1, 0.5]], weights=[5, 1]))
    assert (result.scored.totals.tolist(), picked(result)) == ([0, 1, 0.5], ["b", "c", "a"])
    assert [(fault.plugin, fault.extension_point) for fault in result.faults] == [("scorer-0", "Scorer")]


def test_a_fault_has_its_cause() -> None:
    cause = LookupError("oh")
    assert [fault.cause for fault in run(make_profile(scorers=[cause])).faults] == [cause]


def test_every_scorer_that_fails_is_a_fault() -> None:
    result = run(make_profile(scorers=[LookupError(), [1, 1, 1], [0, NAN, 0], [0]]))
    assert {fault.plugin for fault in result.faults} == {"scorer-0", "scorer-2", "scorer-3"}


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def second_scores(first: np.ndarray, change: Callable[[], None]) -> list[float]:
    """The scores of a second request, after `change`, of a scorer that returns the same array twice."""
    profile = make_profile(scorers=[lambda _: first])
    run(profile)
    change()
    return run(profile).scores[0].tolist()


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda own: own, id="its own array"),
        pytest.param(lambda own: read_only(own[:]), id="a read-only view of its own array"),
        pytest.param(lambda own: read_only(own.reshape(3, 1)[:, 0]), id="a read-only view of a view"),
        pytest.param(lambda own: np.broadcast_to(own, (1, 3))[0], id="a broadcast view"),
        pytest.param(lambda own: np.frombuffer(own.data), id="a view of its buffer"),
    ],
)
def test_a_scorer_may_change_an_array_that_it_has_returned(view: Callable[[np.ndarray], np.ndarray]) -> None:
    own = np.array([0.0, 0.5, 1.0])
    assert second_scores(view(own), lambda: own.__setitem__(0, 0.75)) == [0.75, 0.5, 1.0]


def test_a_read_only_array_that_owns_its_data_is_converted_once() -> None:
    scores = read_only(np.array([0.0, 0.5, 1.0]))

    def change() -> None:
        scores.flags.writeable = True
        scores[0] = 0.75

    assert second_scores(scores, change) == [0.0, 0.5, 1.0]


def test_reused_scores_are_not_those_of_another_number_of_candidates() -> None:
    scores = {count: read_only(np.full(count, count / 10)) for count in (2, 3)}
    profile = make_profile(scorers=[lambda candidates: scores[len(candidates)]])
    rows = [run(profile, *names).scores[0].tolist() for names in ("abc", "ab", "abc", "abc")]
    assert rows == [[0.3] * 3, [0.2] * 2, [0.3] * 3, [0.3] * 3]


def test_a_scorer_that_failed_in_between_is_asked_again() -> None:
    scores = read_only(np.array([0.0, 0.5, 1.0]))
    returned: list[Any] = [scores, LookupError(), scores]
    profile = make_profile(scorers=[lambda _: answer_of(returned.pop(0))])
    assert [run(profile).scores[0].tolist() for _ in range(3)] == [[0, 0.5, 1], [0, 0, 0], [0, 0.5, 1]]


# -- the picker


def test_the_picker_s_order_is_kept() -> None:
    assert picked(run(make_profile(picker=lambda scored: tuple(scored.candidates)[::-1]))) == ["c", "b", "a"]


def test_the_result_has_the_profile_s_name() -> None:
    assert run(make_profile("decode")).profile == "decode"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        pytest.param(LookupError("oh"), "LookupError: oh", id="exception"),
        pytest.param((), "it picked no endpoint", id="no endpoint"),
        pytest.param(lambda _: None, "TypeError", id="no sequence"),
    ],
)
def test_a_picker_that_fails_is_an_error_that_names_it(returned: Any, message: str) -> None:
    with pytest.raises(PluginError, match=f"'picker' failed: {message}"):
        run(make_profile(picker=returned))
