"""Describes a field of a model: its type and bounds in words, and its default."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.domain.durations import format_duration
from app.extension import PluginRef
from app.settings.types import Duration, Quantity

_DURATION = get_args(Duration)[1]
_QUANTITY = get_args(Quantity)[1]
_REFERENCE = type(get_args(PluginRef)[1])

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "text",
    Any: "any value",
}
_IN_LISTS = {"whole number": "whole numbers", "number": "numbers", "mapping": "mappings", "duration": "durations"}


def takes(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """The type of the YAML value for an annotation, such as `list of text`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if is_duration(metadata):
        return "duration"
    if _QUANTITY in metadata:
        return "quantity"
    if is_reference(metadata):
        return f"name of a {annotation.__name__}"
    if origin is Annotated:
        return takes(args[0], (*args[1:], *metadata))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(takes(arg) for arg in args if arg is not type(None)))
    if origin is Literal:
        return " or ".join(f"`{arg}`" for arg in args)
    return _container(origin, args) or _single(annotation)


def _container(origin: Any, args: tuple[Any, ...]) -> str:
    if not isinstance(origin, type) or not args:
        return ""
    if issubclass(origin, Mapping):
        inner = takes(args[1])
        return f"mapping of {_IN_LISTS.get(inner, inner)}"
    inner = takes(args[0])
    return f"list of {_IN_LISTS.get(inner, inner)}"


def _single(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return _WORDS.get(annotation) or str(getattr(annotation, "__name__", annotation))


def is_duration(metadata: Sequence[Any]) -> bool:
    """Whether a value with these annotations is a duration."""
    return _DURATION in metadata


def is_reference(metadata: Sequence[Any]) -> bool:
    """Whether a value with these annotations names a plugin."""
    return any(isinstance(item, _REFERENCE) for item in metadata)


def bounds_of(field: FieldInfo) -> Mapping[str, Any]:
    """The field's bounds by name: `ge`, `gt`, `le`, `lt`, `min_length`, `max_length`, `pattern`."""
    names = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
    found = ((name, getattr(item, name, None)) for item in _constraints(field) for name in names)
    return {name: bound for name, bound in found if bound is not None}


def _constraints(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for arg in (field.annotation, *get_args(field.annotation)):
        if get_origin(arg) is Annotated:
            for item in get_args(arg)[1:]:
                yield from item.metadata if isinstance(item, FieldInfo) else (item,)


def range_in_words(field: FieldInfo) -> str:
    """The field's bounds, such as `0 to 1`; empty if it has none."""
    bounds = bounds_of(field)
    seconds = takes(field.annotation, field.metadata) == "duration"

    def number(name: str) -> str:
        bound = bounds[name]
        if seconds:
            return format_duration(float(bound))
        return f"{bound:g}" if isinstance(bound, float) else str(bound)

    words = []
    if "ge" in bounds and "le" in bounds:
        words.append(f"{number('ge')} to {number('le')}")
    else:
        names = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        words += [f"{text} {number(name)}" for name, text in names.items() if name in bounds]
    if bounds.get("min_length"):
        words.append("not empty")
    if "pattern" in bounds:
        words.append(f"like `{bounds['pattern']}`")
    return ", ".join(words)


def default_of(model: type[BaseModel], attribute: str) -> Any:
    """The default as JSON, such as `250ms` for a duration; None if there is none, or it can't be shown."""
    if model.model_fields[attribute].is_required():
        return None
    try:
        defaults = model.model_construct()
        shown = defaults.model_dump_json(include={attribute}, by_alias=False, warnings=False)
        return json.loads(shown).get(attribute)
    except Exception:  # noqa: BLE001 - a third-party default may be anything
        return None
