"""One profile: filters narrow the candidates, scorers rate them, the picker chooses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Candidates, Column, Mask
from app.domain.decision import FilterStep, PluginFault, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.errors import PluginError
from app.domain.named import Named
from app.domain.request import InferenceRequest
from app.extension.scheduling import Filter, Keep, Picker, Scorer, Scores

Matrix = NDArray[np.float64]

FEW = 32
"""Up to this many scores, plain Python checks them faster than numpy."""

_NOT_CACHED = object()

_BOOL = np.dtype(np.bool_)


class _Previous(NamedTuple):
    """The scores of a profile's last request."""

    arrays: list[object]
    """The array that each scorer returned, if it can be recognised and its scores reused."""
    scores: Matrix


class Profile:
    """A named set of filters, weighted scorers and one picker."""

    def __init__(
        self,
        name: str,
        *,
        filters: Sequence[Named[Filter]],
        scorers: Sequence[Named[Scorer]],
        weights: Sequence[float],
        picker: Named[Picker],
    ) -> None:
        self.name = name
        self._filters = tuple(filters)
        self._scorers = tuple(scorers)
        self._scorer_names = tuple(scorer.name for scorer in scorers)
        self._weights: Column = np.array(weights, np.float64)
        self._picker = picker
        self._previous = _Previous([_NOT_CACHED] * len(scorers), np.zeros((len(scorers), 0)))

    def run(self, request: InferenceRequest, candidates: Candidates) -> ProfileResult:
        """Filters and scores `candidates`, then picks.

        Raises `PluginError` when a filter or the picker fails. A scorer that fails gives every candidate 0.
        """
        left, steps = self._narrow(request, candidates)
        scores, faults = self._score(request, left)
        scored = Scored(left, self._weights @ scores)
        endpoints = self._pick(request, scored) if len(left) else ()
        return ProfileResult(self.name, endpoints, steps, scored, self._scorer_names, self._weights, scores, faults)

    def _narrow(self, request: InferenceRequest, candidates: Candidates) -> tuple[Candidates, tuple[FilterStep, ...]]:
        steps = []
        for name, plugin in self._filters:
            if not len(candidates):
                break
            kept = _mask_of(name, plugin, request, candidates)
            steps.append(FilterStep(name, candidates, kept))
            if not kept.all():
                candidates = candidates.where(kept)
        return candidates, tuple(steps)

    def _score(self, request: InferenceRequest, candidates: Candidates) -> tuple[Matrix, tuple[PluginFault, ...]]:
        """One row of scores per scorer.

        A scorer that returns the same read-only array again has its row reused, without another check.
        """
        count = len(candidates)
        previous = self._previous
        if previous.scores.shape[1] != count:
            previous = _Previous([_NOT_CACHED] * len(self._scorers), np.zeros((len(self._scorers), count)))
        if not count:
            return previous.scores, ()
        scores, arrays = previous.scores.copy(), previous.arrays.copy()
        faults: list[PluginFault] = []
        for row, (name, plugin) in enumerate(self._scorers):
            try:
                returned = plugin.score(request, candidates)
                if returned is not arrays[row]:
                    scores[row] = column = _one_each(returned, count)
                    in_range = _are_in_range(column)
                    arrays[row] = column if in_range and _never_changes(column) else _NOT_CACHED
                    if not in_range:
                        _clamp(scores[row], name, faults)
            except Exception as error:  # noqa: BLE001 - a scorer's failure never fails a request
                scores[row] = 0.0
                arrays[row] = _NOT_CACHED
                faults.append(PluginFault(name, "Scorer", error))
        self._previous = _Previous(arrays, scores)
        return scores, tuple(faults)

    def _pick(self, request: InferenceRequest, scored: Scored) -> tuple[Endpoint, ...]:
        name, picker = self._picker
        try:
            picked = tuple(picker.pick(request, scored))
        except Exception as error:
            raise PluginError(name, error) from error
        if not picked:
            raise PluginError(name, "it picked no endpoint")
        for endpoint in picked:
            if endpoint not in scored.candidates:
                raise PluginError(name, f"it picked {endpoint!r}, which is no candidate")
        return picked


def _mask_of(name: str, plugin: Filter, request: InferenceRequest, candidates: Candidates) -> Mask:
    try:
        return _booleans(plugin.filter(request, candidates), len(candidates))
    except Exception as error:
        raise PluginError(name, error) from error


def _booleans(returned: Keep, count: int) -> Mask:
    """A filter's return value as an array of `count` booleans. Raises `TypeError` or `ValueError`."""
    array = returned if type(returned) is np.ndarray else np.asarray(returned)
    if array.dtype != _BOOL and array.size:
        message = f"it returned {_kinds_of(returned, array)}; a filter returns one boolean per candidate"
        raise TypeError(message)
    return _one_each(array, count)


def _kinds_of(returned: object, array: NDArray[Any]) -> str:
    """What a filter returned in place of booleans."""
    if array.ndim == 0 or not isinstance(returned, Iterable):
        return "None" if returned is None else f"an object of type {type(returned).__name__}"
    kinds = {type(value).__name__ for value in returned if not isinstance(value, bool | np.bool_)}
    return f"{' and '.join(sorted(kinds))} values"


def _one_each(returned: Scores | Keep, count: int) -> NDArray[Any]:
    array = returned if type(returned) is np.ndarray else np.asarray(returned)
    if array.shape != (count,):
        values = f"{array.size} value{'s' * (array.size != 1)}"
        found = values if array.ndim == 1 else f"an array of shape {array.shape}"
        message = f"it returned {found} for {count} candidates"
        raise ValueError(message)
    return array


def _never_changes(column: NDArray[Any]) -> bool:
    """Whether the array is read-only and no view of another one, whose owner might still write to it."""
    return column.base is None and not column.flags.writeable


def _are_in_range(column: NDArray[np.float64]) -> bool:
    """Whether every score is within [0, 1]; NaN is not."""
    if len(column) > FEW:
        return bool(column.min() >= 0.0 and column.max() <= 1.0)
    scores = column.tolist()
    return min(scores) >= 0.0 and max(scores) <= 1.0 and not isnan(sum(scores))


def _clamp(scores: NDArray[np.float64], name: str, faults: list[PluginFault]) -> None:
    """Clamps scores to [0, 1], in place; NaN counts as 0 and is a fault."""
    if np.isnan(scores).any():
        faults.append(PluginFault(name, "Scorer", "it scored NaN"))
        np.nan_to_num(scores, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
    np.clip(scores, 0.0, 1.0, out=scores)
