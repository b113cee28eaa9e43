"""Translates documents from every form to that of the schema.

Works on trees, so that every value keeps its origin. Keys must be spelled as in `forms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from app.settings.dialects.deprecated import without_deprecated
from app.settings.dialects.forms import PickingProfile
from app.settings.dialects.profiles import ProfileTranslation
from app.settings.errors import Faults
from app.settings.keys import name_of
from app.settings.picker_config import PluginSpec
from app.settings.shapes import fold, keys_of
from app.settings.tree import Entries, Entry, Items, Node, Scalar, kind

DECLARED, PROFILES, PICKING = "plugin_references", "schedulingProfiles", "endpointPickingProfiles"
BY_NAME = "plugin-references"

_EXCLUSIVE = (("plugins", DECLARED), (PROFILES, PICKING), (DECLARED, PICKING))
"""Keys of different forms, which can't be combined in a document."""


def to_current(document: Entries, inherited: Collection[str], faults: Faults) -> Entries:
    """`document` in the form of the schema. `inherited`: the names of the plugins that earlier layers declare."""
    _report_mixed_forms(document, faults)
    document = without_deprecated(document, faults)
    for key in (DECLARED, PICKING):
        if key in document.entries and not isinstance(document.entries[key].node, Items):
            faults.error(document.entries[key].origin, f"expected a list, found {kind(document.entries[key].node)}")
    plugins = _declared_plugins(document)
    names = {*inherited, *(name for item in plugins if (name := name_of(item, PluginSpec.identity)))}
    translation = ProfileTranslation(names, faults)
    new_profiles = (
        *(translation.profile(profile) for profile in _items_of(document, PROFILES)),
        *(translation.profile(profile, inline=True) for profile in _items_of(document, PICKING)),
    )
    current = document.with_(DECLARED, None).with_(PICKING, None)
    items = (*plugins, *translation.plugins)
    current = _with_items(current, "plugins", items, document, ("plugins", DECLARED, PROFILES, PICKING))
    return _with_items(current, PROFILES, new_profiles, document, (PROFILES, PICKING))


def _with_items(
    current: Entries, key: str, items: tuple[Node, ...], document: Entries, sources: tuple[str, ...]
) -> Entries:
    """`current` with the list `items` under `key`. Its origin is that of the first of `sources` in the document."""
    written = current.entries.get(key)
    if not items or (written is not None and not isinstance(written.node, Items)):
        return current
    origin = next(document.entries[source].origin for source in sources if source in document.entries)
    return current.with_(key, Entry(origin, Items(items, origin)))


def _report_mixed_forms(document: Entries, faults: Faults) -> None:
    for one, other in _EXCLUSIVE:
        if one in document.entries and other in document.entries:
            first = document.entries[one].origin
            faults.error(
                document.entries[other].origin,
                f"{other!r} can't be combined with {one!r} at {first} in one document",
                f"use only {one!r}, or split the document into two files",
            )
    named = [
        p.entries[BY_NAME] for p in _items_of(document, PROFILES) if isinstance(p, Entries) and BY_NAME in p.entries
    ]
    if "plugins" in document.entries and named:
        faults.error(
            named[0].origin,
            f"{BY_NAME!r} can't be combined with 'plugins' in one document",
            "list pluginRef and weight under the plugins of the profile",
        )


def _declared_plugins(document: Entries) -> tuple[Node, ...]:
    """The items of `plugins`, and those of `plugin_references` with `plugin` renamed to `type`."""
    named = (_renamed(item, "plugin", "type") for item in _items_of(document, DECLARED))
    return (*_items_of(document, "plugins"), *named)


def _items_of(document: Entries, key: str) -> tuple[Node, ...]:
    node = document.get(key)
    return node.items if isinstance(node, Items) else ()


def _renamed(item: Node, old: str, new: str) -> Node:
    if not isinstance(item, Entries) or old not in item.entries:
        return item
    return Entries({new if key == old else key: entry for key, entry in item.entries.items()}, item.origin)


def expand_short_profiles(layer: Entries, faults: Faults) -> Entries:
    """`layer` with every `- name: [plugins]` in `endpointPickingProfiles` as a mapping of `name` and `plugins`."""
    key = next((key for key in layer.entries if fold(key) == fold(PICKING)), None)
    node = layer.get(key) if key is not None else None
    if key is None or not isinstance(node, Items):
        return layer
    items = tuple(profile for item in node.items for profile in _short_profiles(item, faults))
    return layer.with_(key, Entry(layer.entries[key].origin, Items(items, node.origin)))


def _short_profiles(item: Node, faults: Faults) -> Iterator[Node]:
    if not isinstance(item, Entries) or keys_of(PickingProfile).keys() & set(map(fold, item.entries)):
        yield item  # already a mapping with known keys; a missing name is reported later
        return
    for name, entry in item.entries.items():
        if not isinstance(entry.node, Items):
            hint = "write '- name: [plugins]', or a mapping with 'name' and 'plugins'"
            faults.error(
                entry.origin, f"expected the plugins of the profile {name!r} as a list, found {kind(entry.node)}", hint
            )
            continue
        yield _short_profile(name, entry)


def _short_profile(name: str, entry: Entry) -> Entries:
    return Entries({"name": Entry(entry.origin, Scalar(name, entry.origin)), "plugins": entry}, entry.origin)
