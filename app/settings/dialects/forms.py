"""What a document may contain: the schema, and alternative forms for plugins and profiles.

* `plugin_references` declares plugins by `name` and `plugin`; a profile's `plugin-references` lists them.
* `endpointPickingProfiles` lists profiles as `- name: [plugins]`, whose plugins are declared elsewhere or inline.
* A profile may have `filters`, `scorers` and a `picker` instead of one list of plugins.
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
    """Part of a document. Only its fields are inspected: it is never validated, so the validator is never built."""

    model_config = ConfigDict(defer_build=True)


class PlacedPlugin(Form):
    """A plugin in a profile: the name of a declared plugin, or the type and parameters of an inline one."""

    identity: ClassVar = ("name", "type")

    name: str = ""
    """Name of a declared plugin, or a plugin type."""
    type: str = ""
    """Plugin type of an inline plugin. `name` then is its instance name."""
    args: Any = Field(default=None, validation_alias=AliasChoices("args", "parameters"))
    """Parameters of an inline plugin, as defined by its type."""
    enabled: bool = True
    """Whether the plugin is used in this profile."""


class WeightedPlugin(PlacedPlugin):
    """A plugin in a profile, with a weight."""

    weight: float | None = Field(default=None, ge=0)
    """Weight of a scorer; 1 by default."""


class DeclaredPlugin(Form):
    """A plugin instance declared in `plugin_references`."""

    identity: ClassVar = ("name", "plugin")

    name: str = ""
    """Instance name; by default the type."""
    plugin: str = Field(min_length=1)
    """Plugin type: a registered type, `module:Class`, or `path/to/file.py:Class`."""
    enabled: bool = True
    """Whether the plugin is used. Profiles omit a disabled plugin."""
    parameters: Any = None
    """Parameters, as defined by the plugin type."""


class NamedPlugin(Form):
    """A declared plugin in a profile."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """Name of a declared plugin."""
    weight: float | None = Field(default=None, ge=0)
    """Weight of a scorer; 1 by default."""
    enabled: bool = True
    """Whether the plugin is used in this profile."""


class Sections(Form):
    """The plugins of a profile by role."""

    filters: Many[str | PlacedPlugin] = ()
    """Filters, in the order they run."""
    scorers: Many[str | WeightedPlugin] = ()
    """Scorers and their weights."""
    picker: str | PlacedPlugin | None = None
    """Picker; if omitted, one is added."""


class AnyProfile(ProfileSpec, Sections):
    """A profile with `plugins`, with `plugin-references`, or with `filters`, `scorers` and `picker`."""

    model_config = ConfigDict(defer_build=True)

    identity: ClassVar = ("name",)

    plugins: Many[ProfileEntry] = ()
    """Plugins of the profile. If none of them is a picker, one is added."""
    plugin_references: Many[NamedPlugin] = Field(default=(), alias="plugin-references")
    """Plugins of the profile, by their names in `plugin_references`."""


class PickingProfile(Sections):
    """A profile in `endpointPickingProfiles`. `- name: [plugins]` is short for its `name` and `plugins`."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """Profile name."""
    enabled: bool = True
    """Whether the profile is used."""
    plugins: Many[str | WeightedPlugin] = ()
    """Plugins of the profile, declared or inline."""


class Document(Settings):
    """A layer in any form."""

    model_config = SettingsConfigDict(defer_build=True)

    plugins: Many[PluginSpec] = ()
    """Plugin instances."""
    scheduling_profiles: Many[AnyProfile] = ()
    """Scheduling profiles. If empty, one profile named `default` uses every filter, scorer and picker."""
    plugin_references: Many[DeclaredPlugin] = Field(default=(), alias="plugin_references")
    """Plugin instances, in the form with `plugin` for the type."""
    endpoint_picking_profiles: Many[PickingProfile | dict[str, Many[str | WeightedPlugin]]] = ()
    """Scheduling profiles, in the form with inline plugins and their `args`."""
    saturation_detector: OptionalReference | None = None
    """Deprecated: use `flowControl.saturationDetector`."""
    parser: PluginReference | None = None
    """Deprecated: use `requestHandler.parsers`."""


DOCUMENT = Shape("model", model=Document)


def key_in_form(key: str, path: str) -> str:
    """The name of the schema's `key` in the form that is used at `path`."""
    if key == "type" and path.startswith("plugin_references"):
        return "plugin"
    return "name" if key == "pluginRef" and "plugin-references" in path else key
