"""Brings the keys of one layer into the schema's spelling, and tells the ones that it does not have."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from app.settings.errors import Faults, did_you_mean
from app.settings.shapes import Shape, fold, identity_of, keys_of, shape_at
from app.settings.tree import Entries, Entry, Items, Node, Scalar, is_null

ORDER_KEYS = ("before", "after")
"""Keys that a named list's item may have besides the schema's: where a layer puts a new item."""

Elsewhere = Callable[[str, Entries], str]
"""Takes a folded key and the mapping that it is in; says where it belongs, or nothing."""


def normalise(node: Node, shape: Shape, faults: Faults, elsewhere: Elsewhere, *, ordered: bool = False) -> Node:
    """`node` with known keys spelt as in the schema, unknown ones left out and told.

    A null where a mapping or a list is due is as good as nothing there. `ordered`: the node is an item of a named
    list, and may say where it stands.
    """
    match node:
        case Entries() if shape.kind == "model" and shape.model is not None:
            return _model(node, shape.model, faults, elsewhere, ordered=ordered)
        case Entries(entries, origin) if shape.kind == "map" and shape.inner is not None:
            inner = shape.inner
            return Entries(
                {key: Entry(e.origin, normalise(e.node, inner, faults, elsewhere)) for key, e in entries.items()},
                origin,
            )
        case Items(items, origin) if shape.kind == "list" and shape.inner is not None:
            inner, named = shape.inner, bool(identity_of(shape))
            normal = [normalise(item, inner, faults, elsewhere, ordered=named) for item in items]
            if named:
                _refuse_twins(normal, identity_of(shape), faults)
            return Items(tuple(normal), origin)
        case _:
            return node


def _model(node: Entries, model: type[BaseModel], faults: Faults, elsewhere: Elsewhere, *, ordered: bool) -> Entries:
    known = keys_of(model)
    found: dict[str, Entry] = {}
    for key, entry in node.entries.items():
        name = known.get(fold(key))
        if name is None and ordered and fold(key) in ORDER_KEYS:
            name = fold(key)
        if name is None:
            hint = elsewhere(fold(key), node) or did_you_mean(key, known.values())
            faults.error(entry.origin, f"unknown key {key!r}", hint)
        elif name in found:
            first = found[name].origin
            faults.error(entry.origin, f"the key {name!r} stands here and at {first}, spelt in two ways")
        else:
            shape = shape_at(model, name) if fold(name) in known else Shape("value")
            if is_null(entry.node) and shape.kind != "value":
                continue
            found[name] = Entry(entry.origin, normalise(entry.node, shape, faults, elsewhere))
    return Entries(found, node.origin)


def _refuse_twins(items: list[Node], identity: tuple[str, ...], faults: Faults) -> None:
    seen: dict[str, Node] = {}
    for item in items:
        name = name_of(item, identity)
        if name is None:
            continue
        if name in seen:
            faults.error(item.origin, f"{name!r} stands in this list twice", f"first at {seen[name].origin}")
        else:
            seen[name] = item


def name_of(item: Node, identity: tuple[str, ...]) -> str | None:
    """The name of a named list's item: the first of the keys that is set; of an item that is just text, the text."""
    if isinstance(item, Scalar) and isinstance(item.value, str):
        return item.value
    if not isinstance(item, Entries):
        return None
    for key in identity:
        node = item.get(key)
        if isinstance(node, Scalar) and node.value not in (None, ""):
            return str(node.value)
    return None
