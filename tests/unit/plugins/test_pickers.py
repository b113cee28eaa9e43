"""Pickers: the endpoints that they pick, and how evenly ties are broken."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.extension import Scored
from plugins.pickers.max_score import MaxScorePicker
from plugins.pickers.random import RandomPicker
from pointsman.testing import make_candidates, make_request
from tests.unit.plugins.given import params_of

if TYPE_CHECKING:
    from collections.abc import Sequence

PICKS = 10_000


def scored(*totals: float) -> Scored:
    names = [f"e{number}" for number in range(len(totals))]
    return Scored(make_candidates(*names), np.array(totals, np.float64))


def picker(kind: type[MaxScorePicker | RandomPicker], most: int = 1, seed: int = 7) -> Any:
    return kind(kind.Params(max_num_of_endpoints=most), Random(seed))


def picked(plugin: Any, choice: Scored) -> list[str]:
    return [endpoint.name for endpoint in plugin.pick(make_request(), choice)]


def unevenness(counts: Sequence[int]) -> float:
    """The chi-square statistic of counts that should be equal."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


def bound(size: int) -> float:
    """The mean of the chi-square distribution plus six standard deviations."""
    return size - 1 + 6 * (2 * (size - 1)) ** 0.5


@pytest.mark.parametrize(
    ("totals", "winner"),
    [
        pytest.param([0.1, 0.9, 0.5], "e1", id="in the middle"),
        pytest.param([0.9, 0.1], "e0", id="first"),
        pytest.param([0.0, 0.0, 1e-12], "e2", id="by very little"),
        pytest.param([-3.0, -1.0, -2.0], "e1", id="all negative"),
        pytest.param([0.0], "e0", id="a single one"),
    ],
)
def test_the_highest_total_wins(totals: list[float], winner: str) -> None:
    assert picked(picker(MaxScorePicker), scored(*totals)) == [winner]


@pytest.mark.parametrize("size", range(1, 17))
def test_a_tie_for_the_maximum_is_broken_evenly(size: int) -> None:
    plugin, choice = picker(MaxScorePicker), scored(0.2, *[0.8] * size)
    counts = Counter(picked(plugin, choice)[0] for _ in range(PICKS))
    assert "e0" not in counts
    assert unevenness([counts[f"e{number}"] for number in range(1, size + 1)]) <= bound(size)


@pytest.mark.parametrize("size", range(1, 17))
def test_a_tie_for_the_first_of_several_endpoints_is_broken_evenly(size: int) -> None:
    plugin, choice = picker(MaxScorePicker, most=2), scored(*[0.8] * size)
    counts = Counter(picked(plugin, choice)[0] for _ in range(PICKS))
    assert unevenness([counts[f"e{number}"] for number in range(size)]) <= bound(size)


@pytest.mark.parametrize("size", range(1, 17))
def test_the_random_picker_ignores_the_totals(size: int) -> None:
    plugin, choice = picker(RandomPicker), scored(*range(size))
    counts = Counter(picked(plugin, choice)[0] for _ in range(PICKS))
    assert unevenness([counts[f"e{number}"] for number in range(size)]) <= bound(size)


@pytest.mark.parametrize(
    ("most", "names"),
    [
        pytest.param(2, ["e2", "e0"], id="two"),
        pytest.param(3, ["e2", "e0", "e3"], id="three"),
        pytest.param(4, ["e2", "e0", "e3", "e1"], id="all"),
        pytest.param(9, ["e2", "e0", "e3", "e1"], id="more than there are"),
    ],
)
def test_endpoints_are_in_order_of_their_totals(most: int, names: list[str]) -> None:
    assert picked(picker(MaxScorePicker, most), scored(0.7, 0.1, 0.9, 0.3)) == names


def test_ties_stay_between_higher_and_lower_totals() -> None:
    plugin = picker(MaxScorePicker, most=4)
    orders = {tuple(picked(plugin, scored(0.5, 0.9, 0.5, 0.1))) for _ in range(100)}
    assert orders == {("e1", "e0", "e2", "e3"), ("e1", "e2", "e0", "e3")}


@pytest.mark.parametrize(
    ("most", "length"),
    [pytest.param(1, 1, id="one"), pytest.param(3, 3, id="three"), pytest.param(9, 4, id="more than there are")],
)
def test_the_random_picker_picks_as_many_as_configured_and_none_twice(most: int, length: int) -> None:
    names = picked(picker(RandomPicker, most), scored(0, 0, 0, 0))
    assert len(names) == len(set(names)) == length


def test_the_same_seed_picks_the_same_endpoints() -> None:
    one, other = picker(MaxScorePicker), picker(MaxScorePicker)
    choice = scored(*[1.0] * 8)
    assert [picked(one, choice) for _ in range(50)] == [picked(other, choice) for _ in range(50)]


@pytest.mark.parametrize("kind", [MaxScorePicker, RandomPicker])
@pytest.mark.parametrize(
    "most", [pytest.param(0, id="none"), pytest.param(-1, id="negative"), pytest.param("2", id="text")]
)
def test_at_least_one_endpoint_is_picked(kind: Any, most: Any) -> None:
    with pytest.raises(ValidationError):
        params_of(kind.Params, {"maxNumOfEndpoints": most})


def test_ties_are_broken_among_few_candidates_and_among_many() -> None:
    for count in (4, 64, 65, 200):
        candidates = make_candidates(*(f"e{number}" for number in range(count)))
        totals = np.zeros(count)
        totals[[1, count - 1]] = 1.0
        plugin = MaxScorePicker(MaxScorePicker.Params(), Random(1))
        picked = {plugin.pick(make_request(), Scored(candidates, totals))[0].name for _ in range(50)}
        assert picked == {"e1", f"e{count - 1}"}
