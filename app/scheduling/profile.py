"""One profile: filters narrow, scorers weigh, the picker chooses."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Candidates, Column, Mask
from app.domain.decision import FilterStep, PluginFault, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.errors import PluginError
from app.domain.request import InferenceRequest
from app.extension.scheduling import Filter, Picker, Scorer

P = TypeVar("P")

Matrix = NDArray[np.float64]

_UNKNOWN = object()

FEW = 32
"""Numbers that are looked at faster one by one than by numpy."""


class Named(NamedTuple, Generic[P]):
    """A plugin under its instance name."""

    name: str
    plugin: P


class _Last(NamedTuple):
    """What a profile's scorers said last."""

    answers: list[object]
    """Per scorer the array, if it is read-only and holds scores."""
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
        self._last = _Last([_UNKNOWN] * len(scorers), np.zeros((len(scorers), 0)))

    def run(self, request: InferenceRequest, candidates: Candidates) -> ProfileResult:
        """Filters, scores and picks among `candidates`.

        Raises `PluginError` when a filter or the picker fails. A scorer that fails counts as 0 for all.
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
            kept = _answer_of_filter(name, plugin, request, candidates)
            steps.append(FilterStep(name, candidates, kept))
            if not kept.all():
                candidates = candidates.where(kept)
        return candidates, tuple(steps)

    def _score(self, request: InferenceRequest, candidates: Candidates) -> tuple[Matrix, tuple[PluginFault, ...]]:
        """A scorer that answers with the same read-only array as last time is taken to have the same scores."""
        count = len(candidates)
        last = self._last
        if last.scores.shape[1] != count:
            last = _Last([_UNKNOWN] * len(self._scorers), np.zeros((len(self._scorers), count)))
        if not count:
            return last.scores, ()
        scores, answers = last.scores.copy(), last.answers.copy()
        faults: list[PluginFault] = []
        for row, (name, plugin) in enumerate(self._scorers):
            try:
                answer = plugin.score(request, candidates)
                if answer is not answers[row]:
                    scores[row] = column = _one_each(answer, count)
                    in_range = _are_scores(column)
                    answers[row] = column if in_range and not column.flags.writeable else _UNKNOWN
                    if not in_range:
                        _clamp(scores[row], name, faults)
            except Exception as error:  # noqa: BLE001 - a scorer's failure never fails a request
                scores[row] = 0.0
                answers[row] = _UNKNOWN
                faults.append(PluginFault(name, "Scorer", error))
        self._last = _Last(answers, scores)
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


def _answer_of_filter(name: str, plugin: Filter, request: InferenceRequest, candidates: Candidates) -> Mask:
    try:
        return np.asarray(_one_each(plugin.filter(request, candidates), len(candidates)), np.bool_)
    except Exception as error:
        raise PluginError(name, error) from error


def _one_each(answer: Sequence[float] | NDArray[np.float64] | NDArray[np.bool_], count: int) -> NDArray:  # type: ignore[type-arg]
    array = answer if type(answer) is np.ndarray else np.asarray(answer)
    if array.shape != (count,):
        message = f"it answered with shape {array.shape} for {count} candidates"
        raise ValueError(message)
    return array


def _are_scores(column: NDArray[np.float64]) -> bool:
    """Whether all are within [0, 1]; NaN is not."""
    if len(column) > FEW:
        return bool(column.min() >= 0.0 and column.max() <= 1.0)
    scores = column.tolist()
    return min(scores) >= 0.0 and max(scores) <= 1.0 and not isnan(sum(scores))


def _clamp(scores: NDArray[np.float64], name: str, faults: list[PluginFault]) -> None:
    """Puts scores within [0, 1], in place; NaN counts as 0."""
    if np.isnan(scores).any():
        faults.append(PluginFault(name, "Scorer", "it scored NaN"))
        np.nan_to_num(scores, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
    np.clip(scores, 0.0, 1.0, out=scores)
