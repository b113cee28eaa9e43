"""Durations in Go's notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("1ns", 1e-9),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1\u03bcs", 1e-6),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("1.s", 1.0),
        (".5s", 0.5),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h1m1s1ms", 3661.001),
        ("-1s", -1.0),
        ("+1s", 1.0),
        ("-1h30m", -5400.0),
    ],
)
def test_a_duration_is_parsed_as_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("5", id="no unit"),
        pytest.param("s", id="no number"),
        pytest.param("-", id="only a sign"),
        pytest.param("--1s", id="two signs"),
        pytest.param("1 s", id="space between"),
        pytest.param(" 1s", id="space before"),
        pytest.param("1s\n", id="line end"),
        pytest.param("1d", id="no such unit"),
        pytest.param("1S", id="upper case"),
        pytest.param("1e3s", id="exponent"),
        pytest.param("1s2", id="half a part"),
        pytest.param("1,5s", id="comma"),
        pytest.param("\u0661s", id="digits of another script"),
        pytest.param(5, id="number"),
        pytest.param(True, id="boolean"),
        pytest.param(None, id="nothing"),
        pytest.param(["1s"], id="list"),
    ],
)
def test_anything_else_is_not_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.25, "250ms"), (1.0, "1s"), (1.5, "1.5s"), (60.0, "60s"), (-0.5, "-500ms"), (-2.0, "-2s")],
)
def test_a_duration_is_formatted_briefly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(1_080_000.0, id="three hundred hours"),
        pytest.param(100_000.5, id="over a day and a half second"),
        pytest.param(1e-9, id="a nanosecond"),
        pytest.param(0.123_456_789, id="nine digits"),
    ],
)
def test_a_formatted_duration_is_parsed_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-9)


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_any_formatted_duration_is_parsed_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-9)
