"""Lays one layer over another."""

from __future__ import annotations

from app.settings.errors import Faults
from app.settings.keys import ORDER_KEYS, name_of
from app.settings.shapes import VALUE, Shape, fold, identity_of, keys_of, shape_at
from app.settings.tree import Entries, Entry, Items, Node, Scalar, is_null

REPLACED_TOGETHER = {"type": "parameters"}
"""A key whose change makes another key's inherited value meaningless."""


def merge(base: Node, over: Node, shape: Shape, faults: Faults) -> Node:
    """`over` laid over `base`: mappings by key, named lists by name, everything else replaced.

    A mapping laid over by null stays.
    """
    if isinstance(base, Entries) and isinstance(over, Entries):
        return _merge_entries(base, over, shape, faults)
    if isinstance(base, Entries) and is_null(over):
        return base
    if identity_of(shape) and isinstance(base, Items) and isinstance(over, Items):
        return _merge_named(base, over, shape, faults)
    return settled(over, shape, faults)


def settled(node: Node, shape: Shape, faults: Faults) -> Node:
    """`node` with nothing below it: new items of named lists are in their places."""
    if isinstance(node, Entries):
        return Entries(
            {key: Entry(e.origin, settled(e.node, _below(shape, key), faults)) for key, e in node.entries.items()},
            node.origin,
        )
    if isinstance(node, Items):
        if identity_of(shape):
            return _merge_named(Items((), node.origin), node, shape, faults)
        inner = shape.inner or VALUE
        return Items(tuple(settled(item, inner, faults) for item in node.items), node.origin)
    return node


def _merge_entries(base: Entries, over: Entries, shape: Shape, faults: Faults) -> Entries:
    entries = dict(base.entries)
    for key, dependent in REPLACED_TOGETHER.items():
        if shape.kind == "model" and _scalar(base.get(key)) != _scalar(over.get(key)) and over.get(key):
            entries.pop(dependent, None)
    for key, entry in over.entries.items():
        old = entries.get(key)
        below = _below(shape, key)
        if old is None:
            entries[key] = Entry(entry.origin, settled(entry.node, below, faults))
        else:
            entries[key] = Entry(entry.origin, merge(old.node, entry.node, below, faults))
    return Entries(entries, over.origin if not base.entries else base.origin)


def _merge_named(base: Items, over: Items, shape: Shape, faults: Faults) -> Items:
    identity, inner = identity_of(shape), shape.inner or VALUE
    items = list(base.items)
    for item in over.items:
        name = name_of(item, identity)
        place = next((i for i, old in enumerate(items) if name is not None and name_of(old, identity) == name), None)
        bare, beside = _without_order(item, faults)
        if place is not None:
            old = items[place]
            new = merge(old, bare, inner, faults)
            if beside is None:
                items[place] = new
                continue
            items.pop(place)
        else:
            new = settled(bare, inner, faults)
        items.insert(_position(items, identity, beside, faults), new)
    return Items(tuple(items), over.origin)


def _without_order(item: Node, faults: Faults) -> tuple[Node, tuple[str, Entry] | None]:
    """The item without `before` or `after`, and that one."""
    if not isinstance(item, Entries):
        return item, None
    given = [(key, item.entries[key]) for key in ORDER_KEYS if key in item.entries]
    for key, entry in given[1:]:
        faults.error(entry.origin, f"{key!r} and {given[0][0]!r} both say where this stands", "keep one")
    beside = given[0] if given else None
    for key in ORDER_KEYS:
        item = item.with_(key, None)
    return item, beside


def _position(items: list[Node], identity: tuple[str, ...], beside: tuple[str, Entry] | None, faults: Faults) -> int:
    if beside is None:
        return len(items)
    key, entry = beside
    names = [name_of(item, identity) for item in items]
    if not isinstance(entry.node, Scalar) or str(entry.node.value) not in names:
        listed = ", ".join(name for name in names if name)
        faults.error(entry.origin, f"nothing in this list has the name given to {key!r}", f"listed: {listed}")
        return len(items)
    return names.index(str(entry.node.value)) + (key == "after")


def _below(shape: Shape, key: str) -> Shape:
    if shape.kind == "model" and shape.model is not None and fold(key) in keys_of(shape.model):
        return shape_at(shape.model, key)
    return shape.inner or VALUE if shape.kind == "map" else VALUE


def _scalar(node: Node | None) -> object:
    return node.value if isinstance(node, Scalar) else None
