"""Single values: `--set path.to[name].key=value`, and files of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.settings.errors import Faults, UsageError
from app.settings.keys import normalise
from app.settings.merging import merge
from app.settings.reader import read_scalar, read_yaml
from app.settings.schema import Settings
from app.settings.shapes import Shape, fold, identity_of, keys_of, shape_at
from app.settings.tree import Entries, Entry, Items, Node, Origin, Scalar
from app.settings.writer import write_yaml

ROOT = Shape("model", model=Settings)

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")


def overlay(sets: Sequence[str]) -> str:
    """A YAML document that has the same effect as these values of `--set`. Raises `UsageError`."""
    faults = Faults()
    merged: Node = Entries({}, Origin("overlay"))
    for text in sets:
        merged = merge(merged, normalise(set_layer(text, faults), ROOT, faults, _no_hint), ROOT, faults)
    if faults:
        raise UsageError("; ".join(map(str, faults.errors)))
    assert isinstance(merged, Entries)  # noqa: S101 - mappings merge to a mapping
    return write_yaml(merged)


def _no_hint(_key: str, _node: Entries) -> str:
    return ""


def set_layer(text: str, faults: Faults) -> Entries:
    """The layer of one `path=value`. Errors in the value go to `faults`. Raises `UsageError` if it is malformed."""
    path, equals, value = text.partition("=")
    steps = _steps(path)
    if not equals or not steps:
        raise UsageError(f"--set {path}: expected path=value, such as pool.scrape.interval=2s")
    origin = Origin(f"--set {path}")
    return nested(steps, _value(value, origin, faults), origin)


def _value(text: str, origin: Origin, faults: Faults) -> Node:
    found = Faults()
    read = read_yaml(f"value: {text}", origin.source, found)
    for fault in found.errors:
        faults.error(origin, fault.message, fault.hint)
    if read.entries.keys() - {"value"}:
        faults.error(origin, "expected a single value, found several keys")
    node = read.get("value")
    return _with_origin(node, origin) if node is not None else Scalar(None, origin)


def _with_origin(node: Node, origin: Origin) -> Node:
    """`node` with origins in the `--set`: its source, a path within the value, and no line."""
    path = node.origin.path.removeprefix("value").lstrip(".")
    own = Origin(origin.source, path=path)
    match node:
        case Entries(entries):
            moved = {
                key: Entry(
                    Origin(origin.source, path=e.origin.path.removeprefix("value.")), _with_origin(e.node, origin)
                )
                for key, e in entries.items()
            }
            return Entries(moved, own)
        case Items(items):
            return Items(tuple(_with_origin(item, origin) for item in items), own)
        case Scalar(value):
            return Scalar(value, own)


def _steps(path: str) -> list[tuple[str, str | None]]:
    """`plugins[a].type` as `[("plugins", "a"), ("type", None)]`; empty if the path is malformed."""
    steps: list[tuple[str, str | None]] = []
    end = 0
    while end < len(path):
        match = _STEP.match(path, end)
        if match is None or (match[2] is not None and (not steps or steps[-1][1] is not None)):
            return []
        if match[1] is not None:
            steps.append((match[1], None))
        else:
            steps[-1] = (steps[-1][0], match[2])
        end = match.end()
    return steps


def nested(steps: Sequence[tuple[str, str | None]], value: Node, origin: Origin) -> Entries:
    """A tree that contains only `value`, at the path `steps`."""
    return _nested_in(steps, ROOT, value, origin)


def _nested_in(steps: Sequence[tuple[str, str | None]], shape: Shape, value: Node, origin: Origin) -> Entries:
    (key, name), rest = steps[0], steps[1:]
    known = keys_of(shape.model).get(fold(key)) if shape.model is not None else None
    inner = shape_at(shape.model, known) if shape.model is not None and known else Shape("value")
    if name is None:
        node = _nested_in(rest, inner, value, origin) if rest else value
    else:
        node = Items((_named_item(name, rest, inner, value, origin),), origin)
    return Entries({key: Entry(origin, node)}, origin)


def _named_item(name: str, rest: Sequence[tuple[str, str | None]], shape: Shape, value: Node, origin: Origin) -> Node:
    identity = identity_of(shape) or ("name",)
    item = _nested_in(rest, shape.inner or Shape("value"), value, origin) if rest else value
    if not isinstance(item, Entries) or identity[0] in item.entries:
        return item
    read = read_scalar(name) if identity == ("priority",) else name
    return Entries({identity[0]: Entry(origin, Scalar(read, origin)), **item.entries}, item.origin)
