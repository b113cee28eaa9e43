"""Profiles of every form become lists of entries that name plugins; plugins described in place become declared ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from app.settings.errors import Faults
from app.settings.keys import ORDER_KEYS, name_of
from app.settings.tree import Entries, Entry, Items, Node, Origin, Scalar, is_null, kind

_SECTIONS = {"filters": "filter", "scorers": "scorer", "picker": "picker"}
"""What a plugin is in each section."""


class ProfileTranslation:
    """Translates the profiles of one document, and collects the plugins that are described in them."""

    def __init__(self, declared: Collection[str], faults: Faults) -> None:
        """`declared` are the names of the plugins that this document and weaker layers declare."""
        self._declared = declared
        self._faults = faults
        self.plugins: list[Entries] = []
        """The plugins found in profiles, as items of `plugins`."""
        self._found: set[str] = set()

    def profile(self, node: Node, *, in_place: bool = False) -> Node:
        """The profile with everything under `plugins`, each entry with its `pluginRef`.

        `in_place`: its `plugins` may describe plugins, and name them by `name`.
        """
        if not isinstance(node, Entries):
            return node
        lists = [key for key in ("plugins", "plugin-references") if key in node.entries]
        sections = [key for key in _SECTIONS if key in node.entries]
        self._refuse_mixture(node, lists, sections)
        if not sections and (not lists or (lists == ["plugins"] and not in_place)):
            return node
        entries = [*self._listed(node, lists, in_place=in_place), *self._sectioned(node, sections)]
        origin = node.entries[(*lists, *sections)[0]].origin
        for key in (*lists, *sections):
            node = node.with_(key, None)
        return node.with_("plugins", Entry(origin, Items(tuple(_united(entries)), origin)))

    def _refuse_mixture(self, node: Entries, lists: list[str], sections: list[str]) -> None:
        for other in (*lists, *sections)[1:] if lists else ():
            message = f"{other!r} and {lists[0]!r} are of two forms, and a profile has one"
            hint = f"list its plugins under {lists[0]!r}, or none there"
            self._faults.error(node.entries[other].origin, message, hint)

    def _listed(self, node: Entries, lists: list[str], *, in_place: bool) -> Iterator[Node]:
        for key in lists:
            for item in self._items(node, key):
                if key == "plugin-references":
                    yield _by_name(item)
                elif not in_place:
                    yield item
                elif (entry := self._placed(node, item)) is not None:
                    yield entry

    def _items(self, node: Entries, key: str) -> tuple[Node, ...]:
        content = node.entries[key].node
        if isinstance(content, Items):
            return _each_once(content.items)
        self._faults.error(node.entries[key].origin, f"expected a list, found {kind(content)}")
        return ()

    def _sectioned(self, node: Entries, sections: list[str]) -> Iterator[Node]:
        for key in sections:
            for item in self._items(node, key) if key != "picker" else _unless_null(node.entries[key].node):
                entry = self._placed(node, item)
                if entry is not None:
                    yield _with_role(entry, _SECTIONS[key])

    def _placed(self, profile: Entries, item: Node) -> Entries | None:
        """An entry for a plugin that is named, or described, where it is used; None for what is told to be neither."""
        if isinstance(item, Scalar) and isinstance(item.value, str):
            item = Entries({"name": Entry(item.origin, item)}, item.origin)
        if not isinstance(item, Entries):
            self._faults.error(item.origin, f"expected the name of a plugin or a mapping, found {kind(item)}")
            return None
        called = item.text("name", "type")
        if called is None:
            self._faults.error(item.origin, "a plugin needs a 'name' or a 'type', as text")
            return None
        if called in self._declared:
            return self._reference(item, called)
        return self._own(item, called, profile.text("name") or "")

    def _reference(self, item: Entries, name: str) -> Entries:
        """A declared plugin, shared with whoever else names it: it is described where it is declared."""
        for key in ("args", *(("type",) if "name" in item.entries else ())):
            if key in item.entries:
                self._faults.error(
                    item.entries[key].origin,
                    f"{key!r} beside the name of the declared plugin {name!r}",
                    "set it where the plugin is declared, or give this one another name",
                )
        return self._entry(item, name, lambda other: other)

    def _own(self, item: Entries, called: str, profile: str) -> Entries:
        """A plugin of its own, named after the profile."""

        def full(name: str) -> str:
            return name if name in self._declared else f"{profile}/{name}"

        key = "name" if item.text("name") else "type"
        place = item.entries[key].origin
        spec = {"name": Entry(place, Scalar(full(called), place))}
        type_entry = item.entries.get("type") or item.entries["name"]
        if "type" in item.entries or full(called) not in self._declared:  # a weaker layer may have given its type
            spec["type"] = Entry(type_entry.origin, type_entry.node)
        for source, target in (("args", "parameters"), ("enabled", "enabled")):
            if source in item.entries:
                spec[target] = item.entries[source]
        if spec.keys() > {"name", "type"} or full(called) not in self._found:
            self._found.add(full(called))
            self.plugins.append(Entries(spec, item.origin))
        return self._entry(item, full(called), full)

    def _entry(self, item: Entries, name: str, full: Callable[[str], str]) -> Entries:
        place = next(item.entries[key].origin for key in ("name", "type") if key in item.entries)
        entry = {"pluginRef": Entry(place, Scalar(name, place))}
        for key in ("weight", "enabled"):
            if key in item.entries:
                entry[key] = item.entries[key]
        for key in ORDER_KEYS:
            if isinstance(beside := item.get(key), Scalar):
                entry[key] = Entry(item.entries[key].origin, Scalar(full(str(beside.value)), beside.origin))
        return Entries(entry, item.origin)


def _by_name(item: Node) -> Node:
    """An entry of `plugin-references`."""
    if not isinstance(item, Entries):
        return item
    return Entries({"pluginRef" if key == "name" else key: e for key, e in item.entries.items()}, item.origin)


def _each_once(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """The items less those whose name stands there already, which is told elsewhere."""
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
    place = entry.origin
    return entry.with_("as", Entry(place, Items((Scalar(role, place),), place)))


def _united(entries: list[Node]) -> Iterator[Node]:
    """The entries, those in two sections as one with both roles."""
    seen: dict[str, Entries] = {}
    order: list[Node] = []
    for entry in entries:
        name = entry.text("pluginRef") if isinstance(entry, Entries) and "as" in entry.entries else None
        if not isinstance(entry, Entries) or name is None:
            order.append(entry)
        elif name in seen and _roles(seen[name]).isdisjoint(_roles(entry)):
            seen[name] = _both(seen[name], entry)
            order = [seen[name] if isinstance(o, Entries) and o.text("pluginRef") == name else o for o in order]
        else:
            seen.setdefault(name, entry)
            order.append(entry)
    yield from order


def _roles(entry: Entries) -> set[object]:
    roles = entry.get("as")
    return {role.value for role in roles.items if isinstance(role, Scalar)} if isinstance(roles, Items) else set()


def _both(first: Entries, second: Entries) -> Entries:
    roles = [role for entry in (first, second) for role in getattr(entry.get("as"), "items", ())]
    united = {**second.entries, **first.entries}
    origin: Origin = first.entries["as"].origin
    return Entries({**united, "as": Entry(origin, Items(tuple(roles), origin))}, first.origin)
