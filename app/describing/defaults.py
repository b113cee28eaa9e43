"""The generated part of `config/default.yaml`: Pointsman's own sections, with a default and a comment for each key."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.describing.fields import default_of, takes
from app.settings import picker_config
from app.settings.schema import Settings
from app.settings.shapes import Shape, fields_of, shape_of
from app.settings.writer import scalar_text

MARK = "# The sections below are generated from app/settings: edit its docstrings, then run `make docs`.\n"
"""The line above the generated part."""

COLUMN = 32
"""Where comments begin. Behind a longer line, two spaces after it."""

WIDTH = 120

_INDENT = "  "
_UNITS = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


def updated(text: str) -> str:
    """`text` with everything below `MARK` replaced. Raises `ValueError` if there is no such line."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"the line {MARK.strip()!r} is missing")
    return f"{head}{mark}\n{own_sections()}"


def own_sections() -> str:
    """The sections that are not part of `EndpointPickerConfig`, as YAML."""
    sections = [
        "\n".join(_lines(attribute, key, Settings, ""))
        for attribute, key, field in _fields(Settings)
        if (model := _shape(field).model) is not None and model.__module__ != picker_config.__name__
    ]
    return "\n\n".join(sections) + "\n"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, FieldInfo]]:
    """The attribute, key and field of each setting."""
    for attribute, (names, field) in zip(model.model_fields, fields_of(model), strict=True):
        yield attribute, names[0], field


def _shape(field: FieldInfo) -> Shape:
    annotation: Any = field.annotation
    return shape_of(annotation)


def _lines(attribute: str, key: str, model: type[BaseModel], indent: str) -> Iterator[str]:
    """The lines of one field, and of the fields below it."""
    field = model.model_fields[attribute]
    inner = _shape(field).model
    value = "" if inner is not None else f" {_value(default_of(model, attribute), field)}"
    yield from _commented(f"{indent}{key}:{value}", _comment(field))
    if inner is not None:
        for inner_attribute, inner_key, _ in _fields(inner):
            yield from _lines(inner_attribute, inner_key, inner, indent + _INDENT)


def _value(default: object, field: FieldInfo) -> str:
    if isinstance(default, list):
        return f"[{', '.join(map(scalar_text, default))}]"
    if default == {}:
        return "{}"
    if isinstance(default, int) and takes(field.annotation, field.metadata) == "quantity":
        return _quantity(default)
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    assert isinstance(default, str | bool | int | float)  # noqa: S101 - every setting of ours has a default
    return scalar_text(default)


def _quantity(number: int) -> str:
    """`number` with the largest unit of which it is a multiple."""
    units = (f"{number // size}{unit}" for unit, size in _UNITS.items() if number and number % size == 0)
    return next(units, str(number))


def _comment(field: FieldInfo) -> str:
    """The first sentence of the docstring; for a list of mappings also an item's keys, optional ones in brackets."""
    first = " ".join((field.description or "").split()).partition(". ")[0].removesuffix(".")
    item = _shape(field).inner
    if item is None or item.model is None:
        return first
    required = [names[0] for names, inner in fields_of(item.model) if inner.is_required()]
    optional = [names[0] for names, inner in fields_of(item.model) if not inner.is_required()]
    return f"{first}: {', '.join(required)} [{', '.join(optional)}]"


def _commented(line: str, comment: str) -> Sequence[str]:
    """`line` with `comment`, which continues below if it is too long."""
    column = max(COLUMN, len(line) + 2)
    first, *more = textwrap.wrap(comment, WIDTH - column - 2) or [""]
    return [f"{line:<{column}}# {first}".rstrip(), *(f"{'':<{column}}# {text}" for text in more)]
