"""`load-aware-scorer` and `load-aware-filter`: fixed thresholds for queues and KV caches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.extension import KV_CACHE_USAGE, WAITING
from plugins.filters.load_aware import LoadAwareFilter
from plugins.scorers.load_aware import LoadAwareScorer
from pointsman.testing import make_candidates, make_request
from tests.unit.plugins.given import params_of

NAN = math.nan


def endpoints(count: int) -> list[str]:
    return [f"e{number}" for number in range(count)]


def scores(params: dict[str, Any], waiting: list[float], in_flight: dict[str, int] | None = None) -> list[float]:
    plugin = LoadAwareScorer(params_of(LoadAwareScorer.Params, params))
    candidates = make_candidates(*endpoints(len(waiting)), waiting=waiting, in_flight=in_flight or {})
    return list(plugin.score(make_request(), candidates))


@pytest.mark.parametrize(
    ("params", "waiting", "expected"),
    [
        pytest.param({}, [0, 32, 64, 96], [0.5, 0.375, 0.25, 0.125], id="up to 128"),
        pytest.param({}, [127, 128, 129, 5000], [0.5 / 128, 0.0, 0.0, 0.0], id="around 128 and far above"),
        pytest.param({}, [64], [0.25], id="a single endpoint"),
        pytest.param({}, [64, 64], [0.25, 0.25], id="equal endpoints"),
        pytest.param({"threshold": 10}, [0, 1, 5, 10, 11], [0.5, 0.45, 0.25, 0.0, 0.0], id="threshold of ten"),
        pytest.param({"threshold": 1}, [0, 1], [0.5, 0.0], id="threshold of one"),
    ],
)
def test_an_empty_queue_scores_a_half_and_a_queue_at_the_threshold_0(
    params: dict[str, Any], waiting: list[float], expected: list[float]
) -> None:
    assert scores(params, waiting) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("in_flight", "expected"),
    [
        pytest.param({}, [0.5, 0.25], id="nothing in flight"),
        pytest.param({"e0": 4}, [0.3, 0.25], id="four in flight"),
        pytest.param({"e0": 40, "e1": 9}, [0.0, 0.05], id="more in flight than the threshold"),
    ],
)
def test_an_unknown_endpoint_is_scored_by_its_requests_in_flight(
    in_flight: dict[str, int], expected: list[float]
) -> None:
    assert scores({"threshold": 10}, [NAN, 5], in_flight) == pytest.approx(expected)


def test_the_scorer_ignores_running_requests_and_the_cache() -> None:
    candidates = make_candidates("a", "b", waiting=[4, 4], running=[90, 0], kv_cache_usage=[1.0, 0.0])
    plugin = LoadAwareScorer(LoadAwareScorer.Params(threshold=8))
    assert list(plugin.score(make_request(), candidates)) == [0.25, 0.25]


def keeps(params: dict[str, Any], **columns: Any) -> list[bool]:
    plugin = LoadAwareFilter(params_of(LoadAwareFilter.Params, params))
    count = len(next(iter(columns.values())))
    kept = plugin.filter(make_request(), make_candidates(*endpoints(count), **columns))
    return np.asarray(kept).tolist()


@pytest.mark.parametrize(
    ("params", "waiting", "usage", "kept"),
    [
        pytest.param({}, [0, 128, 129], [0.0, 0.0, 0.0], [True, True, False], id="queue of at most 128"),
        pytest.param({}, [0, 0, 0], [0.0, 0.8, 0.81], [True, True, False], id="cache of at most 80 percent"),
        pytest.param({}, [500, 0, 500], [0.1, 0.9, 0.9], [True, True, True], id="each over one of them is over"),
        pytest.param({}, [500, 0, 1], [0.1, 0.9, 0.2], [False, False, True], id="both must be low"),
        pytest.param({"queueThreshold": 0}, [0, 1], [0.0, 0.0], [True, False], id="no queue at all"),
        pytest.param({"kvThreshold": 0.0}, [0, 0], [0.0, 0.01], [True, False], id="an empty cache"),
        pytest.param({"kvThreshold": 1.0}, [0, 0], [1.0, 0.5], [True, True], id="any cache"),
        pytest.param({}, [0], [0.0], [True], id="a single idle one"),
        pytest.param({}, [500], [1.0], [True], id="a single overloaded one"),
    ],
)
def test_endpoints_within_both_thresholds_are_kept_or_all_if_there_are_none(
    params: dict[str, Any], waiting: list[float], usage: list[float], kept: list[bool]
) -> None:
    assert keeps(params, waiting=waiting, kv_cache_usage=usage) == kept


@pytest.mark.parametrize(
    ("waiting", "kept"),
    [
        pytest.param([NAN, 3], [False, True], id="one is known and idle"),
        pytest.param([NAN, 999], [True, True], id="the known one is overloaded"),
        pytest.param([NAN, NAN], [True, True], id="all are unknown"),
        pytest.param([NAN], [True], id="a single unknown one"),
    ],
)
def test_an_unknown_endpoint_is_kept_only_if_all_are(waiting: list[float], kept: list[bool]) -> None:
    assert keeps({}, waiting=waiting) == kept


def test_unreported_running_requests_make_no_endpoint_unknown() -> None:
    assert keeps({}, waiting=[1, 500], running=[NAN, NAN]) == [True, False]


def test_an_unreported_cache_usage_is_the_mean_of_the_others() -> None:
    assert keeps({}, waiting=[0, 0, 0], kv_cache_usage=[NAN, 0.9, 0.5]) == [True, False, True]


def test_cache_usage_that_no_endpoint_reports_removes_none() -> None:
    assert keeps({}, waiting=[0, 500], kv_cache_usage=[NAN, NAN]) == [True, False]


@pytest.mark.parametrize(
    ("params", "values"),
    [
        pytest.param(LoadAwareScorer.Params, {"threshold": 0}, id="threshold of zero"),
        pytest.param(LoadAwareScorer.Params, {"threshold": -1}, id="negative threshold"),
        pytest.param(LoadAwareScorer.Params, {"threshold": "128"}, id="threshold as text"),
        pytest.param(LoadAwareScorer.Params, {"queueThreshold": 5}, id="key of the filter"),
        pytest.param(LoadAwareFilter.Params, {"queueThreshold": -1}, id="negative queue"),
        pytest.param(LoadAwareFilter.Params, {"queueThreshold": 1.5}, id="half a request"),
        pytest.param(LoadAwareFilter.Params, {"kvThreshold": 80}, id="percent"),
        pytest.param(LoadAwareFilter.Params, {"kvThreshold": -0.1}, id="negative share"),
        pytest.param(LoadAwareFilter.Params, {"threshold": 5}, id="key of the scorer"),
    ],
)
def test_parameters_out_of_bounds_are_rejected(params: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(params, values)


def test_they_declare_the_facts_that_they_need() -> None:
    assert (LoadAwareScorer.needs, LoadAwareFilter.needs) == ((WAITING,), (WAITING, KV_CACHE_USAGE))
