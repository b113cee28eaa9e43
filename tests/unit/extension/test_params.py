"""Parameters of plugins: validation, references to other plugins, durations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field, ValidationError

from app.extension.params import Duration, PluginParams, PluginRef
from app.extension.scheduling import Picker


class Params(PluginParams):
    """Parameters of a plugin."""

    block_size: int = 16
    """Tokens per block."""
    share: float = 0.5
    wait: Duration = Field(default=1.5, ge=0)
    tags: tuple[str, ...] = ()
    picker: PluginRef[Picker] | None = None
    pickers: tuple[PluginRef[Picker], ...] = ()


class Plugin:
    """The plugin that a reference names."""


def read(values: dict[str, Any], context: Any = None) -> Params:
    return Params.model_validate_json(json.dumps(values), context=context)


@pytest.mark.parametrize("key", ["blockSize", "block_size"])
def test_a_key_is_in_camel_case_or_snake_case(key: str) -> None:
    assert read({key: 32}).block_size == 32


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"blockSizes": 1}, id="unknown key"),
        pytest.param({"blockSize": "16"}, id="text for a number"),
        pytest.param({"blockSize": 1.5}, id="fraction for an integer"),
        pytest.param({"share": True}, id="boolean for a number"),
        pytest.param({"wait": 5}, id="duration without a unit"),
        pytest.param({"wait": "-1s"}, id="duration out of range"),
        pytest.param({"picker": ""}, id="empty name of a plugin"),
        pytest.param({"picker": 5}, id="number for a plugin"),
    ],
)
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(values)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_must_be_finite(value: float) -> None:
    with pytest.raises(ValidationError):
        Params(share=value)


def test_parameters_are_immutable() -> None:
    with pytest.raises(ValidationError):
        Params().share = 1.0


def test_a_list_is_accepted_for_a_tuple() -> None:
    assert read({"tags": ["a", "b"]}).tags == ("a", "b")


def test_a_duration_is_seconds_in_python() -> None:
    assert read({"wait": "250ms"}).wait == 0.25


def test_a_duration_is_serialized_as_text() -> None:
    assert Params().model_dump(mode="json")["wait"] == "1.5s"


def test_a_reference_resolves_to_the_plugin_that_it_names() -> None:
    found, calls = Plugin(), []
    params = read({"picker": "mine"}, lambda name, kind: calls.append((name, kind)) or found)
    assert (params.picker, calls) == (found, [("mine", Picker)])


def test_references_may_be_in_a_list() -> None:
    params = read({"pickers": ["a", "b"]}, lambda name, _: f"plugin {name}")
    assert params.pickers == ("plugin a", "plugin b")


def test_without_a_resolver_a_reference_stays_a_name() -> None:
    assert read({"picker": "mine"}).picker == "mine"


@pytest.mark.parametrize(
    ("context", "name"),
    [pytest.param(None, "mine", id="name"), pytest.param(lambda *_: Plugin(), "Plugin", id="plugin")],
)
def test_a_reference_is_serialized_as_a_name(context: Any, name: str) -> None:
    assert read({"picker": "mine"}, context).model_dump(mode="json")["picker"] == name


@pytest.mark.parametrize(
    ("field", "description"),
    [
        pytest.param("wait", "a duration such as", id="duration"),
        pytest.param("blockSize", "Tokens per block", id="docstring"),
    ],
)
def test_the_schema_describes_a_field(field: str, description: str) -> None:
    assert description in json.dumps(Params.model_json_schema()["properties"][field])


def test_the_schema_of_a_reference_is_a_string() -> None:
    assert {"type": "string", "description": "the name of a plugin"} in Params.model_json_schema()["properties"][
        "picker"
    ]["anyOf"]
