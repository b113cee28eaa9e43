"""Pydantic field types shared by settings and plugin parameters."""

from __future__ import annotations

from typing import Annotated

from pydantic import GetCoreSchemaHandler, PlainSerializer, ValidationInfo, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from app.domain.durations import DURATION_DESCRIPTION, DURATION_PATTERN, format_duration, parse_duration

_EXPECTED = f"expected {DURATION_DESCRIPTION}"


class _DurationSchema:
    """Parses text. In plugin parameters it also accepts seconds as a float set in Python, such as a default."""

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Plugin parameters are read from JSON: a number in JSON is no instance of `float`, a default is.
        set_in_python = core_schema.with_info_after_validator_function(
            _require_plugin_parameters, core_schema.is_instance_schema(float)
        )
        text = core_schema.no_info_plain_validator_function(parse_duration)
        seconds = core_schema.union_schema(
            [set_in_python, text],
            mode="left_to_right",
            custom_error_type="duration",
            custom_error_message=_EXPECTED,
        )
        return core_schema.chain_schema([seconds, handler(source)])


def _require_plugin_parameters(value: float, info: ValidationInfo) -> float:
    """Settings are read from Python objects and don't validate defaults, so a float there is a bare number in YAML."""
    if not (info.config or {}).get("validate_default"):
        raise ValueError(_EXPECTED)
    return value


Duration = Annotated[
    float,
    _DurationSchema(),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "description": DURATION_DESCRIPTION}),
]
"""Seconds in Python, text such as `250ms` in YAML. YAML must give a unit: bare numbers are rejected."""
