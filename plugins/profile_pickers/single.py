"""`single-profile-handler`: the one profile there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pointsman import Decision, InferenceRequest, ProfileResult, plugin


@plugin("single-profile-handler")
class SingleProfileHandler:
    """Runs the only profile. A configuration with several profiles needs another ProfilePicker."""

    single_profile = True

    def pick_profiles(
        self,
        request: InferenceRequest,  # noqa: ARG002
        profiles: Sequence[str],
        finished: Mapping[str, ProfileResult],
    ) -> Sequence[str]:
        """All profiles, once."""
        return () if finished else profiles

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:  # noqa: ARG002
        """The only result is the decision."""
        (primary,) = finished
        return Decision(primary, finished)
