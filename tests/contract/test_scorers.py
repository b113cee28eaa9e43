"""What every scorer promises, for every built-in one."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from app.extension import Candidates, InferenceRequest, Scorer
from pointsman.testing import check_scorer
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.catalogue.catalogue import PluginType


class Answering:
    """A scorer that answers as told."""

    def __init__(self, answer: Callable[[Candidates], Any]) -> None:
        self._answer = answer

    def score(self, request: InferenceRequest, candidates: Candidates) -> Any:
        return self._answer(candidates)


calls = count()


@pytest.mark.parametrize("kind", every(Scorer))
def test_every_built_in_scorer_keeps_the_contract(kind: PluginType) -> None:
    check_scorer(build(kind))


def test_the_suite_covers_every_module_of_scorers() -> None:
    assert modules_in("scorers") <= {kind.cls.__module__ for kind in types_of(Scorer)}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda candidates: [0.5] * (len(candidates) + 1), id="one too many"),
        pytest.param(lambda candidates: [0.5] * (len(candidates) - 1), id="one too few"),
        pytest.param(lambda candidates: 0.5, id="one for all"),
        pytest.param(lambda candidates: [math.nan] * len(candidates), id="not a number"),
        pytest.param(lambda candidates: [math.inf] * len(candidates), id="infinite"),
        pytest.param(lambda candidates: [2.0] * len(candidates), id="two"),
        pytest.param(lambda candidates: [-0.1] * len(candidates), id="negative"),
        pytest.param(lambda candidates: [next(calls) % 2] * len(candidates), id="another answer each time"),
    ],
)
def test_the_check_finds_a_scorer_that_answers_wrongly(answer: Callable[[Candidates], Any]) -> None:
    with pytest.raises(AssertionError):
        check_scorer(Answering(answer))


def test_the_check_finds_something_that_is_no_scorer() -> None:
    with pytest.raises(AssertionError, match="no Scorer"):
        check_scorer(object())  # type: ignore[arg-type]


def test_the_check_lets_a_scorer_s_own_error_through() -> None:
    with pytest.raises(ZeroDivisionError):
        check_scorer(Answering(lambda candidates: 1 / 0))


def test_the_check_takes_plain_whole_numbers() -> None:
    check_scorer(Answering(lambda candidates: [1] * len(candidates)))
