"""What a document may hold: the schema, and the other forms of plugins and profiles.

* `plugin_references` declares plugins by `name` and `plugin`; a profile's `plugin-references` lists them.
* `endpointPickingProfiles` lists profiles as `- name: [plugins]`, whose plugins are declared elsewhere or right there.
* A profile may have `filters`, `scorers` and a `picker` in place of one list of plugins.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import AliasChoices, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from app.settings.picker_config import OptionalReference, PluginReference, PluginSpec, ProfileEntry, ProfileSpec
from app.settings.schema import Settings
from app.settings.shapes import Shape
from app.settings.types import Many, Section


class Form(Section):
    """Part of a document. It is looked at and never validated, so building what validates is put off for ever."""

    model_config = ConfigDict(defer_build=True)


class PlacedPlugin(Form):
    """A plugin where it is used: the name of a declared one, or a type and its arguments, which makes it its own."""

    identity: ClassVar = ("name", "type")

    name: str = ""
    """Name of a declared plugin, or a plugin type."""
    type: str = ""
    """Plugin type; with `name` besides, the plugin is called so."""
    args: Any = Field(default=None, validation_alias=AliasChoices("args", "parameters"))
    """What the plugin itself understands. A declared plugin takes none here."""
    enabled: bool = True
    """Whether the plugin takes part in this profile."""


class WeightedPlugin(PlacedPlugin):
    """A plugin where it is used, and what its scores are worth."""

    weight: float | None = Field(default=None, ge=0)
    """What its scores are multiplied by; 1 by default."""


class DeclaredPlugin(Form):
    """One plugin instance, as `plugin_references` declares it."""

    identity: ClassVar = ("name", "plugin")

    name: str = ""
    """The instance's name; by default its type."""
    plugin: str = Field(min_length=1)
    """The plugin type, `module:Class`, or `path/to/file.py:Class`."""
    enabled: bool = True
    """Whether it exists."""
    parameters: Any = None
    """What the plugin itself understands."""


class NamedPlugin(Form):
    """A declared plugin's place in a profile."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """Name of a declared plugin."""
    weight: float | None = Field(default=None, ge=0)
    """What a scorer's score is multiplied by; 1 by default."""
    enabled: bool = True
    """Whether the plugin takes part in this profile."""


class Sections(Form):
    """A profile's plugins by kind."""

    filters: Many[str | PlacedPlugin] = ()
    """Filters, in the order they run."""
    scorers: Many[str | WeightedPlugin] = ()
    """Scorers with their weights."""
    picker: str | PlacedPlugin | None = None
    """The picker."""


class AnyProfile(ProfileSpec, Sections):
    """A profile: its `plugins`, or its `plugin-references`, or its `filters`, `scorers` and `picker`."""

    model_config = ConfigDict(defer_build=True)

    identity: ClassVar = ("name",)

    plugins: Many[ProfileEntry] = ()
    """Its plugins; a profile without a picker gets one."""
    plugin_references: Many[NamedPlugin] = Field(default=(), alias="plugin-references")
    """Its plugins, by the names that `plugin_references` declares."""


class PickingProfile(Sections):
    """A profile of `endpointPickingProfiles`, written out; `- name: [plugins]` is short for `name` and `plugins`."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """The profile's name."""
    enabled: bool = True
    """Whether the profile exists."""
    plugins: Many[str | WeightedPlugin] = ()
    """Its plugins, declared or right here."""


class Document(Settings):
    """One layer as it may be written."""

    model_config = SettingsConfigDict(defer_build=True)

    plugins: Many[PluginSpec] = ()
    """The plugin instances."""
    scheduling_profiles: Many[AnyProfile] = ()
    """The profiles; without any, one named `default` with every filter, scorer and picker."""
    plugin_references: Many[DeclaredPlugin] = Field(default=(), alias="plugin_references")
    """The plugin instances, in the form that names their type `plugin`."""
    endpoint_picking_profiles: Many[PickingProfile | dict[str, Many[str | WeightedPlugin]]] = ()
    """The profiles, in the form with plugins and their `args` in place."""
    saturation_detector: OptionalReference | None = None
    """Deprecated: now `flowControl.saturationDetector`."""
    parser: PluginReference | None = None
    """Deprecated: now `requestHandler.parsers`."""


DOCUMENT = Shape("model", model=Document)


def key_in_form(key: str, path: str) -> str:
    """What `key` of the schema is called in the form in which something at `path` is written."""
    if key == "type" and path.startswith("plugin_references"):
        return "plugin"
    return "name" if key == "pluginRef" and "plugin-references" in path else key
