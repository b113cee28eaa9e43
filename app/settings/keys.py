"""Normalises the keys of a layer to the schema's spelling and reports unknown keys."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from app.settings.errors import Faults, did_you_mean
from app.settings.shapes import Shape, fold, identity_of, keys_of, shape_at
from app.settings.tree import Entries, Entry, Items, Node, Scalar, is_null

ORDER_KEYS = ("before", "after")
"""Extra keys of items in a named list, which position the item relative to another one."""

PlacementHint = Callable[[str, Entries], str]
"""Takes an unknown folded key and its mapping. Returns a hint at where the key belongs, or an empty string."""


def normalise(node: Node, shape: Shape, faults: Faults, hint: PlacementHint, *, ordered: bool = False) -> Node:
    """`node` with its known keys spelled as in the schema. Unknown keys are reported and removed.

    A null in place of a mapping or a list counts as absent. `ordered`: the node is an item of a named list and may
    have `ORDER_KEYS`.
    """
    match node:
        case Entries() if shape.kind == "model" and shape.model is not None:
            return _normalise_model(node, shape.model, faults, hint, ordered=ordered)
        case Entries(entries, origin) if shape.kind == "map" and shape.inner is not None:
            inner = shape.inner
            return Entries(
                {key: Entry(e.origin, normalise(e.node, inner, faults, hint)) for key, e in entries.items()},
                origin,
            )
        case Items(items, origin) if shape.kind == "list" and shape.inner is not None:
            inner, named = shape.inner, bool(identity_of(shape))
            normal = [normalise(item, inner, faults, hint, ordered=named) for item in items]
            if named:
                _report_duplicates(normal, identity_of(shape), faults)
            return Items(tuple(normal), origin)
        case _:
            return node


def _normalise_model(
    node: Entries, model: type[BaseModel], faults: Faults, hint: PlacementHint, *, ordered: bool
) -> Entries:
    known = keys_of(model)
    found: dict[str, Entry] = {}
    for key, entry in node.entries.items():
        name = known.get(fold(key))
        if name is None and ordered and fold(key) in ORDER_KEYS:
            name = fold(key)
        if name is None:
            faults.error(
                entry.origin, f"unknown key {key!r}", hint(fold(key), node) or did_you_mean(key, known.values())
            )
        elif name in found:
            first = found[name].origin
            faults.error(entry.origin, f"duplicate key {name!r}, first at {first} in another spelling")
        else:
            shape = shape_at(model, name) if fold(name) in known else Shape("value")
            if is_null(entry.node) and shape.kind != "value":
                continue
            found[name] = Entry(entry.origin, normalise(entry.node, shape, faults, hint))
    return Entries(found, node.origin)


def _report_duplicates(items: list[Node], identity: tuple[str, ...], faults: Faults) -> None:
    seen: dict[str, Node] = {}
    for item in items:
        name = name_of(item, identity)
        if name is None:
            continue
        if name in seen:
            faults.error(item.origin, f"duplicate name {name!r} in this list", f"first at {seen[name].origin}")
        else:
            seen[name] = item


def name_of(item: Node, identity: tuple[str, ...]) -> str | None:
    """The name of an item in a named list: the first non-empty value under `identity`, or the item itself if text."""
    if isinstance(item, Scalar) and isinstance(item.value, str):
        return item.value
    if not isinstance(item, Entries):
        return None
    for key in identity:
        node = item.get(key)
        if isinstance(node, Scalar) and node.value not in (None, ""):
            return str(node.value)
    return None
