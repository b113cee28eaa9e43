"""Searches values of settings for the one that a replay likes best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from app.domain.ranges import Range


class TuningError(Exception):
    """The search can't be made."""


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
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)  # exceptions are raised to the caller
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: Any) -> float:
        value = measure(_sets(ranges, [_suggested(trial, one) for one in ranges]))
        progress()
        return value

    study.optimize(objective, n_trials=trials)
    return _sets(ranges, [_chosen(one, study.best_params[one.path]) for one in ranges])


def ends(ranges: Sequence[Range]) -> Iterator[Sequence[str]]:
    """The extreme values of each range, each as `path=value`."""
    for one in ranges:
        for value in one.choices or (one.low, one.high):
            yield _sets([one], [value])


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
