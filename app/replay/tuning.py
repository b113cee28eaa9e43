"""Searches values of settings for the one that a replay likes best."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")

WIDE = 10.0
"""A range of positive numbers whose end is more than this many times its beginning is searched on a logarithmic
scale."""


class TuningError(Exception):
    """The search can't be made."""


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


def parse_range(text: str) -> Range:
    """`path=0.1..10`, `path=1..64` (whole numbers) or `path=[a, b]`. Raises `ValueError`."""
    path, equals, value = text.partition("=")
    expected = f"{text}: expected PATH=LOW..HIGH or PATH=[VALUE, …]"
    if not equals or not path.strip():
        raise ValueError(expected)
    value = value.strip()
    if value.startswith("["):
        return Range(path, choices=_choices(value, expected))
    found = _RANGE.fullmatch(value)
    if found is None:
        raise ValueError(f"{expected}, found {value!r}")
    low, high = (_number(end) for end in found.groups())
    if low >= high:
        raise ValueError(f"{text}: the first number must be less than the second")
    return Range(path, low, high)


def _number(text: str) -> float:
    return float(text) if set(text) & set(".eE") else int(text)


def _choices(text: str, expected: str) -> Sequence[object]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if not isinstance(found, list) or not text.endswith("]") or len(found) < 2:  # noqa: PLR2004 - one is no choice
        raise ValueError(f"{expected}, at least two values, found {text!r}")
    return found


def search(
    ranges: Sequence[Range],
    measure: Callable[[Sequence[str]], float],
    *,
    trials: int,
    seed: int,
    progress: Callable[[], None],
) -> Sequence[str]:
    """The values, each as `path=value`, for which `measure` was least. The same seed gives the same result.

    Raises `TuningError` if optuna is missing.
    """
    try:
        import optuna  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise TuningError("tuning needs optuna: pip install 'pointsman[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: Any) -> float:
        value = measure(_sets(ranges, [_suggested(trial, one) for one in ranges]))
        progress()
        return value

    study.optimize(objective, n_trials=trials)
    return _sets(ranges, [_chosen(one, study.best_params[one.path]) for one in ranges])


def _suggested(trial: Any, one: Range) -> object:
    if one.choices:
        return one.choices[trial.suggest_categorical(one.path, list(range(len(one.choices))))]
    if one.whole:
        return trial.suggest_int(one.path, one.low, one.high, log=one.logarithmic)
    return trial.suggest_float(one.path, one.low, one.high, log=one.logarithmic)


def _chosen(one: Range, found: Any) -> object:
    return one.choices[found] if one.choices else found


def _sets(ranges: Sequence[Range], values: Sequence[object]) -> Sequence[str]:
    return [f"{one.path}={_written(value)}" for one, value in zip(ranges, values, strict=True)]


def _written(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else orjson.dumps(value).decode()
