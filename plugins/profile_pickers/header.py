"""`header-profile-handler`: the profile that a request header names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from pointsman import BadRequestError, Decision, InferenceRequest, PluginParams, ProfileResult, plugin


@plugin("header-profile-handler", stability="alpha")
class HeaderProfileHandler:
    """Runs the profile named in a request header, else the default one."""

    class Params(PluginParams):
        """Which header, and which profile without it."""

        header_name: str = Field(default="EPP-Profile", min_length=1)
        """The header; case does not matter."""
        default_profile: str | None = None
        """The profile of requests without the header; by default `decode` if there is one, else the first."""

    def __init__(self, params: Params) -> None:
        self._header = params.header_name.strip().lower()
        self._shown = params.header_name
        self._default = params.default_profile

    @classmethod
    def profile_names(cls, params: Params) -> tuple[str, ...]:
        """Profiles that must exist."""
        return (params.default_profile,) if params.default_profile else ()

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """The named profile, once. An unknown name is a bad request."""
        if finished:
            return ()
        name = request.headers.get(self._header, "").strip() or self._default or _usual(profiles)
        if name not in profiles:
            message = f"the header {self._shown} names the profile {name!r}, which does not exist"
            raise BadRequestError(message)
        return (name,)

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:  # noqa: ARG002
        """The one profile that ran is the decision."""
        (primary,) = finished
        return Decision(primary, finished)


def _usual(profiles: Sequence[str]) -> str:
    return "decode" if "decode" in profiles else profiles[0]
