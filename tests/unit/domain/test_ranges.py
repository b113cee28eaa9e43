"""Ranges of values to search."""

from __future__ import annotations

import pytest

from app.domain.ranges import Range, parse_range


@pytest.mark.parametrize(
    ("text", "found", "logarithmic"),
    [
        ("0.1..10", Range("a", 0.1, 10.0), True),
        ("0..5", Range("a", 0, 5), False),
        ("1..64", Range("a", 1, 64), True),
        ("1e3..5e3", Range("a", 1000.0, 5000.0), False),
        ("[true, 3, x]", Range("a", choices=["true", "3", "x"]), False),
        ("[1, 2]", Range("a", choices=[1, 2]), False),
    ],
)
def test_ranges(text: str, found: Range, logarithmic: bool) -> None:
    assert parse_range("a", text) == found
    assert parse_range("a", text).logarithmic is logarithmic


@pytest.mark.parametrize("text", ["", "1", "2..1", "1..1", "[1]", "[1, 2", "x..y", "1..1e400"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected LOW\.\.HIGH or \[VALUE, …\]|must be less"):
        parse_range("a", text)
