"""What was decided for a request, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Candidates, Column, Mask
from app.domain.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class PluginFault:
    """A plugin's failure that the request survived."""

    plugin: str
    extension_point: str
    cause: Exception | str
    """What it raised, or what was wrong with its answer."""


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter's work: what it was given and what it kept."""

    plugin: str
    given: Candidates
    kept: Mask

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the endpoints that the filter removed."""
        return tuple(name for name, kept in zip(self.given.names, self.kept.tolist(), strict=True) if not kept)


@dataclass(frozen=True, slots=True)
class Scored:
    """Candidates with their weighted totals, as a picker gets them."""

    candidates: Candidates
    totals: Column

    def __len__(self) -> int:
        return len(self.candidates)


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """What one profile's run gave. `endpoints` is empty when the filters left none."""

    profile: str
    endpoints: tuple[Endpoint, ...]
    """Picked, best first."""
    filters: tuple[FilterStep, ...]
    scored: Scored
    scorers: tuple[str, ...]
    weights: Column
    scores: NDArray[np.float64]
    """One row per scorer, one column per candidate, each in [0, 1] before weighting."""
    faults: tuple[PluginFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request goes: the primary profile's endpoints, and every profile's result."""

    primary: str
    """Name of the profile whose pick is the destination."""
    results: Mapping[str, ProfileResult] = field(default_factory=dict)
    """By profile name, in the order they ran."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Destinations, best first."""
        return self.results[self.primary].endpoints

    @property
    def endpoint(self) -> Endpoint:
        """The destination."""
        return self.endpoints[0]
