"""What every profile picker promises, for every built-in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from app.extension import Decision, InferenceRequest, ProfilePicker, ProfileResult
from pointsman.testing import check_profile_picker
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType


class Asking:
    """A profile picker that asks for `rounds`, one after the other, and concludes with `primary`."""

    def __init__(self, *rounds: Sequence[str], primary: str = "default") -> None:
        self._rounds = rounds
        self._primary = primary

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        return self._rounds[len(finished)] if len(finished) < len(self._rounds) else ()

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        return Decision(self._primary, finished)


@pytest.mark.parametrize("kind", every(ProfilePicker))
def test_every_built_in_profile_picker_keeps_the_contract(kind: PluginType) -> None:
    check_profile_picker(build(kind))


@pytest.mark.parametrize(
    "kind", [kind for kind in every(ProfilePicker) if not getattr(kind.values[0].cls, "single_profile", False)]
)
def test_every_built_in_profile_picker_for_several_profiles_takes_several(kind: PluginType) -> None:
    check_profile_picker(build(kind), ("prefill", "decode", "default"))


def test_the_suite_covers_every_module_of_profile_pickers() -> None:
    assert modules_in("profile_pickers") <= {kind.cls.__module__ for kind in types_of(ProfilePicker)}


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Asking(["unknown"]), id="asks for an unknown profile"),
        pytest.param(Asking(["default"], ["default"]), id="asks for a profile twice"),
        pytest.param(Asking(["default", "default"]), id="asks for a profile twice at once"),
        pytest.param(Asking(["default"], primary="other"), id="concludes with one that did not run"),
        pytest.param(Asking(), id="runs nothing and concludes"),
    ],
)
def test_the_check_finds_a_profile_picker_that_answers_wrongly(plugin: Asking) -> None:
    with pytest.raises(AssertionError):
        check_profile_picker(plugin)


def test_the_check_finds_something_that_is_no_profile_picker() -> None:
    with pytest.raises(AssertionError, match="no ProfilePicker"):
        check_profile_picker(object())  # type: ignore[arg-type]


def test_the_check_takes_a_profile_picker_that_runs_in_two_rounds() -> None:
    check_profile_picker(Asking(["default"], ["second"]), ("default", "second"))
