"""Merges one layer over another."""

from __future__ import annotations

from app.settings.errors import Faults
from app.settings.keys import ORDER_KEYS, name_of
from app.settings.shapes import VALUE, Shape, fold, identity_of, keys_of, shape_at
from app.settings.tree import Entries, Entry, Items, Node, Scalar, is_null

REPLACED_TOGETHER = {"type": "parameters"}
"""Keys whose change discards the inherited value of another key."""


def merge(base: Node, over: Node, shape: Shape, faults: Faults) -> Node:
    """`over` merged over `base`: mappings by key, named lists by name, anything else is replaced.

    A null over a mapping keeps the mapping.
    """
    if isinstance(base, Entries) and isinstance(over, Entries):
        return _merge_entries(base, over, shape, faults)
    if isinstance(base, Entries) and is_null(over):
        return base
    if identity_of(shape) and isinstance(base, Items) and isinstance(over, Items):
        return _merge_named(base, over, shape, faults)
    return with_items_placed(over, shape, faults)


def with_items_placed(node: Node, shape: Shape, faults: Faults) -> Node:
    """`node` with the items of its named lists moved to where `before` and `after` put them."""
    if isinstance(node, Entries):
        return Entries(
            {
                key: Entry(e.origin, with_items_placed(e.node, _shape_of_value(shape, key), faults))
                for key, e in node.entries.items()
            },
            node.origin,
        )
    if isinstance(node, Items):
        if identity_of(shape):
            return _merge_named(Items((), node.origin), node, shape, faults)
        inner = shape.inner or VALUE
        return Items(tuple(with_items_placed(item, inner, faults) for item in node.items), node.origin)
    return node


def _merge_entries(base: Entries, over: Entries, shape: Shape, faults: Faults) -> Entries:
    entries = dict(base.entries)
    for key, dependent in REPLACED_TOGETHER.items():
        if shape.kind == "model" and _scalar(base.get(key)) != _scalar(over.get(key)) and over.get(key):
            entries.pop(dependent, None)
    for key, entry in over.entries.items():
        old = entries.get(key)
        inner = _shape_of_value(shape, key)
        if old is None:
            entries[key] = Entry(entry.origin, with_items_placed(entry.node, inner, faults))
        else:
            entries[key] = Entry(entry.origin, merge(old.node, entry.node, inner, faults))
    return Entries(entries, over.origin if not base.entries else base.origin)


def _merge_named(base: Items, over: Items, shape: Shape, faults: Faults) -> Items:
    identity, inner = identity_of(shape), shape.inner or VALUE
    items = list(base.items)
    for item in over.items:
        name = name_of(item, identity)
        index = next((i for i, old in enumerate(items) if name is not None and name_of(old, identity) == name), None)
        bare, order = _without_order(item, faults)
        if index is not None:
            old = items[index]
            new = merge(old, bare, inner, faults)
            if order is None:
                items[index] = new
                continue
            items.pop(index)
        else:
            new = with_items_placed(bare, inner, faults)
        items.insert(_position(items, identity, order, faults), new)
    return Items(tuple(items), over.origin)


def _without_order(item: Node, faults: Faults) -> tuple[Node, tuple[str, Entry] | None]:
    """The item without `before` and `after`, and the one of them that it has."""
    if not isinstance(item, Entries):
        return item, None
    given = [(key, item.entries[key]) for key in ORDER_KEYS if key in item.entries]
    for key, entry in given[1:]:
        faults.error(entry.origin, f"{key!r} and {given[0][0]!r} are mutually exclusive", "keep one")
    order = given[0] if given else None
    for key in ORDER_KEYS:
        item = item.with_(key, None)
    return item, order


def _position(items: list[Node], identity: tuple[str, ...], order: tuple[str, Entry] | None, faults: Faults) -> int:
    if order is None:
        return len(items)
    key, entry = order
    names = [name_of(item, identity) for item in items]
    if not isinstance(entry.node, Scalar) or str(entry.node.value) not in names:
        listed = ", ".join(name for name in names if name)
        faults.error(entry.origin, f"no item in this list has the name given in {key!r}", f"names: {listed}")
        return len(items)
    return names.index(str(entry.node.value)) + (key == "after")


def _shape_of_value(shape: Shape, key: str) -> Shape:
    if shape.kind == "model" and shape.model is not None and fold(key) in keys_of(shape.model):
        return shape_at(shape.model, key)
    return shape.inner or VALUE if shape.kind == "map" else VALUE


def _scalar(node: Node | None) -> object:
    return node.value if isinstance(node, Scalar) else None
