"""The contract of `Scorer`, for every built-in one."""

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


class FakeScorer:
    """A scorer that returns what `call` returns."""

    def __init__(self, call: Callable[[Candidates], Any]) -> None:
        self._call = call

    def score(self, request: InferenceRequest, candidates: Candidates) -> Any:
        return self._call(candidates)


calls = count()


@pytest.mark.parametrize("kind", every(Scorer))
def test_every_built_in_scorer_keeps_the_contract(kind: PluginType) -> None:
    check_scorer(build(kind))


def test_the_suite_covers_every_module_of_scorers() -> None:
    assert modules_in("scorers") <= {kind.cls.__module__ for kind in types_of(Scorer)}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda candidates: [0.5] * (len(candidates) + 1), id="one too many"),
        pytest.param(lambda candidates: [0.5] * (len(candidates) - 1), id="one too few"),
        pytest.param(lambda candidates: 0.5, id="one number"),
        pytest.param(lambda candidates: [math.nan] * len(candidates), id="NaN"),
        pytest.param(lambda candidates: [math.inf] * len(candidates), id="infinite"),
        pytest.param(lambda candidates: [2.0] * len(candidates), id="two"),
        pytest.param(lambda candidates: [-0.1] * len(candidates), id="negative"),
        pytest.param(lambda candidates: [next(calls) % 2] * len(candidates), id="something else each time"),
    ],
)
def test_the_check_rejects_wrong_return_values(call: Callable[[Candidates], Any]) -> None:
    with pytest.raises(AssertionError):
        check_scorer(FakeScorer(call))


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a Scorer"):
        check_scorer(object())  # type: ignore[arg-type]


def test_the_check_raises_the_scorer_s_error() -> None:
    with pytest.raises(ZeroDivisionError):
        check_scorer(FakeScorer(lambda candidates: 1 / 0))


def test_the_check_accepts_integers() -> None:
    check_scorer(FakeScorer(lambda candidates: [1] * len(candidates)))
