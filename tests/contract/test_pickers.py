"""What every picker promises, for every built-in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from app.extension import InferenceRequest, Picker, Scored
from pointsman.testing import check_picker, make_endpoint
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.catalogue.catalogue import PluginType


class Answering:
    """A picker that answers as told."""

    def __init__(self, answer: Callable[[Scored], Any]) -> None:
        self._answer = answer

    def pick(self, request: InferenceRequest, scored: Scored) -> Any:
        return self._answer(scored)


@pytest.mark.parametrize("most", [pytest.param(1, id="one"), pytest.param(3, id="three"), pytest.param(99, id="all")])
@pytest.mark.parametrize("kind", every(Picker))
def test_every_built_in_picker_keeps_the_contract(kind: PluginType, most: int) -> None:
    check_picker(build(kind, {"maxNumOfEndpoints": most}))


def test_the_suite_covers_every_module_of_pickers() -> None:
    assert modules_in("pickers") <= {kind.cls.__module__ for kind in types_of(Picker)}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda scored: [], id="nobody"),
        pytest.param(lambda scored: [scored.candidates[0]] * 2, id="one twice"),
        pytest.param(lambda scored: [make_endpoint("stranger")], id="a stranger"),
        pytest.param(lambda scored: [*scored.candidates, make_endpoint("stranger")], id="a stranger among others"),
    ],
)
def test_the_check_finds_a_picker_that_answers_wrongly(answer: Callable[[Scored], Any]) -> None:
    with pytest.raises(AssertionError):
        check_picker(Answering(answer))


def test_the_check_finds_something_that_is_no_picker() -> None:
    with pytest.raises(AssertionError, match="no Picker"):
        check_picker(object())  # type: ignore[arg-type]


def test_the_check_finds_a_picker_that_needs_two_candidates() -> None:
    with pytest.raises(IndexError):
        check_picker(Answering(lambda scored: [scored.candidates[1]]))
