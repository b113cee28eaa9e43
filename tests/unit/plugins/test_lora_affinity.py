"""`lora-affinity-scorer`: who has an adapter, who has room for it, where it waits."""

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
        pytest.param(adapters("sql"), 1.0, id="it runs"),
        pytest.param(adapters("sql chat", "math"), 1.0, id="it runs among others"),
        pytest.param(adapters("sql", most=1), 1.0, id="it runs and there is no room"),
        pytest.param(adapters("sql", "sql", most=1), 1.0, id="it runs and waits"),
        pytest.param(adapters(), 0.8, id="nothing is loaded"),
        pytest.param(adapters("chat", "math", most=3), 0.8, id="room for one more"),
        pytest.param(adapters("chat", "sql", most=3), 0.8, id="it waits where there is room"),
        pytest.param(adapters("chat", "sql", most=2), 0.6, id="it waits where there is none"),
        pytest.param(adapters("", "sql", most=1), 0.6, id="it waits alone for the only place"),
        pytest.param(adapters("chat", "math", most=2), 0.0, id="full of others"),
        pytest.param(adapters("chat math code", most=2), 0.0, id="more than fit"),
        pytest.param(adapters("sql-2 sq", most=2), 0.0, id="names that only begin alike"),
        pytest.param(EndpointMetrics(waiting=0.0), 0.0, id="reports no adapters"),
        pytest.param(None, 0.0, id="not known at all"),
    ],
)
def test_an_adapter_s_state_is_the_score(metrics: EndpointMetrics | None, expected: float) -> None:
    assert score(metrics) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"model": "base", "adapter": "sql"}, 1.0, id="beside the model"),
        pytest.param({"model": "sql", "adapter": "math"}, 0.0, id="beside a model that is loaded as an adapter"),
        pytest.param({"model": "sql", "adapter": None}, 1.0, id="in the model's place"),
        pytest.param({"model": "sql", "adapter": ""}, 1.0, id="empty beside the model"),
        pytest.param({"model": "base"}, 0.0, id="none"),
        pytest.param({"model": ""}, 0.0, id="no model either"),
    ],
)
def test_the_adapter_named_beside_the_model_counts_first(fields: dict[str, Any], expected: float) -> None:
    assert score(adapters("sql", most=1), **fields) == expected


def test_each_candidate_is_scored_in_its_order() -> None:
    metrics = [adapters("chat", most=1), adapters("sql"), None, adapters("chat", "sql", most=2), adapters("chat")]
    candidates = make_candidates(*"abcde", metrics=metrics)
    assert list(LoraAffinityScorer().score(make_request(model="sql"), candidates)) == [0.0, 1.0, 0.0, 0.6, 0.8]


def test_it_says_that_it_needs_the_adapters() -> None:
    assert LoraAffinityScorer.needs == (ACTIVE_ADAPTERS, WAITING_ADAPTERS)
