"""Moves fields that are deprecated in the Go pickers to their new locations."""

from __future__ import annotations

from app.settings.errors import Faults
from app.settings.tree import Entries, Entry, Items, Node, is_null, kind


def without_deprecated(document: Entries, faults: Faults) -> Entries:
    """`document` with `parser` and `saturationDetector` moved, unless the new location is set as well."""
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
    is_set = not isinstance(parent, Entries) or _is_set(parent.get(name))
    new = ".".join(to)
    ignored = f" and has no effect, since {new} is set" if is_set else ""
    faults.warn(entry.origin, f"{key!r} is deprecated{ignored}", f"use {new}")
    if is_set or not isinstance(parent, Entries):
        return document
    node: Node = Items((entry.node,), entry.origin) if name == "parsers" else entry.node
    origin = document.entries[section].origin if section in document.entries else entry.origin
    return document.with_(section, Entry(origin, parent.with_(name, Entry(entry.origin, node))))


def _is_set(node: Node | None) -> bool:
    """Whether `node` is a list with items or a mapping that names a plugin."""
    if isinstance(node, Items):
        return bool(node.items)
    return isinstance(node, Entries) and bool(node.text("pluginRef"))
