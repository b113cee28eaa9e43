from pathlib import Path
from typing import Any

import pytest
from pointsman_cheapest import CheapestScorer

from pointsman.testing import check_scorer, make_candidates, make_endpoint, make_request


def scores(*prices: str, **parameters: object) -> list[float]:
    scorer = CheapestScorer(CheapestScorer.Params(**parameters))
    endpoints = [make_endpoint(f"e{n}", labels={"price": price}) for n, price in enumerate(prices)]
    return list(scorer.score(make_request(), make_candidates(*endpoints)))


def test_it_keeps_the_contract_of_a_scorer() -> None:
    check_scorer(CheapestScorer(CheapestScorer.Params()))


def test_the_cheapest_scores_1_and_the_most_expensive_0() -> None:
    assert scores("2", "6", "3") == [1, 0, 0.75]


def test_the_same_price_has_the_same_score() -> None:
    assert scores("2", "2.0") == [1, 1]


@pytest.mark.parametrize("text", ["", "cheap", "nan", "inf"])
def test_an_invalid_price_is_the_default_price(text: str) -> None:
    assert scores("1", text, "5", default_price=3) == [1, 0.5, 0]


@pytest.fixture
def pointsman_config() -> list[str]:
    return ["builtin:default", str(Path(__file__).with_name("cheapest.yaml"))]


def test_the_configured_plugin_makes_the_cheap_endpoint_win(pointsman_container: Any) -> None:
    expensive = make_endpoint("expensive", labels={"cost": "2"})
    cheap = make_endpoint("cheap", labels={"cost": "1"})
    scheduler = pointsman_container.scheduler()
    assert scheduler.schedule(make_request(), make_candidates(expensive, cheap)).endpoint is cheap
