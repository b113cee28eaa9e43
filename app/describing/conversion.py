"""Converts a configuration of any form to a plain `EndpointPickerConfig`, the form of the Go pickers."""

from __future__ import annotations

from typing import Any

from app.describing.effective import takes_part
from app.extension import Filter, Picker, Scorer
from app.planning.plan import Plan, PluginPlan, ProfilePlan
from app.planning.profiles import SINGLE
from app.settings.configuration import Configuration
from app.settings.schema import API_VERSIONS
from app.settings.tree import DEFAULT, Entries, as_node, plain
from app.settings.writer import write_yaml

_SECTIONS = ("featureGates", "plugins", "schedulingProfiles", "dataLayer", "flowControl", "requestHandler")


def converted(configuration: Configuration, plan: Plan) -> str:
    """Equivalent YAML, without defaults and without anything that is disabled.

    Plugins described in place become declared plugins, and aliases become the names of their types. Several profiles
    without a profile picker get the one that is added here. Pointsman's own sections follow unchanged.
    """
    written = plain(configuration.tree)
    sections: dict[str, Any] = {
        **written,
        "plugins": [_plugin(plugin) for plugin in _kept_plugins(plan)],
        "schedulingProfiles": [_profile(profile, configuration, plan) for profile in plan.profiles],
    }
    if not written.get("schedulingProfiles"):
        del sections["schedulingProfiles"]
    ordered = {"apiVersion": API_VERSIONS[0], "kind": "EndpointPickerConfig"}
    ordered |= {key: sections[key] for key in _SECTIONS if sections.get(key)}
    ordered |= {key: value for key, value in written.items() if key not in (*_SECTIONS, *ordered)}
    tree = as_node(ordered, DEFAULT)
    assert isinstance(tree, Entries)  # noqa: S101 - made from a mapping
    return write_yaml(tree)


def _kept_plugins(plan: Plan) -> list[PluginPlan]:
    """The configured plugins, and a profile picker that was added here but that the Go pickers would not add."""
    needed = plan.profile_picker if plan.profile_picker != SINGLE else ""
    return [plugin for plugin in plan.plugins.values() if not plugin.added or plugin.name == needed]


def _plugin(plugin: PluginPlan) -> dict[str, Any]:
    type_name = plugin.type.mark.type if ":" not in plugin.type_name else plugin.type_name
    data: dict[str, Any] = {"name": plugin.name} if plugin.name != type_name else {}
    data["type"] = type_name
    given = plugin.params.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return {**data, "parameters": given} if given else data


def _profile(profile: ProfilePlan, configuration: Configuration, plan: Plan) -> dict[str, Any]:
    specs = {spec.name: spec for spec in configuration.settings.scheduling_profiles}
    entries = []
    for entry in specs[profile.name].plugins if profile.name in specs else ():
        if not takes_part(entry, profile, plan):
            continue
        data: dict[str, Any] = {"pluginRef": entry.plugin_ref}
        if entry.weight is not None:
            data["weight"] = entry.weight
        possible = [role for role, point in _POINTS.items() if plan.plugins[entry.plugin_ref].type.serves(point)]
        if entry.as_ and set(entry.as_) != set(possible):
            data["as"] = list(entry.as_)
        entries.append(data)
    return {"name": profile.name, "plugins": entries}


_POINTS = {"filter": Filter, "scorer": Scorer, "picker": Picker}
