"""Parameters of plugins: frozen, strictly validated, and with references to other plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from app.field_types import Duration as Duration  # noqa: PLC0414 - re-exported

T = TypeVar("T")

Resolve = Callable[[str, type], object]
"""Takes a plugin's name and the expected extension point; returns the value of the parameter."""


class PluginParams(BaseModel):
    """Base class of a plugin's `Params`. Unknown keys, wrong types and numbers that are not finite are rejected.

    Fields are snake_case in Python and camelCase in YAML, where `hash-block-size`, `hashBlockSize` and
    `hash_block_size` are the same key. Values are validated as JSON: a list is accepted for a tuple or a set.
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
    """Resolves an annotated field from a plugin's name to that plugin."""

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
"""`decider: PluginRef[Decider]` is a plugin's name in YAML and the plugin itself in Python.

A reference may be nested, optional or in a list. A configuration is invalid if the plugin is missing, disabled or of
another extension point, and if references form a cycle.
"""
