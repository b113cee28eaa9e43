"""What values a search may try for a setting."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")

EXPECTED = "expected LOW..HIGH or [VALUE, …]"

WIDE = 10.0
"""A range of positive numbers whose end is more than this many times its beginning is searched on a logarithmic
scale."""


@dataclass(frozen=True, slots=True)
class Range:
    """What values a setting may have: from `low` to `high`, or one of `choices`."""

    path: str
    """As in `--set`."""
    low: float = 0.0
    high: float = 0.0
    choices: Sequence[object] = ()

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are searched."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def logarithmic(self) -> bool:
        """Whether ratios matter rather than differences."""
        return 0 < self.low * WIDE < self.high


def parse_range(path: str, text: str) -> Range:
    """`0.1..10`, `1..64` (whole numbers) or `[a, b]`, for the setting at `path`. Raises `ValueError`."""
    text = text.strip()
    if text.startswith("["):
        return Range(path, choices=_choices(text))
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{EXPECTED}, found {text!r}")
    low, high = (_number(end) for end in found.groups())
    if not low < high < math.inf:
        raise ValueError(f"the first number must be less than the second, found {text!r}")
    return Range(path, low, high)


def _number(text: str) -> float:
    return float(text) if set(text) & set(".eE") else int(text)


def _choices(text: str) -> Sequence[object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if not isinstance(found, list) or not text.endswith("]") or len(found) < 2:  # noqa: PLR2004 - one is no choice
        raise ValueError(f"{EXPECTED} with at least two values, found {text!r}")
    return found
