"""The scheduling decision for a request, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Candidates, Column, Mask
from app.domain.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class PluginFault:
    """A plugin failure that did not fail the request."""

    plugin: str
    extension_point: str
    cause: Exception | str
    """The exception it raised, or what was wrong with its result."""


@dataclass(frozen=True, slots=True)
class FilterStep:
    """The input and output of one filter."""

    plugin: str
    given: Candidates
    kept: Mask

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the endpoints that the filter removed."""
        return tuple(name for name, kept in zip(self.given.names, self.kept.tolist(), strict=True) if not kept)


@dataclass(frozen=True, slots=True)
class Scored:
    """Candidates with their weighted total scores, the input of a picker."""

    candidates: Candidates
    totals: Column

    def __len__(self) -> int:
        return len(self.candidates)


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """The result of running one profile. `endpoints` is empty if the filters removed all candidates."""

    profile: str
    endpoints: tuple[Endpoint, ...]
    """The picked endpoints, best first."""
    filters: tuple[FilterStep, ...]
    scored: Scored
    scorers: tuple[str, ...]
    weights: Column
    scores: NDArray[np.float64]
    """One row per scorer and one column per candidate, each score in [0, 1] before weighting."""
    faults: tuple[PluginFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The destination of a request: the endpoints of the primary profile, and the results of all profiles."""

    primary: str
    """Name of the profile that picks the destination."""
    results: Mapping[str, ProfileResult] = field(default_factory=dict)
    """Results by profile name, in the order in which the profiles ran."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Destinations, best first."""
        return self.results[self.primary].endpoints

    @property
    def endpoint(self) -> Endpoint:
        """The destination."""
        return self.endpoints[0]
