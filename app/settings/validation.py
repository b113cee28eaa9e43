"""Validates the merged tree as `Settings` and reports every invalid value at its position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from app.settings.dialects.forms import key_in_form
from app.settings.errors import Faults, did_you_mean
from app.settings.schema import API_VERSIONS, Settings
from app.settings.shapes import range_of
from app.settings.tree import Entries, Node, Origin, Scalar, exists, kind_of, locate, node_at, without

_SECRET = re.compile(r"secret|password|passwd|token$|api[-_]?key|credential", re.IGNORECASE)
_CREDENTIALS = re.compile(r"[^\s/@:]*:[^\s/@]+@")
"""User name and password before a host."""
_MAX_DISPLAYED = 60
"""Characters of a value in an error message."""


def validate(tree: Entries, faults: Faults) -> tuple[Settings, Entries]:
    """The settings in `tree`, and the tree without its invalid values.

    Invalid values are reported to `faults` and removed, so that everything else can be validated too.
    """
    repaired: set[Origin] = set()
    while True:
        repaired_before = frozenset(repaired)
        try:
            settings = Settings.of(tree)
        except ValidationError as error:
            left: Node | None = tree
            for fault in sorted(error.errors(include_url=False), key=_removal_order, reverse=True):
                parent = locate(tree, fault["loc"][:-1])
                if fault["type"] != "missing" or parent not in repaired_before:  # otherwise removed by a repair
                    report(fault, tree, faults)
                if fault["type"] != "missing":
                    repaired.add(parent)
                left = without(left, fault["loc"]) if left is not None else None
            tree = left if isinstance(left, Entries) else Entries({}, tree.origin)
        else:
            _check_version_and_kind(settings, tree, faults)
            return settings, tree


def _removal_order(fault: Any) -> list[tuple[int, str]]:
    """A sort key. In reverse order, removing an item of a list doesn't shift the items still to be removed."""
    return [(step, "") if isinstance(step, int) else (-1, step) for step in fault["loc"]]


def report(
    fault: Any, tree: Node, faults: Faults, base: Sequence[str | int] = (), model: type[BaseModel] = Settings
) -> None:
    """Adds a pydantic error to `faults`. `base` is the path in `tree` of the value that was validated as `model`."""
    path = (*base, *_without_branches(fault["loc"], tree, base))
    origin = locate(tree, path)
    if fault["type"] == "missing":
        if not faults.suggests(origin, str(fault["loc"][-1])):
            key = key_in_form(str(fault["loc"][-1]), origin.path)
            named = key == "type" and exists(tree, (*path[:-1], "name"))
            hint = "it may be omitted only if an earlier layer declares a plugin of this name" if named else ""
            faults.error(origin, f"the key {key!r} is missing", hint)
        return
    message, hint = _message_and_hint(fault, range_of(model, path[len(base) :]))
    message = message or _pydantic_message(fault)
    found = f", found {_displayed(_written_value(fault, tree, path), path)}" if message.startswith("expected") else ""
    faults.error(origin, f"{message}{found}", hint)


def _without_branches(steps: Sequence[str | int], tree: Node, base: Sequence[str | int]) -> list[str | int]:
    """`steps` without those that pydantic adds for the branches of a union, which are not keys in `tree`."""
    path: list[str | int] = []
    for step in steps:
        branch = isinstance(step, str) and ("[" in step or step in _BRANCHES)
        if not branch or exists(tree, (*base, *path, step)):
            path.append(step)
    return path


_BRANCHES = ("str", "int", "float", "bool", "none")


_KINDS: Mapping[str, str] = {
    "model_type": "expected a mapping",
    "dict_type": "expected a mapping",
    "mapping_type": "expected a mapping",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "set_type": "expected a list",
    "frozen_set_type": "expected a list",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "int_parsing_size": "expected a smaller number",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def _message_and_hint(fault: Any, bounds: Mapping[str, float]) -> tuple[str, str]:
    """Our message for a pydantic error, empty if there is none for its type, and a hint."""
    kind, context = fault["type"], fault.get("ctx") or {}
    if kind in _BOUNDS:
        _, bound = _BOUNDS[kind]
        return f"expected a number {_range({**bounds, bound: context[bound]})}", ""
    if kind == "string_too_short":
        return "expected non-empty text", ""
    if kind == "string_pattern_mismatch":
        return f"expected text that matches {context['pattern']}", ""
    if kind == "literal_error":
        options = [option.strip("'") for option in re.findall(r"'[^']*'", context["expected"])]
        hint = did_you_mean(fault["input"], options) if isinstance(fault["input"], str) else ""
        return f"expected {context['expected']}", hint if hint.startswith("did") else ""
    if kind == "string_type" and isinstance(fault["input"], bool | int | float):
        return _KINDS[kind], "quote it"
    return _KINDS.get(kind, ""), ""


def _range(bounds: Mapping[str, float]) -> str:
    """`bounds` in words."""
    if bounds.keys() == {"ge", "le"}:
        return f"from {_number(bounds['ge'])} to {_number(bounds['le'])}"
    ordered = [(word, bounds[bound]) for word, bound in _BOUNDS.values() if bound in bounds]
    return "of " + " and ".join(f"{word} {_number(value)}" for word, value in ordered)


def _pydantic_message(fault: Any) -> str:
    return str(fault["msg"]).removeprefix("Value error, ")


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _written_value(fault: Any, tree: Node, path: Sequence[str | int]) -> Any:
    """The value as written in the tree. Validators may have converted it since."""
    node = node_at(tree, path)
    return node.value if isinstance(node, Scalar) else fault["input"]


def _displayed(value: Any, path: Sequence[str | int]) -> str:
    """The value for an error message: verbatim if it is short and no secret, otherwise only its kind."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    secret = any(isinstance(step, str) and _SECRET.search(step) for step in path)
    if value is None or not isinstance(value, str | int | float) or secret:
        return kind_of(value)
    text = repr(value) if isinstance(value, str) else str(value)
    if len(text) > _MAX_DISPLAYED:
        return f"{kind_of(value)} of {len(text)} characters"
    if _CREDENTIALS.search(text):
        return kind_of(value)
    return f"the text {text}" if isinstance(value, str) else text


def _check_version_and_kind(settings: Settings, tree: Entries, faults: Faults) -> None:
    if settings.api_version not in API_VERSIONS:
        known = " or ".join(API_VERSIONS)
        faults.error(_at(tree, "apiVersion"), f"expected {known}, found {settings.api_version!r}")
    elif settings.api_version != API_VERSIONS[0]:
        faults.warn(_at(tree, "apiVersion"), "this version is deprecated", f"use {API_VERSIONS[0]}")
    if settings.kind != "EndpointPickerConfig":
        faults.error(_at(tree, "kind"), f"expected EndpointPickerConfig, found {settings.kind!r}")


def _at(tree: Entries, key: str) -> Origin:
    return locate(tree, (key,))
