"""Base class and field types of the configuration schema, stricter than YAML and pydantic are by default."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from app.domain.ranges import parse_range
from app.field_types import Duration as Duration  # noqa: PLC0414 - re-exported

T = TypeVar("T")


class Section(BaseModel):
    """A mapping in the schema. Frozen; keys are camelCase in YAML, unknown keys are rejected."""

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
    """For items of a named list: the keys, as spelled in YAML, whose first non-empty value names the item."""


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
        return value if isinstance(value, int) and not isinstance(value, bool) else _reject_quantity()
    return math.ceil(Fraction(match[1]) * _FACTORS.get(match[2] or "", 1))


def _reject_quantity() -> object:
    raise ValueError("expected a quantity such as 1024, 500M or 1Gi")


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


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
"""An integer in Python; in YAML a number, or text with a Kubernetes unit. Fractions are rounded up."""


def _range(value: str) -> str:
    parse_range("", value)
    return value


SearchRange = Annotated[str, AfterValidator(_range)]
"""The text of a range, such as `0.1..10`."""

Many = Annotated[tuple[T, ...], BeforeValidator(_tuple)]
"""A tuple in Python, a list in YAML."""

Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP port; 0 means any free port."""
