"""The contract of `Producer`, for every built-in one."""

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
    OnFirstToken,
    OnScheduled,
    Outcome,
    Pool,
    Producer,
)
from pointsman.testing import check_producer, example_params
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType


class FakeProducer:
    """A producer of the facts `found`."""

    def __init__(self, found: Mapping[AnyFactKey, object]) -> None:
        self._found = found

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        return self._found


class FailingObserver(FakeProducer):
    """A producer whose `on_finished` fails."""

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        raise LookupError


class FailingListener(FakeProducer):
    """A producer that follows requests in flight, and fails if the first token is not exact."""

    def on_entered(self, request: InferenceRequest, decision: Decision) -> None: ...

    def on_prefilled(self, decision: Decision, exact: bool) -> None:
        if not exact:
            raise LookupError

    def on_left(self, decision: Decision) -> None: ...


def produced_by(kind: PluginType) -> tuple[Any, ...]:
    return tuple(kind.produces(kind.mark.type, example_params(kind.params)))


@pytest.mark.parametrize("kind", every(Producer))
def test_every_built_in_producer_keeps_the_contract(kind: PluginType) -> None:
    check_producer(build(kind), produced_by(kind))


@pytest.mark.parametrize("kind", every(Producer))
def test_every_built_in_producer_produces_under_its_instance_s_name(kind: PluginType) -> None:
    keys = kind.produces("renamed", example_params(kind.params))
    assert {key.producer for key in keys} == {"renamed"}


@pytest.mark.parametrize("kind", every(OnScheduled, OnFirstToken, OnFinished))
def test_every_built_in_observer_is_a_producer_and_so_is_covered(kind: PluginType) -> None:
    assert kind.serves(Producer)


def test_the_suite_covers_every_module_of_producers() -> None:
    assert modules_in("producers") <= {kind.cls.__module__ for kind in types_of(Producer)}


def test_the_check_rejects_a_fact_that_is_not_declared() -> None:
    with pytest.raises(AssertionError, match="without declaring"):
        check_producer(FakeProducer({PREFIX_HITS: {}, IN_FLIGHT_REQUESTS: {}}), [PREFIX_HITS])


def test_the_check_rejects_a_fact_under_another_producer_s_name() -> None:
    with pytest.raises(AssertionError, match="without declaring"):
        check_producer(FakeProducer({PREFIX_HITS.of("mine"): {}}), [PREFIX_HITS])


def test_the_check_accepts_a_producer_that_leaves_out_a_declared_fact() -> None:
    check_producer(FakeProducer({}), [PREFIX_HITS])


@pytest.mark.parametrize("failing", [FailingObserver, FailingListener])
def test_the_check_raises_an_observer_s_error(failing: type[FakeProducer]) -> None:
    with pytest.raises(LookupError):
        check_producer(failing({}), [])


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a Producer"):
        check_producer(object(), [])  # type: ignore[arg-type]
