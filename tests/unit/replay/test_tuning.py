"""The search for values."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.ranges import parse_range
from app.replay.tuning import ends, search


def test_the_best_values_are_found() -> None:
    tried: list[Sequence[str]] = []

    def measure(sets: Sequence[str]) -> float:
        tried.append(sets)
        values = dict(one.split("=") for one in sets)
        return abs(float(values["x"]) - 3.0) + (values["y"] != '"b"') + abs(int(values["z"]) - 7)

    ranges = [parse_range("x", "0.0..6.0"), parse_range("y", '["a", "b"]'), parse_range("z", "5..9")]
    steps: list[int] = []
    best = search(ranges, measure, trials=60, seed=3, progress=lambda: steps.append(1))
    assert measure(best) < 0.5
    assert (len(tried), len(steps)) == (61, 60)
    assert best == search(ranges, measure, trials=60, seed=3, progress=lambda: None)


def test_the_extreme_values_can_be_tried_before_a_search() -> None:
    ranges = [parse_range("x", "0.5..6"), parse_range("y", "[a, 2]")]
    assert list(ends(ranges)) == [["x=0.5"], ["x=6"], ['y="a"'], ['y="2"']]
