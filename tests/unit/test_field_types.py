"""Field types shared by settings and plugin parameters."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from app.extension import params
from app.extension.params import PluginParams
from app.field_types import Duration
from app.settings import types
from app.settings.types import Section

EXPECTED = "expected a duration such as 250ms, 1.5s or 1h30m"


class Setting(Section):
    """Durations in a section of the configuration."""

    wait: Duration = Field(default=1.5, ge=1)
    maybe: Duration | None = 2.5


class Parameters(PluginParams):
    """Durations among the parameters of a plugin."""

    wait: Duration = Field(default=1.5, ge=1)
    maybe: Duration | None = 2.5
    several: tuple[Duration, ...] = (0.5,)


class BadDefault(PluginParams):
    """A default out of its own range."""

    wait: Duration = Field(default=0.5, ge=1)


def setting(values: dict[str, Any]) -> Setting:
    """The section, validated as the configuration is: from Python objects."""
    return Setting(**values)


def parameters(values: dict[str, Any]) -> Parameters:
    """The parameters, validated as those of a plugin are: from JSON."""
    return Parameters.model_validate_json(json.dumps(values))


@pytest.mark.parametrize("module", [types, params])
def test_settings_and_plugin_parameters_share_one_definition(module: Any) -> None:
    assert module.Duration is Duration


@pytest.mark.parametrize("read", [setting, parameters])
@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("1500ms", 1.5), ("1h30m", 5400.0), ("1000000000ns", 1.0)],
)
def test_text_becomes_seconds(read: Any, text: str, seconds: float) -> None:
    found = read({"wait": text, "maybe": text})
    assert (found.wait, found.maybe) == (seconds, seconds)


@pytest.mark.parametrize("read", [setting, parameters])
@pytest.mark.parametrize("key", ["wait", "maybe"])
@pytest.mark.parametrize("value", [1.5, 5, 0, 0.0, "5", "1.5", "", "soon", True, ["1s"], {"s": 1}], ids=repr)
def test_yaml_without_a_unit_is_rejected(read: Any, key: str, value: object) -> None:
    with pytest.raises(ValidationError) as raised:
        read({key: value})
    (error,) = raised.value.errors()
    assert (error["loc"], error["msg"]) == ((key,), EXPECTED)


def test_a_bare_number_in_a_list_of_durations_is_rejected() -> None:
    with pytest.raises(ValidationError, match=EXPECTED):
        parameters({"several": ["1s", 1.5]})


@pytest.mark.parametrize("read", [setting, parameters])
def test_a_default_is_in_seconds(read: Any) -> None:
    assert (read({}).wait, read({}).maybe) == (1.5, 2.5)


def test_defaults_in_a_list_are_in_seconds() -> None:
    assert parameters({}).several == (0.5,)


def test_plugin_parameters_built_in_python_are_in_seconds() -> None:
    assert Parameters(wait=3.5).wait == 3.5


def test_a_default_of_plugin_parameters_must_be_in_range() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        BadDefault.model_validate_json("{}")


@pytest.mark.parametrize("read", [setting, parameters])
def test_text_must_be_in_range(read: Any) -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        read({"wait": "999ms"})


@pytest.mark.parametrize("value", [math.inf, math.nan, "9" * 400 + "s"], ids=["infinite", "not a number", "too long"])
def test_a_duration_is_finite(value: Any) -> None:
    with pytest.raises(ValidationError):
        Parameters(wait=value)


@pytest.mark.parametrize("read", [setting, parameters])
def test_a_duration_is_dumped_as_text(read: Any) -> None:
    dumped = read({"maybe": "250ms"}).model_dump(mode="json")
    assert (dumped["wait"], dumped["maybe"]) == ("1.5s", "250ms")


def test_the_json_schema_has_the_pattern_of_the_text() -> None:
    schema = TypeAdapter(Duration).json_schema()
    assert (schema["type"], schema["description"]) == ("string", "a duration such as 250ms, 1.5s or 1h30m")
