"""The search for values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.replay.tuning import Range, parse_range, search


@pytest.mark.parametrize(
    ("text", "found", "logarithmic"),
    [
        ("a.b=0.1..10", Range("a.b", 0.1, 10.0), True),
        ("plugins[x].weight=0..5", Range("plugins[x].weight", 0, 5), False),
        ("a=1..64", Range("a", 1, 64), True),
        ("a=1e3..5e3", Range("a", 1000.0, 5000.0), False),
        ("a=[true, 3, x]", Range("a", choices=["true", "3", "x"]), False),
        ("a=[1, 2]", Range("a", choices=[1, 2]), False),
    ],
)
def test_ranges(text: str, found: Range, logarithmic: bool) -> None:
    assert parse_range(text) == found
    assert parse_range(text).logarithmic is logarithmic


@pytest.mark.parametrize("text", ["a", "a=", "=1..2", "a=1", "a=2..1", "a=1..1", "a=[1]", "a=[1, 2", "a=x..y"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected PATH=LOW|must be less"):
        parse_range(text)


def test_the_best_values_are_found() -> None:
    tried: list[Sequence[str]] = []

    def measure(sets: Sequence[str]) -> float:
        tried.append(sets)
        values = dict(one.split("=") for one in sets)
        return abs(float(values["x"]) - 3.0) + (values["y"] != '"b"') + abs(int(values["z"]) - 7)

    ranges = [parse_range("x=0.0..6.0"), parse_range('y=["a", "b"]'), parse_range("z=5..9")]
    steps: list[int] = []
    best = search(ranges, measure, trials=60, seed=3, progress=lambda: steps.append(1))
    assert measure(best) < 0.5
    assert (len(tried), len(steps)) == (61, 60)
    assert best == search(ranges, measure, trials=60, seed=3, progress=lambda: None)
