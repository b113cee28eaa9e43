"""Fields that the Go pickers still read and warn of, moved to where they belong now."""

from __future__ import annotations

from app.settings.errors import Faults
from app.settings.tree import Entries, Entry, Items, Node, is_null, kind


def without_deprecated(document: Entries, faults: Faults) -> Entries:
    """`document` with `parser` and `saturationDetector` in their new places, unless these are taken."""
    document = _moved(document, "parser", ("requestHandler", "parsers"), faults)
    return _moved(document, "saturationDetector", ("flowControl", "saturationDetector"), faults)


def _moved(document: Entries, key: str, to: tuple[str, str], faults: Faults) -> Entries:
    entry = document.entries.get(key)
    if entry is None or is_null(entry.node):
        return document.with_(key, None)
    document = document.with_(key, None)
    section, name = to
    parent = document.get(section) or Entries({}, entry.origin)
    if not isinstance(entry.node, Entries):
        faults.error(entry.origin, f"expected a mapping, found {kind(entry.node)}")
        return document
    taken = not isinstance(parent, Entries) or _is_set(parent.get(name))
    what = f"deprecated and does nothing beside {'.'.join(to)}" if taken else "deprecated"
    faults.warn(entry.origin, f"{key!r} is {what}", f"it belongs in {'.'.join(to)} now")
    if taken or not isinstance(parent, Entries):
        return document
    node: Node = Items((entry.node,), entry.origin) if name == "parsers" else entry.node
    place = document.entries[section].origin if section in document.entries else entry.origin
    return document.with_(section, Entry(place, parent.with_(name, Entry(entry.origin, node))))


def _is_set(node: Node | None) -> bool:
    """Whether something is written there: a list with items, or a mapping that names a plugin."""
    if isinstance(node, Items):
        return bool(node.items)
    return isinstance(node, Entries) and bool(node.text("pluginRef"))
