"""`weighted-random-picker`: how often each endpoint is picked, and the order of the rest."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.extension import Scored
from plugins.pickers.weighted_random import WeightedRandomPicker
from pointsman.testing import make_candidates, make_request
from tests.unit.plugins.given import params_of

PICKS = 20_000


class Draws:
    """Randomness with fixed numbers."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = iter(numbers)

    def random(self) -> float:
        return next(self._numbers)


def scored(*totals: float) -> Scored:
    names = [f"e{number}" for number in range(len(totals))]
    return Scored(make_candidates(*names), np.array(totals, np.float64))


def picker(most: int = 1, random: Any = None) -> WeightedRandomPicker:
    return WeightedRandomPicker(WeightedRandomPicker.Params(max_num_of_endpoints=most), random or Random(7))


def picked(plugin: WeightedRandomPicker, choice: Scored) -> tuple[str, ...]:
    return tuple(endpoint.name for endpoint in plugin.pick(make_request(), choice))


def assert_shares(counts: Counter[tuple[str, ...]], shares: dict[tuple[str, ...], float]) -> None:
    """Checks that the chi-square statistic of `counts` is at most its mean plus six standard deviations."""
    assert set(counts) <= {outcome for outcome, share in shares.items() if share}
    likely = {outcome: share for outcome, share in shares.items() if share}
    drawn = sum(counts.values())
    distance = sum((counts[outcome] - drawn * share) ** 2 / (drawn * share) for outcome, share in likely.items())
    free = len(likely) - 1
    assert distance <= free + 6 * (2 * free) ** 0.5


@pytest.mark.parametrize(
    ("totals", "shares"),
    [
        pytest.param([1, 3], [1 / 4, 3 / 4], id="one and three"),
        pytest.param([0.5, 0.25, 0.25], [1 / 2, 1 / 4, 1 / 4], id="a half and two quarters"),
        pytest.param([2, 2, 2, 2], [1 / 4, 1 / 4, 1 / 4, 1 / 4], id="all equal"),
        pytest.param([0, 1, 0, 4], [0, 1 / 5, 0, 4 / 5], id="zeros never win"),
        pytest.param([-5, 1, 1], [0, 1 / 2, 1 / 2], id="a negative one never wins"),
        pytest.param([0, 0, 0], [1 / 3, 1 / 3, 1 / 3], id="all zero"),
        pytest.param([-1, 0, -3], [1 / 3, 1 / 3, 1 / 3], id="none above zero"),
        pytest.param([1, 99], [1 / 100, 99 / 100], id="a rare one"),
        pytest.param([0.7], [1], id="a single one"),
        pytest.param([0], [1], id="a single zero"),
    ],
)
def test_endpoints_are_picked_in_proportion_to_their_totals(totals: list[float], shares: list[float]) -> None:
    plugin, choice = picker(), scored(*totals)
    counts = Counter(picked(plugin, choice) for _ in range(PICKS))
    assert_shares(counts, {(f"e{number}",): share for number, share in enumerate(shares)})


def test_the_next_ones_are_picked_in_proportion_among_the_rest() -> None:
    plugin, choice = picker(most=2), scored(1, 1, 2)
    counts = Counter(picked(plugin, choice) for _ in range(PICKS))
    assert_shares(
        counts,
        {
            ("e0", "e1"): 1 / 4 * 1 / 3,
            ("e0", "e2"): 1 / 4 * 2 / 3,
            ("e1", "e0"): 1 / 4 * 1 / 3,
            ("e1", "e2"): 1 / 4 * 2 / 3,
            ("e2", "e0"): 1 / 2 * 1 / 2,
            ("e2", "e1"): 1 / 2 * 1 / 2,
        },
    )


@pytest.mark.parametrize(
    ("totals", "draws", "winner"),
    [
        pytest.param([1, 2], [0.5, 0.3], "e1", id="0.3 to the half is more than 0.5"),
        pytest.param([1, 2], [0.5, 0.2], "e0", id="0.2 to the half is less than 0.5"),
        pytest.param([1, 20], [0.5, 0.0], "e0", id="nothing drawn is 0.32 for a total of 20"),
        pytest.param([1, 100], [0.5, 0.0], "e1", id="nothing drawn is 0.79 for a total of 100"),
        pytest.param([0, 0], [0.1, 0.9], "e1", id="zeros go by the draw alone"),
        pytest.param([0, 0.001], [0.999, 1e-9], "e1", id="a small total beats a zero whatever is drawn"),
    ],
)
def test_the_endpoint_with_the_largest_key_is_picked(totals: list[float], draws: list[float], winner: str) -> None:
    assert picked(picker(random=Draws(*draws)), scored(*totals)) == (winner,)


def test_zeros_come_last_in_random_order() -> None:
    plugin, choice = picker(most=4), scored(0, 0.1, 0, 0.9)
    orders = Counter(picked(plugin, choice) for _ in range(2000))
    assert {frozenset(order[:2]) for order in orders} == {frozenset({"e1", "e3"})}
    assert {order[2:] for order in orders} == {("e0", "e2"), ("e2", "e0")}


@pytest.mark.parametrize(
    ("most", "length"),
    [
        pytest.param(1, 1, id="one"),
        pytest.param(3, 3, id="three"),
        pytest.param(5, 5, id="all"),
        pytest.param(9, 5, id="more than there are"),
    ],
)
@pytest.mark.parametrize("totals", [pytest.param([0.0] * 5, id="zeros"), pytest.param([0, 1, 2, 0, 3], id="mixed")])
def test_as_many_as_configured_are_picked_and_none_twice(totals: list[float], most: int, length: int) -> None:
    plugin = picker(most)
    for _ in range(200):
        names = picked(plugin, scored(*totals))
        assert len(names) == len(set(names)) == length


@pytest.mark.parametrize(
    "factor", [pytest.param(factor, id=f"times {factor}") for factor in (2**-40, 0.1, 7.0, 1e9, 2.0**40)]
)
def test_only_the_ratios_of_the_totals_matter(factor: float) -> None:
    totals = [0.3, 0.0, 1.1, 2.5, 0.01]
    one, other = picker(most=5), picker(most=5)
    scaled = scored(*[total * factor for total in totals])
    for _ in range(500):
        assert picked(one, scored(*totals)) == picked(other, scaled)


def test_the_same_seed_picks_the_same_endpoints() -> None:
    one, other = picker(), picker()
    choice = scored(*[1.0] * 8)
    assert [picked(one, choice) for _ in range(50)] == [picked(other, choice) for _ in range(50)]


@pytest.mark.parametrize(
    "most", [pytest.param(0, id="none"), pytest.param(-1, id="negative"), pytest.param("2", id="text")]
)
def test_at_least_one_endpoint_is_picked(most: Any) -> None:
    with pytest.raises(ValidationError):
        params_of(WeightedRandomPicker.Params, {"maxNumOfEndpoints": most})
