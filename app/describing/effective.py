"""The effective configuration: what was configured, the defaults, and what was added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.extension import Filter, Picker, Scorer
from app.planning.plan import Plan, PluginPlan, ProfilePlan
from app.settings.configuration import Configuration
from app.settings.picker_config import ProfileEntry
from app.settings.tree import DEFAULT, Entries, Entry, Items, Node, Origin, Scalar, origin_of
from app.settings.writer import write_yaml

Path = tuple[str | int, ...]


def effective(configuration: Configuration, plan: Plan, *, origins: bool = False) -> str:
    """The effective configuration as YAML. Loading it gives the same configuration, except that secrets are hidden.

    With `origins`, a comment says where each value came from: a place, `default`, or why it was added.
    """
    notes = "".join(f"# {' '.join(note.split())}\n" for note in plan.notes)
    return notes + write_yaml(_Effective(configuration, plan).tree(), origins=origins)


class _Effective:
    def __init__(self, configuration: Configuration, plan: Plan) -> None:
        self._configuration = configuration
        self._settings = configuration.settings
        self._plan = plan

    def tree(self) -> Entries:
        data = self._settings.model_dump(by_alias=True, exclude_none=True, mode="json")
        data["plugins"] = data["schedulingProfiles"] = None
        data["requestHandler"]["parsers"] = [{"pluginRef": name} for name in self._plan.parsers]
        written = self._node(data, ())
        assert isinstance(written, Entries)  # noqa: S101 - made from a mapping
        plugins = written.with_("plugins", Entry(DEFAULT, self._plugins()))
        return plugins.with_("schedulingProfiles", Entry(DEFAULT, self._profiles()))

    def _node(self, value: Any, path: Path, added: str = "") -> Node:
        origin = Origin(f"added: {added}") if added else origin_of(self._configuration.tree, path)
        match value:
            case dict():
                entries = {k: Entry(origin, self._node(v, (*path, k), added)) for k, v in value.items()}
                return Entries(entries, origin)
            case list() | tuple():
                return Items(tuple(self._node(v, (*path, i), added) for i, v in enumerate(value)), origin)
            case _:
                return Scalar(value, origin)

    def _plugins(self) -> Items:
        nodes = []
        for index, spec in enumerate(self._settings.plugins):
            plugin = self._plan.plugins.get(spec.key)
            if plugin is None:
                # Without its parameters: they are not validated, so nothing says which of them are secrets.
                data = {"name": spec.key, "type": spec.type, "enabled": False}
                nodes.append(self._node(data, ("plugins", index)))
            else:
                nodes.append(self._node(_plugin_data(plugin), ("plugins", index)))
        added = [plugin for plugin in self._plan.plugins.values() if plugin.added]
        nodes += [self._node(_plugin_data(plugin), (), plugin.added) for plugin in added]
        return Items(tuple(nodes), DEFAULT)

    def _profiles(self) -> Items:
        nodes: list[Node] = []
        specs = {spec.name: (index, spec) for index, spec in enumerate(self._settings.scheduling_profiles)}
        for profile in self._plan.profiles:
            if profile.name not in specs:
                data = {"name": profile.name, "plugins": _entries_of(profile, _names_of(profile))}
                nodes.append(self._node(data, (), "no profile is configured"))
                continue
            index, spec = specs[profile.name]
            path: Path = ("schedulingProfiles", index)
            kept = [
                (place, entry) for place, entry in enumerate(spec.plugins) if takes_part(entry, profile, self._plan)
            ]
            refs = [entry.plugin_ref for _, entry in kept]
            entries = [
                self._node({**data, **_roles_of(entry)}, (*path, "plugins", place))
                for (place, entry), data in zip(kept, _entries_of(profile, refs), strict=True)
            ]
            if profile.picker not in refs:
                entries.append(self._node({"pluginRef": profile.picker}, (), "a profile needs a picker"))
            name = self._node(profile.name, (*path, "name"))
            items = Items(tuple(entries), DEFAULT)
            nodes.append(Entries({"name": Entry(DEFAULT, name), "plugins": Entry(DEFAULT, items)}, DEFAULT))
        return Items(tuple(nodes), DEFAULT)


def takes_part(entry: ProfileEntry, profile: ProfilePlan, plan: Plan) -> bool:
    """Whether an entry is used: it is not if it is disabled, or a picker that a stronger layer replaced."""
    plugin = plan.plugins.get(entry.plugin_ref)
    if not entry.enabled or plugin is None:
        return False
    only_picks = plugin.type.serves(Picker) and not plugin.type.serves(Filter, Scorer)
    return plugin.name == profile.picker or not only_picks


def _roles_of(entry: ProfileEntry) -> dict[str, Any]:
    return {"as": list(entry.as_)} if entry.as_ else {}


def _plugin_data(plugin: PluginPlan) -> dict[str, Any]:
    parameters = plugin.params.model_dump(by_alias=True, exclude_none=True, mode="json")
    data: dict[str, Any] = {"name": plugin.name, "type": plugin.type_name}
    return {**data, "parameters": parameters} if parameters else data


def _names_of(profile: ProfilePlan) -> Sequence[str]:
    names = [*profile.filters, *(name for name, _ in profile.scorers), profile.picker]
    return list(dict.fromkeys(names))


def _entries_of(profile: ProfilePlan, names: Sequence[str]) -> list[dict[str, Any]]:
    weights = dict(profile.scorers)
    return [{"pluginRef": n, "weight": weights[n]} if n in weights else {"pluginRef": n} for n in names]
