"""Durations as Go writes them, which is how `EndpointPickerConfig` does."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: object) -> float:
    """Seconds of text such as `250ms`, `1.5s`, `1h30m`, `-1s`; `0` needs no unit.

    Raises `ValueError` for anything else, a number without a unit included.
    """
    if text == "0":
        return 0.0
    digits = text.removeprefix("-") if isinstance(text, str) else ""
    parts = _PART.findall(digits)
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError("expected a duration such as 250ms, 1.5s or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return -seconds if digits != text else seconds


def duration_or_seconds(value: object) -> float:
    """What a field of type duration holds: seconds as they are, text parsed."""
    return value if isinstance(value, float) else parse_duration(value)


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back."""
    if seconds and abs(seconds) < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds:g}s"
