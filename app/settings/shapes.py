"""The structure of pydantic models in YAML: their keys, and the shape of each value."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

Kind = Literal["model", "list", "map", "value"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a value in the schema."""

    kind: Kind
    model: type[BaseModel] | None = None
    """The model, if `kind` is `model`."""
    inner: Shape | None = None
    """The shape of the items of a list or of the values of a map."""


VALUE = Shape("value")


def fold(key: str) -> str:
    """The key without case, hyphens and underscores: spellings of one key fold to the same text."""
    return key.replace("-", "").replace("_", "").lower()


@cache
def shape_of(annotation: Any) -> Shape:
    """The shape of a value with this type annotation."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return shape_of(args[0])
    if origin in (Union, types.UnionType):
        shapes = [shape_of(arg) for arg in args if arg is not type(None)]
        return next((shape for shape in shapes if shape.kind != "value"), VALUE)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return Shape("model", model=annotation)
    if origin in (tuple, list, set, frozenset):
        return Shape("list", inner=shape_of(args[0]) if args else VALUE)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Shape("map", inner=shape_of(args[1]))
    return VALUE


@cache
def keys_of(model: type[BaseModel]) -> Mapping[str, str]:
    """The keys of a model as spelled in YAML, by folded key. Alternative names of a field map to its first name."""
    return {fold(name): names[0] for names, _ in fields_of(model) for name in names}


@cache
def shape_at(model: type[BaseModel], key: str) -> Shape:
    """The shape of the value under `key` of `model`, spelled as in YAML."""
    annotation: Any = field_at(model, key).annotation
    return shape_of(annotation)


def field_at(model: type[BaseModel], key: str) -> FieldInfo:
    """The field of `model` whose first name in YAML is `key`."""
    (field,) = [field for names, field in fields_of(model) if names[0] == key]
    return field


def range_of(model: type[BaseModel], path: Sequence[str | int]) -> Mapping[str, float]:
    """The bounds (`ge`, `gt`, `le`, `lt`) of the number at `path` within `model`, spelled as in the schema."""
    shape, bounds = Shape("model", model=model), {}
    for step in path:
        if isinstance(step, int) or shape.kind == "map":
            shape = shape.inner or VALUE
        elif shape.model is not None and fold(step) in keys_of(shape.model):
            key = keys_of(shape.model)[fold(step)]
            constraints = field_at(shape.model, key).metadata
            bounds = {b: getattr(c, b) for c in constraints for b in ("ge", "gt", "le", "lt") if hasattr(c, b)}
            shape = shape_at(shape.model, key)
        else:
            return {}
    return bounds


def identity_of(shape: Shape) -> tuple[str, ...]:
    """The keys that can hold the name of an item in a named list; empty for any other shape."""
    inner = shape.inner
    if shape.kind != "list" or inner is None or inner.model is None:
        return ()
    identity: tuple[str, ...] = getattr(inner.model, "identity", ())
    return identity


@cache
def fields_of(model: type[BaseModel]) -> list[tuple[tuple[str, ...], FieldInfo]]:
    """The fields with their names in YAML. The first name is the schema's spelling."""
    return [(_names(name, field), field) for name, field in model.model_fields.items()]


def _names(name: str, field: FieldInfo) -> tuple[str, ...]:
    if isinstance(field.validation_alias, AliasChoices):
        return tuple(str(choice) for choice in field.validation_alias.choices)
    return (field.alias or name,)
