"""Small value classes: decisions, metrics, outcomes, requests, statuses."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from app.domain.decision import FilterStep, Scored
from app.domain.facts import FactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.outcome import Ending, Outcome
from app.domain.request import InferenceRequest
from app.domain.status import EndpointStatus
from pointsman.testing import make_candidates, make_decision, make_endpoint, make_request

METRICS = EndpointMetrics(waiting=3, running=1, engine="vllm", running_adapters=frozenset({"x"}))


def test_a_filter_step_lists_the_endpoints_it_dropped() -> None:
    step = FilterStep("labels", make_candidates("a", "b", "c"), np.array([False, True, False]))
    assert step.dropped == ("a", "c")


def test_a_decision_is_for_the_first_pick_of_its_primary_profile() -> None:
    decision = make_decision("a", "b")
    assert ([endpoint.name for endpoint in decision.endpoints], decision.endpoint.name) == (["a", "b"], "a")


def test_scored_candidates_have_a_length() -> None:
    assert len(Scored(make_candidates("a", "b"), np.zeros(2))) == 2


def test_metrics_are_updated_with_reported_fields() -> None:
    updated = METRICS.updated_by(EndpointMetrics(waiting=0, block_size=16))
    assert updated == EndpointMetrics(0, 1, engine="vllm", block_size=16, running_adapters=frozenset({"x"}))


def test_metrics_are_not_changed_by_empty_ones() -> None:
    assert METRICS.updated_by(EndpointMetrics()) == METRICS


def test_endings_are_text() -> None:
    assert [str(ending) for ending in Ending] == ["completed", "client-left", "upstream-failed"]


def test_an_outcome_is_final_by_default() -> None:
    assert Outcome(Ending.COMPLETED, 1.0).final


@pytest.mark.parametrize(
    ("prompts", "count", "tokens"),
    [
        pytest.param((), 0, 0, id="no prompt"),
        pytest.param((b"",), 0, 0, id="empty prompt"),
        pytest.param((b"abcd",), 4, 1, id="one token"),
        pytest.param((b"abcde",), 5, 2, id="rounded up"),
        pytest.param((b"a", b"b"), 2, 2, id="each rounded up"),
    ],
)
def test_a_token_is_four_bytes(prompts: tuple[bytes, ...], count: int, tokens: int) -> None:
    request = InferenceRequest("x", "/", prompts=prompts)
    assert (request.prompt_bytes, request.prompt_tokens) == (count, tokens)


def test_facts_are_attached_to_a_copy() -> None:
    key = FactKey("shape", "producer", "")
    request = make_request()
    assert (request.with_facts(Facts({key: "x"})).facts.get(key), request.facts.get(key)) == ("x", "")


def test_a_request_is_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        make_request().model = "other"  # type: ignore[misc]


def test_an_endpoint_is_initially_up_and_not_scraped() -> None:
    status = EndpointStatus(make_endpoint())
    assert (status.up, status.read_at, status.models) == (True, -math.inf, None)
