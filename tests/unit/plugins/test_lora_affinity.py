"""`lora-affinity-scorer`: endpoints that run an adapter, have room for it, or have it waiting."""

from __future__ import annotations

from typing import Any

import pytest

from app.extension import ACTIVE_ADAPTERS, WAITING_ADAPTERS, EndpointMetrics
from plugins.scorers.lora_affinity import LoraAffinityScorer
from pointsman.testing import make_candidates, make_request


def adapters(running: str = "", waiting: str = "", most: int = 4) -> EndpointMetrics:
    return EndpointMetrics(
        waiting=0.0,
        running_adapters=frozenset(running.split()),
        waiting_adapters=frozenset(waiting.split()),
        max_adapters=most,
    )


def score(metrics: EndpointMetrics | None, **fields: Any) -> float:
    candidates = make_candidates("a", metrics=[metrics])
    (found,) = LoraAffinityScorer().score(make_request(**{"model": "sql", **fields}), candidates)
    return found


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        pytest.param(adapters("sql"), 1.0, id="running"),
        pytest.param(adapters("sql chat", "math"), 1.0, id="running among others"),
        pytest.param(adapters("sql", most=1), 1.0, id="running and no room"),
        pytest.param(adapters("sql", "sql", most=1), 1.0, id="running and waiting"),
        pytest.param(adapters(), 0.8, id="none loaded"),
        pytest.param(adapters("chat", "math", most=3), 0.8, id="room for one more"),
        pytest.param(adapters("chat", "sql", most=3), 0.8, id="waiting and room"),
        pytest.param(adapters("chat", "sql", most=2), 0.6, id="waiting and no room"),
        pytest.param(adapters("", "sql", most=1), 0.6, id="waiting alone for the only slot"),
        pytest.param(adapters("chat", "math", most=2), 0.0, id="full of others"),
        pytest.param(adapters("chat math code", most=2), 0.0, id="more than fit"),
        pytest.param(adapters("sql-2 sq", most=2), 0.0, id="names with the same prefix"),
        pytest.param(EndpointMetrics(waiting=0.0), 0.0, id="reports no adapters"),
        pytest.param(None, 0.0, id="no metrics"),
    ],
)
def test_the_score_depends_on_the_adapter_s_state(metrics: EndpointMetrics | None, expected: float) -> None:
    assert score(metrics) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"model": "base", "adapter": "sql"}, 1.0, id="adapter and model"),
        pytest.param({"model": "sql", "adapter": "math"}, 0.0, id="adapter and a model that is loaded as an adapter"),
        pytest.param({"model": "sql", "adapter": None}, 1.0, id="no adapter"),
        pytest.param({"model": "sql", "adapter": ""}, 1.0, id="empty adapter"),
        pytest.param({"model": "base"}, 0.0, id="model that is no adapter"),
        pytest.param({"model": ""}, 0.0, id="no model"),
    ],
)
def test_the_request_s_adapter_takes_precedence_over_its_model(fields: dict[str, Any], expected: float) -> None:
    assert score(adapters("sql", most=1), **fields) == expected


def test_scores_are_in_the_order_of_the_candidates() -> None:
    metrics = [adapters("chat", most=1), adapters("sql"), None, adapters("chat", "sql", most=2), adapters("chat")]
    candidates = make_candidates(*"abcde", metrics=metrics)
    assert list(LoraAffinityScorer().score(make_request(model="sql"), candidates)) == [0.0, 1.0, 0.0, 0.6, 0.8]


def test_it_declares_that_it_needs_the_adapters() -> None:
    assert LoraAffinityScorer.needs == (ACTIVE_ADAPTERS, WAITING_ADAPTERS)
