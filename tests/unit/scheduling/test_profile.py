"""One profile: filters in order, scores clamped and weighted, a pick; and what each plugin's failure costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from app.domain.decision import ProfileResult
from app.domain.errors import PluginError, SaturatedError
from app.scheduling.profile import Named, Profile
from pointsman.testing import make_candidates, make_request
from tests.unit.scheduling.given import FakeFilter, FakePicker, FakeScorer, keep, make_profile

NAN = math.nan


def run(profile: Profile, *names: str) -> ProfileResult:
    return profile.run(make_request(), make_candidates(*(names or ("a", "b", "c"))))


def picked(result: ProfileResult) -> list[str]:
    return [endpoint.name for endpoint in result.endpoints]


# -- filters


def test_filters_run_in_the_order_written_over_what_is_left() -> None:
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
    "answer",
    [
        pytest.param([True, False, True], id="list"),
        pytest.param((True, False, True), id="tuple"),
        pytest.param(np.array([True, False, True]), id="array"),
        pytest.param([1, 0, 1], id="numbers"),
    ],
)
def test_a_filter_answers_with_any_sequence(answer: Any) -> None:
    assert picked(run(make_profile(filters=[answer]))) == ["a", "c"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([True], id="too few"),
        pytest.param([True] * 4, id="too many"),
        pytest.param(True, id="no sequence"),
        pytest.param(None, id="nothing"),
        pytest.param([[True], [True], [True]], id="two dimensions"),
        pytest.param(LookupError("oh"), id="exception"),
        pytest.param(SaturatedError(), id="routing error"),
    ],
)
def test_a_filter_s_failure_is_an_error_that_names_it(answer: Any) -> None:
    with pytest.raises(PluginError) as caught:
        run(make_profile(filters=[[True] * 3, answer]))
    assert caught.value.plugin == "filter-1"


def test_a_wrong_length_is_told() -> None:
    with pytest.raises(PluginError, match=r"shape \(1,\) for 3 candidates"):
        run(make_profile(filters=[[True]]))


# -- scorers


def test_totals_are_the_weighted_sum_of_the_scores() -> None:
    result = run(make_profile(scorers=[[0, 0.5, 1], [1, 0.5, 0]], weights=[2, 1]))
    assert result.scored.totals.tolist() == [1.0, 1.5, 2.0]


def test_scores_are_kept_as_they_were_before_weighting() -> None:
    result = run(make_profile(scorers=[[0, 0.5, 1], [1, 0.5, 0]], weights=[2, 1]))
    assert (result.scorers, result.weights.tolist()) == (("scorer-0", "scorer-1"), [2, 1])
    assert result.scores.tolist() == [[0, 0.5, 1], [1, 0.5, 0]]


def test_scorers_rate_only_what_the_filters_left() -> None:
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
def test_scores_are_brought_into_their_range(given: Sequence[float], counted: Sequence[float]) -> None:
    assert run(make_profile(scorers=[given])).scores.tolist() == [counted]


def test_a_score_out_of_range_is_no_fault() -> None:
    assert run(make_profile(scorers=[[-1, 2, math.inf]])).faults == ()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(LookupError("oh"), id="exception"),
        pytest.param([0.5], id="too few"),
        pytest.param([0.5] * 4, id="too many"),
        pytest.param(0.5, id="no sequence"),
        pytest.param(None, id="nothing"),
        pytest.param(["x", "y", "z"], id="text"),
        pytest.param([NAN, NAN, NAN], id="not a number"),
    ],
)
def test_a_scorer_s_failure_counts_nothing_and_others_still_count(answer: Any) -> None:
    result = run(make_profile(scorers=[answer, [0, 1, 0.5]], weights=[5, 1]))
    assert (result.scored.totals.tolist(), picked(result)) == ([0, 1, 0.5], ["b", "c", "a"])
    assert [(fault.plugin, fault.extension_point) for fault in result.faults] == [("scorer-0", "Scorer")]


def test_a_fault_has_its_cause() -> None:
    cause = LookupError("oh")
    assert [fault.cause for fault in run(make_profile(scorers=[cause])).faults] == [cause]


def test_every_scorer_that_fails_is_a_fault() -> None:
    result = run(make_profile(scorers=[LookupError(), [1, 1, 1], [0, NAN, 0], [0]]))
    assert {fault.plugin for fault in result.faults} == {"scorer-0", "scorer-2", "scorer-3"}


# -- the picker


def test_the_picker_s_order_is_kept() -> None:
    assert picked(run(make_profile(picker=lambda scored: tuple(scored.candidates)[::-1]))) == ["c", "b", "a"]


def test_the_result_has_the_profile_s_name() -> None:
    assert run(make_profile("decode")).profile == "decode"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(LookupError("oh"), "LookupError: oh", id="exception"),
        pytest.param((), "it picked no endpoint", id="nobody"),
        pytest.param(lambda _: None, "TypeError", id="no sequence"),
    ],
)
def test_a_picker_s_failure_is_an_error_that_names_it(answer: Any, said: str) -> None:
    with pytest.raises(PluginError, match=f"'picker' failed: {said}"):
        run(make_profile(picker=answer))
