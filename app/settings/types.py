"""Field types of the schema: strict where YAML is loose."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from app.domain.durations import DURATION_PATTERN, format_duration, parse_duration

T = TypeVar("T")


class Section(BaseModel):
    """A mapping of the schema: frozen, camelCase in YAML, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        use_attribute_docstrings=True,
    )

    identity: ClassVar[tuple[str, ...]] = ()
    """For an item of a named list: the keys, in YAML's spelling, of which the first that is set is its name."""


_QUANTITY_PATTERN = r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?"
_QUANTITY = re.compile(_QUANTITY_PATTERN)
_FACTORS: Mapping[str, Fraction | int] = {
    "m": Fraction(1, 1000),
    **{unit: 1000** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: 1024** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}  # fmt: skip


def _quantity(value: object) -> object:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value if isinstance(value, int) and not isinstance(value, bool) else _refuse_quantity()
    return math.ceil(Fraction(match[1]) * _FACTORS.get(match[2] or "", 1))


def _refuse_quantity() -> object:
    raise ValueError("expected a quantity such as 1024, 500M or 1Gi")


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema(
        {"type": "string", "pattern": DURATION_PATTERN, "description": "a duration such as 250ms, 1.5s or 1h30m"}
    ),
]
"""Seconds here; in YAML text as Go writes durations."""

Quantity = Annotated[
    int,
    BeforeValidator(_quantity),
    WithJsonSchema(
        {
            "type": ["integer", "string"],
            "pattern": f"^{_QUANTITY_PATTERN}$",
            "description": "a quantity such as 1024, 500M or 1Gi",
        }
    ),
]
"""A whole number here; in YAML a number, or text with a unit of Kubernetes."""

Many = Annotated[tuple[T, ...], BeforeValidator(_tuple)]
"""A list in YAML, a tuple here."""

Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP port; 0 takes any free one."""
