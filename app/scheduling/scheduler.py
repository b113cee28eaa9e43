"""The loop over profiles that makes a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.domain.candidates import Candidates
from app.domain.decision import Decision, ProfileResult
from app.domain.errors import PluginError, RoutingError, SaturatedError
from app.domain.named import Named
from app.domain.request import InferenceRequest
from app.extension.scheduling import ProfilePicker
from app.scheduling.profile import Profile


class Scheduler:
    """Runs the profiles that the ProfilePicker asks for, then lets it conclude."""

    def __init__(self, profile_picker: Named[ProfilePicker] | ProfilePicker, profiles: Mapping[str, Profile]) -> None:
        """A profile picker without a name, as a test may give, is called by its class."""
        if not isinstance(profile_picker, Named):
            profile_picker = Named(type(profile_picker).__name__, profile_picker)
        self._picker_name, self._picker = profile_picker
        self._profiles = dict(profiles)
        self._names = tuple(profiles)

    def schedule(self, request: InferenceRequest, candidates: Candidates) -> Decision:
        """Where `request` goes. Every profile sees all `candidates`, which must not be empty.

        Raises `SaturatedError` when the primary profile's filters left none, `BadRequestError` when the request
        asks for a profile that does not exist, `PluginError` when a plugin failed.
        """
        finished: dict[str, ProfileResult] = {}
        while names := self._next_profiles(request, finished):
            for name in names:
                finished[name] = self._profiles[name].run(request, candidates)
        decision = self._conclude(request, finished)
        if not decision.endpoints:
            raise SaturatedError
        return decision

    def _next_profiles(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Sequence[str]:
        try:
            names = tuple(self._picker.pick_profiles(request, self._names, finished))
        except RoutingError:
            raise
        except Exception as error:
            raise PluginError(self._picker_name, error) from error
        if names is not self._names or finished:
            self._check(names, finished)
        return names

    def _check(self, names: Sequence[str], finished: Mapping[str, ProfileResult]) -> None:
        for place, name in enumerate(names):
            if name not in self._profiles:
                raise PluginError(self._picker_name, f"it asked for the profile {name!r}, which does not exist")
            if name in finished or name in names[:place]:
                raise PluginError(self._picker_name, f"it asked for the profile {name!r} twice")

    def _conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        if not finished:
            raise PluginError(self._picker_name, "it asked for no profile")
        try:
            decision = self._picker.conclude(request, finished)
        except RoutingError:
            raise
        except Exception as error:
            raise PluginError(self._picker_name, error) from error
        if not isinstance(decision, Decision):
            raise PluginError(self._picker_name, f"it concluded with {type(decision).__name__}, which is no Decision")
        if not all(isinstance(result, ProfileResult) for result in decision.results.values()):
            raise PluginError(self._picker_name, "it concluded with results that are none of a profile")
        if decision.primary not in decision.results:
            raise PluginError(self._picker_name, f"its primary profile {decision.primary!r} has no result")
        return decision
