"""A plan in the making: the instances so far, and where to complain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from app.catalogue.catalogue import Catalogue, PluginType
from app.catalogue.loading import PluginTypeError
from app.extension import AnyFactKey, PluginParams
from app.planning.plan import PluginPlan, Reference
from app.settings.configuration import Configuration
from app.settings.errors import Faults, did_you_mean
from app.settings.keys import name_of
from app.settings.picker_config import PluginSpec
from app.settings.schema import Settings
from app.settings.tree import Entries, Items, Origin, find_text, node_at
from app.settings.validation import report

ADDED = Origin("added")
"""The place of what no layer says."""


@dataclass
class PlanBuilder:
    """What the steps of planning share."""

    configuration: Configuration
    catalogue: Catalogue
    plugins: dict[str, PluginPlan] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    """Names that something refers to."""
    notes: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        """What was configured."""
        return self.configuration.settings

    @property
    def faults(self) -> Faults:
        """Where errors and warnings go."""
        return self.configuration.faults

    def serving(self, *points: type) -> Iterator[PluginPlan]:
        """The instances that serve one of the extension points, in order."""
        return (plugin for plugin in list(self.plugins.values()) if plugin.type.serves(*points))

    def add(self, type_name: str, why: str, parameters: object = None, origin: Origin = ADDED) -> PluginPlan | None:
        """Adds an instance that the configuration does not list, under its type's name.

        None if the configuration disables it, which is for the caller to tell, or has something else under that name.
        """
        if type_name in self.disabled:
            return None
        if type_name in self.plugins:
            at = self.origin_of_plugin(type_name, "name")
            self.faults.error(
                at, f"the name {type_name!r} is needed for the plugin of that type: {why}", "choose another"
            )
            return None
        found = self._instance(type_name, type_name, parameters, origin, origin, why)
        if found is not None:
            self.plugins[type_name] = found
            self.used.add(type_name)
            self.notes.append(f"{type_name} was added: {why}")
        return found

    def require(self, type_name: str, why: str, parameters: object = None) -> PluginPlan | None:
        """Adds an instance as `add` does; that the configuration disables it is a fault."""
        added = self.add(type_name, why, parameters)
        if added is None and type_name in self.disabled:
            at = self.origin_of_plugin(type_name)
            self.faults.error(
                at, f"{type_name!r} is disabled, and {why}", "enable it, or list another plugin of its kind"
            )
        return added

    def resolve(self, name: str, origin: Origin, what: str, *points: type) -> PluginPlan | None:
        """The instance that a reference names, if it serves one of `points`; else that is a fault at `origin`."""
        self.used.add(name)
        plugin = self.plugins.get(name)
        if plugin is not None:
            if points and not plugin.type.serves(*points):
                wanted = " or ".join(point.__name__ for point in points)
                self.faults.error(origin, f"{what} must be a {wanted}, and {name!r} is none")
                return None
            return plugin
        if name in self.disabled:
            self.faults.error(origin, f"{what} names the plugin {name!r}, which is disabled")
        elif name not in self.written_names:
            listed = f"add '- type: {name}' to plugins" if name in self.catalogue.names else ""
            self.faults.error(origin, f"no plugin is named {name!r}", listed or did_you_mean(name, self.written_names))
        return None

    def knows(self, type_name: str) -> bool:
        """Whether there is such a plugin type."""
        return type_name in self.catalogue.names

    @property
    def written_names(self) -> list[str]:
        """Names of all plugins that the configuration lists, those with faults included."""
        plugins = self.configuration.written.get("plugins")
        items = plugins.items if isinstance(plugins, Items) else ()
        return [name for item in items if (name := name_of(item, PluginSpec.identity))]

    def add_configured(self) -> None:
        """Checks every plugin that the configuration lists."""
        for index, spec in enumerate(self.settings.plugins):
            place = self.configuration.origin("plugins", index)
            if not spec.enabled:
                self.disabled.add(spec.key)
                self._check_type_exists(spec.type, self.configuration.origin("plugins", index, "type"))
                self.notes.append(f"{spec.key} is disabled")
                continue
            at = self.configuration.origin("plugins", index, "type")
            found = self._instance(spec.key, spec.type, spec.parameters, at, place, "", index)
            if found is not None:
                self.plugins[spec.key] = found

    def _check_type_exists(self, type_name: str, origin: Origin) -> None:
        """A misspelt type that is switched off would leave on what was meant; a broken one may be switched off."""
        if type_name in self.catalogue.names:
            return
        try:
            self.catalogue.find(type_name)
        except PluginTypeError as error:
            self.faults.error(origin, str(error), error.hint)

    def _instance(
        self,
        name: str,
        type_name: str,
        parameters: object,
        at_type: Origin,
        place: Origin,
        why: str,
        index: int | None = None,
    ) -> PluginPlan | None:
        try:
            found = self.catalogue.find(type_name)
        except PluginTypeError as error:
            self._tell_of_type(name, type_name, error, at_type)
            return None
        if index is not None and (packages := self.catalogue.hidden(type_name)):
            message = f"the plugin type {type_name!r} is the built-in one; that of the package {packages} is not used"
            self.faults.warn(at_type, message, "name that one's class as module:Class")
        if index is not None and type_name in found.mark.deprecated:
            hint = f"use {found.mark.deprecated[type_name]}"
            self.faults.warn(at_type, f"the plugin type {type_name!r} is deprecated", hint)
        text = json.dumps({} if parameters is None else parameters)
        checked = self._check_parameters(found, text, index, place)
        if checked is None:
            return None
        params, references = checked
        if not self._declares_facts(found, name, params, at_type):
            return None
        return PluginPlan(name, type_name, found, text, params, references, why)

    def _tell_of_type(self, name: str, type_name: str, error: PluginTypeError, origin: Origin) -> None:
        """A type that can't be had; of a plugin described in place it may be a declared one's name misspelt."""
        if name.endswith(f"/{type_name}") and ":" not in type_name and type_name not in self.catalogue.names:
            declared = [other for other in self.written_names if other != name]
            hint = did_you_mean(type_name, [*self.catalogue.names, *declared])
            self.faults.error(origin, f"{type_name!r} is neither a declared plugin nor a plugin type", hint)
        else:
            self.faults.error(origin, str(error), error.hint)

    def _declares_facts(self, found: PluginType, name: str, params: PluginParams, origin: Origin) -> bool:
        """Whether what the class says of facts can be read, and is fact keys."""
        for what in ("needs", "wants", "produces"):
            try:
                keys = found.produces(name, params) if what == "produces" else getattr(found, what)(params)
                wrong = [key for key in keys if not isinstance(key, AnyFactKey)]
            except Exception as error:  # noqa: BLE001 - the class is a stranger's
                self.faults.error(origin, f"{what!r} of {found.cls.__name__} raised {type(error).__name__}: {error}")
                return False
            if wrong:
                message = f"{what!r} of {found.cls.__name__} must hold fact keys, found {type(wrong[0]).__name__}"
                self.faults.error(origin, message, "such as pointsman.PREFIX_HITS, or a FactKey of your own")
                return False
        return True

    def _check_parameters(
        self, found: PluginType, text: str, index: int | None, place: Origin
    ) -> tuple[PluginParams, Sequence[Reference]] | None:
        references: list[Reference] = []

        def collect(name: str, point: type) -> str:
            references.append(Reference(name, point))
            return name

        try:
            return found.params.model_validate_json(text, context=collect), references
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                self._report(fault, index, place, found.params)
            return None

    def _report(self, fault: Any, index: int | None, place: Origin, model: type[PluginParams]) -> None:
        if fault["type"] == "extra_forbidden":
            return
        base = () if index is None else ("plugins", index, "parameters")
        tree = self.configuration.tree if index is not None else Entries({}, place)
        report(fault, tree, self.faults, base, model)

    def origin_of_reference(self, plugin: str, named: str) -> Origin:
        """The place in a plugin's parameters that names another plugin."""
        for index, spec in enumerate(self.settings.plugins):
            if spec.key == plugin:
                path = ("plugins", index, "parameters")
                below = find_text(node_at(self.configuration.tree, path), named)
                return self.configuration.origin(*path, *below)
        return Origin("added")

    def origin_of_plugin(self, name: str, *below: str) -> Origin:
        """The place of a configured plugin, or of what is `below` it."""
        for index, spec in enumerate(self.settings.plugins):
            if spec.key == name:
                return self.configuration.origin("plugins", index, *below)
        return Origin("added")
