"""The contract of `Picker`, for every built-in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from app.extension import InferenceRequest, Picker, Scored
from pointsman.testing import check_picker, make_endpoint
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.catalogue.catalogue import PluginType


class FakePicker:
    """A picker that returns what `call` returns."""

    def __init__(self, call: Callable[[Scored], Any]) -> None:
        self._call = call

    def pick(self, request: InferenceRequest, scored: Scored) -> Any:
        return self._call(scored)


@pytest.mark.parametrize("most", [pytest.param(1, id="one"), pytest.param(3, id="three"), pytest.param(99, id="all")])
@pytest.mark.parametrize("kind", every(Picker))
def test_every_built_in_picker_keeps_the_contract(kind: PluginType, most: int) -> None:
    check_picker(build(kind, {"maxNumOfEndpoints": most}))


def test_the_suite_covers_every_module_of_pickers() -> None:
    assert modules_in("pickers") <= {kind.cls.__module__ for kind in types_of(Picker)}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda scored: [], id="no endpoint"),
        pytest.param(lambda scored: [scored.candidates[0]] * 2, id="one twice"),
        pytest.param(lambda scored: [make_endpoint("other")], id="no candidate"),
        pytest.param(lambda scored: [*scored.candidates, make_endpoint("other")], id="one that is no candidate"),
    ],
)
def test_the_check_rejects_wrong_return_values(call: Callable[[Scored], Any]) -> None:
    with pytest.raises(AssertionError):
        check_picker(FakePicker(call))


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a Picker"):
        check_picker(object())  # type: ignore[arg-type]


def test_the_check_rejects_a_picker_that_needs_two_candidates() -> None:
    with pytest.raises(IndexError):
        check_picker(FakePicker(lambda scored: [scored.candidates[1]]))
