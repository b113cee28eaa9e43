"""The contract of `ProfilePicker`, for every built-in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from app.extension import Decision, InferenceRequest, ProfilePicker, ProfileResult, RequiresProfiles, SingleProfile
from pointsman.testing import check_profile_picker, example_params
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType


class FakeProfilePicker:
    """A profile picker that picks `rounds`, one after the other, and concludes with `primary`."""

    def __init__(self, *rounds: Sequence[str], primary: str = "default") -> None:
        self._rounds = rounds
        self._primary = primary

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        return self._rounds[len(finished)] if len(finished) < len(self._rounds) else ()

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        return Decision(self._primary, finished)


def takes_one_profile(kind: PluginType) -> bool:
    return isinstance(kind.cls, SingleProfile) and kind.cls.single_profile


def profiles_with(*names: str, kind: PluginType) -> Sequence[str]:
    required = kind.cls.profile_names(example_params(kind.params)) if isinstance(kind.cls, RequiresProfiles) else ()
    return tuple(dict.fromkeys([*names, *required]))


@pytest.mark.parametrize("kind", every(ProfilePicker))
def test_every_built_in_profile_picker_keeps_the_contract(kind: PluginType) -> None:
    check_profile_picker(build(kind), profiles_with("default", kind=kind))


@pytest.mark.parametrize("kind", [kind for kind in every(ProfilePicker) if not takes_one_profile(kind.values[0])])
def test_every_built_in_profile_picker_for_several_profiles_takes_several(kind: PluginType) -> None:
    check_profile_picker(build(kind), profiles_with("prefill", "decode", "default", kind=kind))


def test_the_suite_covers_every_module_of_profile_pickers() -> None:
    assert modules_in("profile_pickers") <= {kind.cls.__module__ for kind in types_of(ProfilePicker)}


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(FakeProfilePicker(["unknown"]), id="picks an unknown profile"),
        pytest.param(FakeProfilePicker(["default"], ["default"]), id="picks a profile twice"),
        pytest.param(FakeProfilePicker(["default", "default"]), id="picks a profile twice at once"),
        pytest.param(FakeProfilePicker(["default"], primary="other"), id="concludes with a profile that did not run"),
        pytest.param(FakeProfilePicker(), id="picks nothing"),
    ],
)
def test_the_check_rejects_wrong_return_values(plugin: FakeProfilePicker) -> None:
    with pytest.raises(AssertionError):
        check_profile_picker(plugin)


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a ProfilePicker"):
        check_profile_picker(object())  # type: ignore[arg-type]


def test_the_check_accepts_two_rounds() -> None:
    check_profile_picker(FakeProfilePicker(["default"], ["second"]), ("default", "second"))
