"""The extension points of a decision, in the order a request meets them. All are synchronous and pure."""

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
"""One boolean per candidate, aligned with them: stay or go."""

Scores = Sequence[float] | NDArray[np.float64]
"""One number in [0, 1] per candidate, aligned with them; more is better."""


@runtime_checkable
class ProfilePicker(Protocol):
    """Chooses which profiles run for a request, and what their results mean. One per configuration."""

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """Names out of `profiles` to run now, given what has `finished`; none ends the loop.

        Raises `BadRequestError` when the request asks for a profile that does not exist.
        """

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        """The decision, once `pick_profiles` has returned no more names."""


@runtime_checkable
class Filter(Protocol):
    """Says which candidates may stay. Filters of a profile run in the order written."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """One boolean per candidate. Keeping none ends the profile without a pick."""


@runtime_checkable
class Scorer(Protocol):
    """Rates the candidates that passed the filters."""

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        """One number per candidate, clamped to [0, 1]; NaN counts as 0 and as a fault."""


@runtime_checkable
class Picker(Protocol):
    """Turns totals into destinations. Exactly one in a profile."""

    def pick(self, request: InferenceRequest, scored: Scored) -> Sequence[Endpoint]:
        """At least one endpoint of `scored.candidates`, which is never empty, best first."""
