"""The extension points of scheduling, in the order in which they are called. All are synchronous and pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from app.domain.candidates import Candidates
from app.domain.decision import Decision, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.request import InferenceRequest

Keep = Sequence[bool] | NDArray[np.bool_]
"""One boolean per candidate, in their order: whether it stays."""

Scores = Sequence[float] | NDArray[np.float64]
"""One number in [0, 1] per candidate, in their order; higher is better."""


@runtime_checkable
class ProfilePicker(Protocol):
    """Chooses the profiles that run for a request, and makes the decision from their results. One per configuration."""

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """Names of the `profiles` to run next, given the results of those that have `finished`; none ends the loop.

        Raises `BadRequestError` when the request asks for a profile that does not exist.
        """

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        """The decision; called once `pick_profiles` returns no more names."""


@runtime_checkable
class Filter(Protocol):
    """Removes candidates. The filters of a profile run in their order in the configuration."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """One boolean per candidate, True to keep it. Keeping none ends the profile without a pick."""


@runtime_checkable
class Scorer(Protocol):
    """Rates the candidates that passed the filters."""

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """One number per candidate. Scores are clamped to [0, 1]; NaN counts as 0 and is reported as a fault."""


@runtime_checkable
class Picker(Protocol):
    """Picks endpoints by their weighted totals. Exactly one per profile."""

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:
        """At least one endpoint of `scored.candidates`, best first. There is always at least one candidate."""
