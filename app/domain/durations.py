"""Durations in Go's notation, which `EndpointPickerConfig` uses."""

from __future__ import annotations

import re
from decimal import Decimal

_LONG = {"m": 60.0, "h": 3600.0}
_PER_SECOND = {"ns": 1e9, "us": 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, "ms": 1e3, "s": 1.0}
_PART_PATTERN = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)"
_PART = re.compile(_PART_PATTERN)

DURATION_PATTERN = f"^[+-]?(0|({_PART_PATTERN})+)$"
"""Pattern of the text that `parse_duration` accepts, for JSON Schema."""

DURATION_DESCRIPTION = "a duration such as 250ms, 1.5s or 1h30m"


def parse_duration(text: object) -> float:
    """Converts text such as `250ms`, `1.5s`, `1h30m` or `-1s` to seconds; only `0` needs no unit.

    Raises `ValueError` for anything else, including a number without a unit.
    """
    if text in ("0", "+0", "-0"):
        return 0.0
    digits = text[1:] if isinstance(text, str) and text[:1] in ("+", "-") else text
    parts = _PART.findall(digits) if isinstance(digits, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError(f"expected {DURATION_DESCRIPTION}")
    seconds = sum(_seconds(float(number), unit) for number, unit in parts)
    return -seconds if str(text).startswith("-") else seconds


def _seconds(number: float, unit: str) -> float:
    return number * _LONG[unit] if unit in _LONG else number / _PER_SECOND[unit]


def format_duration(seconds: float) -> str:
    """Text that `parse_duration` converts back to exactly `seconds`. Whole milliseconds below 1 s are given in `ms`."""
    exact = Decimal(repr(seconds))
    milliseconds = exact * 1000
    if seconds and abs(exact) < 1 and milliseconds == milliseconds.to_integral_value():
        return f"{int(milliseconds)}ms"
    return f"{exact.normalize():f}s"
