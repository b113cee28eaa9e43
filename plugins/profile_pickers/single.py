"""`single-profile-handler`: runs the only profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pointsman import Decision, InferenceRequest, ProfileResult, plugin


@plugin("single-profile-handler")
class SingleProfileHandler:
    """Runs the only profile. A configuration with several profiles needs another profile picker."""

    single_profile = True

    def pick_profiles(
        self,
        request: InferenceRequest,
        profiles: Sequence[str],
        finished: Mapping[str, ProfileResult],
    ) -> Sequence[str]:
        """The profile, once."""
        return () if finished else profiles

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        """The only result."""
        (primary,) = finished
        return Decision(primary, finished)
