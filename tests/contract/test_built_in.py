"""How the contract suites build a plugin: with the examples of its own parameters."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field, ValidationError

from app.catalogue.catalogue import EXTENSION_POINTS, describe
from app.extension import Clock, Duration, Keep, PluginParams, PluginRef, Scorer, plugin
from pointsman.testing import check_filter, example_params
from tests.contract.built_in import build, types_of


class Limit(PluginParams):
    """A nested model."""

    most: int


class Params(PluginParams):
    """Required parameters of all kinds, and optional ones."""

    label_name: str = Field(examples=["pool", "zone"])
    limits: tuple[Limit, ...] = Field(examples=[[{"most": 3}]])
    wait: Duration = Field(examples=["250ms"])
    scorer: PluginRef[Scorer] = Field(examples=["queue-scorer"])
    share: float = Field(default=0.5, examples=[0.25])
    size: int = 16


@plugin("needs-parameters")
class NeedsParameters:
    """A filter that can't be built without parameters."""

    def __init__(self, params: Params, clock: Clock) -> None:
        self.params = params
        self.clock = clock

    def filter(self, request: Any, candidates: Any) -> Keep:
        return [True] * len(candidates)


def test_a_plugin_with_required_parameters_is_built_from_its_examples() -> None:
    built = build(describe(NeedsParameters, "test"))
    assert built.params == Params(
        label_name="pool", limits=(Limit(most=3),), wait=0.25, scorer="queue-scorer", share=0.25
    )
    check_filter(built)


@pytest.mark.parametrize("kind", types_of(*EXTENSION_POINTS), ids=lambda kind: kind.mark.type)
def test_every_built_in_type_has_examples_of_its_required_parameters(kind: Any) -> None:
    example_params(kind.params)


@pytest.mark.parametrize("key", ["label_name", "labelName"])
def test_a_value_replaces_the_example(key: str) -> None:
    params = example_params(Params, **{key: "zone", "limits": [], "wait": "1s"})
    assert (params.label_name, params.limits, params.wait) == ("zone", (), 1.0)


def test_a_field_without_an_example_has_its_default() -> None:
    assert example_params(Params).size == 16


class WithoutExample(PluginParams):
    """A required parameter without an example."""

    label: str


@pytest.mark.parametrize(
    ("model", "values"),
    [
        pytest.param(WithoutExample, {}, id="no example of a required parameter"),
        pytest.param(Params, {"size": "16"}, id="wrong type"),
        pytest.param(Params, {"labels": "pool"}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(model: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        example_params(model, **values)
