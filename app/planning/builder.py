"""The state that the steps of planning share: the plugin instances so far, and the faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from app.catalogue.catalogue import Catalogue, PluginType
from app.catalogue.loading import PluginTypeError
from app.catalogue.signatures import with_article
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
"""The origin of what no layer sets."""


@dataclass
class PlanBuilder:
    """A plan under construction."""

    configuration: Configuration
    catalogue: Catalogue
    plugins: dict[str, PluginPlan] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    """Names of plugins that something refers to."""
    notes: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        """The settings of the configuration."""
        return self.configuration.settings

    @property
    def faults(self) -> Faults:
        """Collects errors and warnings."""
        return self.configuration.faults

    def serving(self, *points: type) -> Iterator[PluginPlan]:
        """The instances that serve one of the extension points `points`, in the order in which they were added."""
        return (plugin for plugin in list(self.plugins.values()) if plugin.type.serves(*points))

    def add(self, type_name: str, why: str, parameters: object = None, origin: Origin = ADDED) -> PluginPlan | None:
        """Adds an instance that the configuration does not list, named after its type.

        None if the configuration disables it, which the caller may report, or after an error, which is reported here.
        """
        if type_name in self.disabled:
            return None
        if type_name in self.plugins:
            at = self.origin_of_plugin(type_name, "name")
            message = f"the name {type_name!r} is taken, but a plugin of that type must be added: {why}"
            self.faults.error(at, message, "choose another name")
            return None
        found = self._instance(type_name, type_name, parameters, origin, origin, why)
        if found is not None:
            self.plugins[type_name] = found
            self.used.add(type_name)
            self.notes.append(f"{type_name} was added: {why}")
        return found

    def require(self, type_name: str, why: str, parameters: object = None) -> PluginPlan | None:
        """Like `add`, but reports an error if the configuration disables the plugin."""
        added = self.add(type_name, why, parameters)
        if added is None and type_name in self.disabled:
            at = self.origin_of_plugin(type_name)
            message = f"{type_name!r} is disabled but needed: {why}"
            self.faults.error(at, message, "enable it, or list another plugin of its kind")
        return added

    def resolve(self, name: str, origin: Origin, what: str, *points: type) -> PluginPlan | None:
        """The instance that a reference names. Reports an error at `origin` if it does not serve one of `points`."""
        self.used.add(name)
        plugin = self.plugins.get(name)
        if plugin is not None:
            if points and not plugin.type.serves(*points):
                expected = " or ".join(map(with_article, points))
                self.faults.error(origin, f"{what} must be {expected}, but {name!r} is not")
                return None
            return plugin
        if name in self.disabled:
            self.faults.error(origin, f"{what} names the plugin {name!r}, which is disabled")
        elif name not in self.listed_names:
            listed = f"add '- type: {name}' to plugins" if name in self.catalogue.names else ""
            self.faults.error(origin, f"no plugin is named {name!r}", listed or did_you_mean(name, self.listed_names))
        return None

    def knows(self, type_name: str) -> bool:
        """Whether there is such a plugin type."""
        return type_name in self.catalogue.names

    @property
    def listed_names(self) -> list[str]:
        """Names of all plugins that the configuration lists, including those with errors."""
        plugins = self.configuration.written.get("plugins")
        items = plugins.items if isinstance(plugins, Items) else ()
        return [name for item in items if (name := name_of(item, PluginSpec.identity))]

    def add_configured(self) -> None:
        """Adds every plugin that the configuration lists and does not disable."""
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
        """Reports an unknown type of a disabled plugin, which may be a typo that leaves another plugin enabled.

        A known type that can't be loaded is not an error: disabling it may be the way around that.
        """
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
            self._report_type_error(name, type_name, error, at_type)
            return None
        if index is not None and (packages := self.catalogue.hidden(type_name)):
            message = f"the plugin type {type_name!r} is built in; the one from the package {packages} is ignored"
            self.faults.warn(at_type, message, "to use that one, give its class as module:Class")
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

    def _report_type_error(self, name: str, type_name: str, error: PluginTypeError, origin: Origin) -> None:
        """Reports a type that can't be loaded. In a plugin described in place it may be a declared name, misspelt."""
        if name.endswith(f"/{type_name}") and ":" not in type_name and type_name not in self.catalogue.names:
            declared = [other for other in self.listed_names if other != name]
            hint = did_you_mean(type_name, [*self.catalogue.names, *declared])
            self.faults.error(origin, f"{type_name!r} is neither a declared plugin nor a plugin type", hint)
        else:
            self.faults.error(origin, str(error), error.hint)

    def _declares_facts(self, found: PluginType, name: str, params: PluginParams, origin: Origin) -> bool:
        """Whether the facts that the class declares can be read and are fact keys. Reports an error if not."""
        for what in ("needs", "wants", "produces"):
            try:
                keys = found.produces(name, params) if what == "produces" else getattr(found, what)(params)
                wrong = [key for key in keys if not isinstance(key, AnyFactKey)]
            except Exception as error:  # noqa: BLE001 - third-party code
                self.faults.error(origin, f"{what!r} of {found.cls.__name__} raised {type(error).__name__}: {error}")
                return False
            if wrong:
                message = f"{what!r} of {found.cls.__name__} must hold fact keys, found {type(wrong[0]).__name__}"
                self.faults.error(origin, message, "use one such as pointsman.PREFIX_HITS, or define a FactKey")
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
        """Where the parameters of the plugin `plugin` name the plugin `named`; `ADDED` if the plugin is not listed."""
        for index, spec in enumerate(self.settings.plugins):
            if spec.key == plugin:
                path = ("plugins", index, "parameters")
                below = find_text(node_at(self.configuration.tree, path), named)
                return self.configuration.origin(*path, *below)
        return ADDED

    def origin_of_plugin(self, name: str, *below: str) -> Origin:
        """Where the configuration lists a plugin, or the key `below` it; `ADDED` if it does not list it."""
        for index, spec in enumerate(self.settings.plugins):
            if spec.key == name:
                return self.configuration.origin("plugins", index, *below)
        return ADDED
