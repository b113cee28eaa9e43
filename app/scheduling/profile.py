"""One profile: filters narrow, scorers weigh, the picker chooses."""

from __future__ import annotations

from collections.abc import Sequence
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


class Named(NamedTuple, Generic[P]):
    """A plugin under its instance name."""

    name: str
    plugin: P


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

    def _score(
        self, request: InferenceRequest, candidates: Candidates
    ) -> tuple[NDArray[np.float64], tuple[PluginFault, ...]]:
        scores = np.zeros((len(self._scorers), len(candidates)))
        if not len(candidates):
            return scores, ()
        faults: list[PluginFault] = []
        for row, (name, plugin) in enumerate(self._scorers):
            try:
                scores[row] = _one_each(plugin.score(request, candidates), len(candidates))
            except Exception as error:  # noqa: BLE001 - a scorer's failure never fails a request
                scores[row] = 0.0
                faults.append(PluginFault(name, "Scorer", error))
        return _clamp(scores, self._scorer_names, faults), tuple(faults)

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
    array = np.asarray(answer)
    if array.shape != (count,):
        message = f"it answered with shape {array.shape} for {count} candidates"
        raise ValueError(message)
    return array


def _clamp(scores: NDArray[np.float64], names: tuple[str, ...], faults: list[PluginFault]) -> NDArray[np.float64]:
    """Scores within [0, 1]: most are already, and NaN is in no range."""
    lowest = np.minimum.reduce(scores, axis=None, initial=0.0)
    highest = np.maximum.reduce(scores, axis=None, initial=0.0)
    if lowest >= 0 and highest <= 1:
        return scores
    if np.isnan(scores).any():
        rows = np.flatnonzero(np.isnan(scores).any(axis=1)).tolist()
        faults += [PluginFault(names[row], "Scorer", "it scored NaN") for row in rows]
        np.nan_to_num(scores, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
    np.maximum(scores, 0.0, out=scores)
    np.minimum(scores, 1.0, out=scores)
    return scores
