"""Parameters of plugins: frozen, strict, and able to name other plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from app.domain.durations import DURATION_PATTERN, format_duration, parse_duration

T = TypeVar("T")

Resolve = Callable[[str, type], object]
"""Takes a plugin's name and the extension point expected; returns what the parameter becomes."""


class PluginParams(BaseModel):
    """Base of a plugin's `Params`: unknown keys, wrong types and non-finite numbers are refused.

    Fields are snake_case here and camelCase in YAML, where `hash-block-size`, `hashBlockSize` and
    `hash_block_size` are one key. Values are checked as JSON is: a list may fill a tuple or a set.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        validate_default=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )


class _Reference:
    """Makes an annotated field take a plugin's name and become that plugin."""

    def __get_pydantic_core_schema__(self, source: type, _: GetCoreSchemaHandler) -> CoreSchema:
        def resolve(name: str, info: core_schema.ValidationInfo) -> object:
            resolver: Resolve | None = info.context
            return name if resolver is None else resolver(name, source)

        return core_schema.with_info_after_validator_function(
            resolve,
            core_schema.str_schema(strict=True, min_length=1),
            serialization=core_schema.plain_serializer_function_ser_schema(_name_of),
        )

    def __get_pydantic_json_schema__(self, _: CoreSchema, __: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "description": "the name of a plugin"}


def _name_of(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


PluginRef = Annotated[T, _Reference()]
"""`decider: PluginRef[Decider]` names another plugin in YAML and *is* that plugin in the code.

It may be nested, optional, or in a list. Naming a plugin that is missing, disabled or of another kind is a fault of
the configuration, and so is a cycle.
"""


def _seconds(value: object) -> float:
    return value if isinstance(value, float) else parse_duration(value)  # a default is given in seconds


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(format_duration),
    WithJsonSchema(
        {"type": "string", "pattern": DURATION_PATTERN, "description": "a duration such as 250ms, 1.5s or 1h30m"}
    ),
]
"""Seconds in the code, text such as `250ms` in YAML."""
