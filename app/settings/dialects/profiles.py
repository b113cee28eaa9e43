"""Translates profiles of every form to lists of plugin references, and inline plugins to declared ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from app.settings.errors import Faults
from app.settings.keys import ORDER_KEYS, name_of
from app.settings.tree import Entries, Entry, Items, Node, Origin, Scalar, is_null, kind

_SECTIONS = {"filters": "filter", "scorers": "scorer", "picker": "picker"}
"""The role of the plugins in each section."""


class ProfileTranslation:
    """Translates the profiles of a document and collects their inline plugins."""

    def __init__(self, declared: Collection[str], faults: Faults) -> None:
        """`declared`: the names of the plugins that this document and earlier layers declare."""
        self._declared = declared
        self._faults = faults
        self.plugins: list[Entries] = []
        """The inline plugins found in profiles, as items of `plugins`."""
        self._found: set[str] = set()

    def profile(self, node: Node, *, inline: bool = False) -> Node:
        """The profile with all its plugins under `plugins`, each with a `pluginRef`.

        `inline`: the items of its `plugins` have the form of `PlacedPlugin`, not that of the schema.
        """
        if not isinstance(node, Entries):
            return node
        lists = [key for key in ("plugins", "plugin-references") if key in node.entries]
        sections = [key for key in _SECTIONS if key in node.entries]
        self._report_mixed_forms(node, lists, sections)
        if not sections and (not lists or (lists == ["plugins"] and not inline)):
            return node
        entries = [*self._listed(node, lists, inline=inline), *self._sectioned(node, sections)]
        origin = node.entries[(*lists, *sections)[0]].origin
        for key in (*lists, *sections):
            node = node.with_(key, None)
        return node.with_("plugins", Entry(origin, Items(tuple(_with_roles_merged(entries)), origin)))

    def _report_mixed_forms(self, node: Entries, lists: list[str], sections: list[str]) -> None:
        for other in (*lists, *sections)[1:] if lists else ():
            message = f"{other!r} can't be combined with {lists[0]!r} in a profile"
            hint = f"list all plugins under {lists[0]!r}, or none"
            self._faults.error(node.entries[other].origin, message, hint)

    def _listed(self, node: Entries, lists: list[str], *, inline: bool) -> Iterator[Node]:
        for key in lists:
            for item in self._items(node, key):
                if key == "plugin-references":
                    yield _reference_by_name(item)
                elif not inline:
                    yield item
                elif (entry := self._profile_entry(node, item)) is not None:
                    yield entry

    def _items(self, node: Entries, key: str) -> tuple[Node, ...]:
        content = node.entries[key].node
        if isinstance(content, Items):
            return _without_duplicates(content.items)
        self._faults.error(node.entries[key].origin, f"expected a list, found {kind(content)}")
        return ()

    def _sectioned(self, node: Entries, sections: list[str]) -> Iterator[Node]:
        for key in sections:
            for item in self._items(node, key) if key != "picker" else _unless_null(node.entries[key].node):
                entry = self._profile_entry(node, item)
                if entry is not None:
                    yield _with_role(entry, _SECTIONS[key])

    def _profile_entry(self, profile: Entries, item: Node) -> Entries | None:
        """The entry for a `PlacedPlugin`; None if it is invalid, which is reported."""
        if isinstance(item, Scalar) and isinstance(item.value, str):
            item = Entries({"name": Entry(item.origin, item)}, item.origin)
        if not isinstance(item, Entries):
            self._faults.error(item.origin, f"expected the name of a plugin or a mapping, found {kind(item)}")
            return None
        name = item.text("name", "type")
        if name is None:
            self._faults.error(item.origin, "a plugin needs a 'name' or a 'type' that is text")
            return None
        if name in self._declared:
            return self._reference(item, name)
        return self._inline_plugin(item, name, profile.text("name") or "")

    def _reference(self, item: Entries, name: str) -> Entries:
        """The entry for a declared plugin, whose type and parameters are set where it is declared."""
        for key in ("args", *(("type",) if "name" in item.entries else ())):
            if key in item.entries:
                self._faults.error(
                    item.entries[key].origin,
                    f"{key!r} can't be set for the declared plugin {name!r} in a profile",
                    "set it where the plugin is declared, or use another name",
                )
        return self._entry(item, name, lambda other: other)

    def _inline_plugin(self, item: Entries, name: str, profile: str) -> Entries:
        """The entry for an inline plugin, whose instance name is `PROFILE/NAME`."""

        def qualified(plugin: str) -> str:
            return plugin if plugin in self._declared else f"{profile}/{plugin}"

        key = "name" if item.text("name") else "type"
        origin = item.entries[key].origin
        spec = {"name": Entry(origin, Scalar(qualified(name), origin))}
        type_entry = item.entries.get("type") or item.entries["name"]
        if "type" in item.entries or qualified(name) not in self._declared:  # an earlier layer may have set the type
            spec["type"] = Entry(type_entry.origin, type_entry.node)
        for source, target in (("args", "parameters"), ("enabled", "enabled")):
            if source in item.entries:
                spec[target] = item.entries[source]
        if spec.keys() > {"name", "type"} or qualified(name) not in self._found:
            self._found.add(qualified(name))
            self.plugins.append(Entries(spec, item.origin))
        return self._entry(item, qualified(name), qualified)

    def _entry(self, item: Entries, name: str, qualified: Callable[[str], str]) -> Entries:
        origin = next(item.entries[key].origin for key in ("name", "type") if key in item.entries)
        entry = {"pluginRef": Entry(origin, Scalar(name, origin))}
        for key in ("weight", "enabled"):
            if key in item.entries:
                entry[key] = item.entries[key]
        for key in ORDER_KEYS:
            if isinstance(neighbour := item.get(key), Scalar):
                entry[key] = Entry(item.entries[key].origin, Scalar(qualified(str(neighbour.value)), neighbour.origin))
        return Entries(entry, item.origin)


def _reference_by_name(item: Node) -> Node:
    """An item of `plugin-references` with its `name` as `pluginRef`."""
    if not isinstance(item, Entries):
        return item
    return Entries({"pluginRef" if key == "name" else key: e for key, e in item.entries.items()}, item.origin)


def _without_duplicates(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """The items without those whose name occurred before. `normalise` reports them."""
    seen: set[str] = set()
    kept = []
    for item in items:
        name = name_of(item, ("name", "type"))
        if name is None or name not in seen:
            kept.append(item)
            seen.add(name or "")
    return tuple(kept)


def _unless_null(node: Node) -> tuple[Node, ...]:
    return () if is_null(node) else (node,)


def _with_role(entry: Entries, role: str) -> Entries:
    origin = entry.origin
    return entry.with_("as", Entry(origin, Items((Scalar(role, origin),), origin)))


def _with_roles_merged(entries: list[Node]) -> Iterator[Node]:
    """The entries. A plugin listed in several sections becomes one entry with all its roles."""
    seen: dict[str, Entries] = {}
    order: list[Node] = []
    for entry in entries:
        name = entry.text("pluginRef") if isinstance(entry, Entries) and "as" in entry.entries else None
        if not isinstance(entry, Entries) or name is None:
            order.append(entry)
        elif name in seen and _roles(seen[name]).isdisjoint(_roles(entry)):
            seen[name] = _merged(seen[name], entry)
            order = [seen[name] if isinstance(o, Entries) and o.text("pluginRef") == name else o for o in order]
        else:
            seen.setdefault(name, entry)
            order.append(entry)
    yield from order


def _roles(entry: Entries) -> set[object]:
    roles = entry.get("as")
    return {role.value for role in roles.items if isinstance(role, Scalar)} if isinstance(roles, Items) else set()


def _merged(first: Entries, second: Entries) -> Entries:
    roles = [role for entry in (first, second) for role in getattr(entry.get("as"), "items", ())]
    entries = {**second.entries, **first.entries}
    origin: Origin = first.entries["as"].origin
    return Entries({**entries, "as": Entry(origin, Items(tuple(roles), origin))}, first.origin)
