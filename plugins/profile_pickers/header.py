"""`header-profile-handler`: runs the profile that a request header names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from pointsman import BadRequestError, Decision, InferenceRequest, PluginParams, ProfileResult, plugin


@plugin("header-profile-handler", stability="alpha")
class HeaderProfileHandler:
    """Runs the profile that a request header names; without the header, the default profile."""

    class Params(PluginParams):
        """The header and the default profile."""

        header_name: str = Field(default="EPP-Profile", min_length=1)
        """The name of the header, case-insensitive."""
        default_profile: str | None = None
        """The profile for requests without the header. By default `decode` if there is one, else the first profile."""

    def __init__(self, params: Params) -> None:
        self._header = params.header_name.strip().lower()
        self._header_name = params.header_name
        self._default = params.default_profile

    @classmethod
    def profile_names(cls, params: Params) -> tuple[str, ...]:
        """The default profile, if one is set."""
        return (params.default_profile,) if params.default_profile else ()

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """The named profile, once. Raises `BadRequestError` for an unknown name."""
        if finished:
            return ()
        name = request.headers.get(self._header, "").strip() or self._default or _default_of(profiles)
        if name not in profiles:
            message = f"the header {self._header_name} names the profile {name!r}, which does not exist"
            raise BadRequestError(message)
        return (name,)

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        """The result of the profile that ran."""
        (primary,) = finished
        return Decision(primary, finished)


def _default_of(profiles: Sequence[str]) -> str:
    return "decode" if "decode" in profiles else profiles[0]
