"""What every producer promises, for every built-in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from app.extension import (
    IN_FLIGHT_REQUESTS,
    PREFIX_HITS,
    AnyFactKey,
    Decision,
    InferenceRequest,
    OnFinished,
    OnFirstByte,
    OnScheduled,
    Outcome,
    Pool,
    Producer,
)
from pointsman.testing import check_producer
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType


class Producing:
    """A producer of `found`."""

    def __init__(self, found: Mapping[AnyFactKey, object]) -> None:
        self._found = found

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        return self._found


class FailingLater(Producing):
    """A producer whose observers fail."""

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        raise LookupError


def produced_by(kind: PluginType) -> tuple[Any, ...]:
    params = kind.params.model_validate({})
    return tuple(kind.produces(kind.mark.type, params))


@pytest.mark.parametrize("kind", every(Producer))
def test_every_built_in_producer_keeps_the_contract(kind: PluginType) -> None:
    check_producer(build(kind), produced_by(kind))


@pytest.mark.parametrize("kind", every(Producer))
def test_every_built_in_producer_produces_under_its_instance_s_name(kind: PluginType) -> None:
    keys = kind.produces("renamed", kind.params.model_validate({}))
    assert {key.producer for key in keys} == {"renamed"}


@pytest.mark.parametrize("kind", every(OnScheduled, OnFirstByte, OnFinished))
def test_every_built_in_observer_is_a_producer_and_so_covered(kind: PluginType) -> None:
    assert kind.serves(Producer)


def test_the_suite_covers_every_module_of_producers() -> None:
    assert modules_in("producers") <= {kind.cls.__module__ for kind in types_of(Producer)}


def test_the_check_finds_a_fact_that_was_not_declared() -> None:
    with pytest.raises(AssertionError, match="without declaring"):
        check_producer(Producing({PREFIX_HITS: {}, IN_FLIGHT_REQUESTS: {}}), [PREFIX_HITS])


def test_the_check_finds_a_fact_under_another_producer_s_name() -> None:
    with pytest.raises(AssertionError, match="without declaring"):
        check_producer(Producing({PREFIX_HITS.of("mine"): {}}), [PREFIX_HITS])


def test_the_check_takes_a_producer_that_leaves_out_what_it_declares() -> None:
    check_producer(Producing({}), [PREFIX_HITS])


def test_the_check_lets_an_observer_s_own_error_through() -> None:
    with pytest.raises(LookupError):
        check_producer(FailingLater({}), [])


def test_the_check_finds_something_that_is_no_producer() -> None:
    with pytest.raises(AssertionError, match="no Producer"):
        check_producer(object(), [])  # type: ignore[arg-type]
