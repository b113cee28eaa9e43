"""The contract of `Filter`, for every built-in one."""

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


class FakeFilter:
    """A filter that returns what `call` returns."""

    def __init__(self, call: Callable[[Candidates], Any]) -> None:
        self._call = call

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Any:
        return self._call(candidates)


calls = count()


@pytest.mark.parametrize("kind", every(Filter))
def test_every_built_in_filter_keeps_the_contract(kind: PluginType) -> None:
    check_filter(build(kind))


def test_the_suite_covers_every_module_of_filters() -> None:
    assert modules_in("filters") <= {kind.cls.__module__ for kind in types_of(Filter)}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda candidates: [True] * (len(candidates) + 1), id="one too many"),
        pytest.param(lambda candidates: [True] * (len(candidates) - 1), id="one too few"),
        pytest.param(lambda candidates: np.ones(len(candidates)), id="numbers"),
        pytest.param(list, id="endpoints"),
        pytest.param(lambda candidates: True, id="one boolean"),
        pytest.param(lambda candidates: [next(calls) % 2 == 0] * len(candidates), id="something else each time"),
    ],
)
def test_the_check_rejects_wrong_return_values(call: Callable[[Candidates], Any]) -> None:
    with pytest.raises(AssertionError):
        check_filter(FakeFilter(call))


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a Filter"):
        check_filter(object())  # type: ignore[arg-type]


def test_the_check_raises_the_filter_s_error() -> None:
    def fail(candidates: Candidates) -> Any:
        raise LookupError

    with pytest.raises(LookupError):
        check_filter(FakeFilter(fail))


def test_the_check_accepts_any_sequence_of_booleans() -> None:
    check_filter(FakeFilter(lambda candidates: tuple(True for _ in candidates)))
