"""What every filter promises, for every built-in one."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from app.extension import Candidates, Filter, InferenceRequest
from pointsman.testing import check_filter
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.catalogue.catalogue import PluginType


class Answering:
    """A filter that answers as told."""

    def __init__(self, answer: Callable[[Candidates], Any]) -> None:
        self._answer = answer

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Any:
        return self._answer(candidates)


calls = count()


@pytest.mark.parametrize("kind", every(Filter))
def test_every_built_in_filter_keeps_the_contract(kind: PluginType) -> None:
    check_filter(build(kind))


def test_the_suite_covers_every_module_of_filters() -> None:
    assert modules_in("filters") <= {kind.cls.__module__ for kind in types_of(Filter)}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda candidates: [True] * (len(candidates) + 1), id="one too many"),
        pytest.param(lambda candidates: [True] * (len(candidates) - 1), id="one too few"),
        pytest.param(lambda candidates: np.ones(len(candidates)), id="numbers"),
        pytest.param(list, id="endpoints"),
        pytest.param(lambda candidates: True, id="no sequence"),
        pytest.param(lambda candidates: [next(calls) % 2 == 0] * len(candidates), id="another answer each time"),
    ],
)
def test_the_check_finds_a_filter_that_answers_wrongly(answer: Callable[[Candidates], Any]) -> None:
    with pytest.raises(AssertionError):
        check_filter(Answering(answer))


def test_the_check_finds_something_that_is_no_filter() -> None:
    with pytest.raises(AssertionError, match="no Filter"):
        check_filter(object())  # type: ignore[arg-type]


def test_the_check_lets_a_filter_s_own_error_through() -> None:
    def fail(candidates: Candidates) -> Any:
        raise LookupError

    with pytest.raises(LookupError):
        check_filter(Answering(fail))


def test_the_check_takes_any_sequence_of_booleans() -> None:
    check_filter(Answering(lambda candidates: tuple(True for _ in candidates)))
