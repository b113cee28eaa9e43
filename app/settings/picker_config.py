"""The sections of `EndpointPickerConfig`, as the Go projects define them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from app.settings.types import Duration, Many, Quantity, Section

Role = Literal["filter", "scorer", "picker"]


class PluginSpec(Section):
    """One plugin instance. Its name is how profiles and other plugins refer to it."""

    identity: ClassVar = ("name", "type")

    type: str = Field(min_length=1)
    """The plugin type, `module:Class`, or `path/to/file.py:Class`."""
    name: str = ""
    """The instance's name; by default its type."""
    enabled: bool = True
    """Whether it exists. A disabled plugin drops out of the profiles that list it."""
    parameters: Any = None
    """What the plugin itself understands."""

    @property
    def key(self) -> str:
        """The instance's name."""
        return self.name or self.type


class ProfileEntry(Section):
    """A plugin's place in a profile."""

    identity: ClassVar = ("pluginRef",)

    plugin_ref: str = Field(min_length=1)
    """Name of a plugin."""
    weight: float | None = Field(default=None, ge=0)
    """What a scorer's score is multiplied by; 1 by default. Only scorers have one."""
    as_: Many[Role] = Field(default=(), alias="as")
    """What it is here: `filter`, `scorer`, `picker`; by default everything that it can be."""
    enabled: bool = True
    """Whether the plugin takes part in this profile."""


class ProfileSpec(Section):
    """A named set of filters, weighted scorers and one picker. Filters run in the order listed."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """The profile's name."""
    enabled: bool = True
    """Whether the profile exists."""
    plugins: Many[ProfileEntry] = ()
    """Its plugins; a profile without a picker gets one."""


class PluginReference(Section):
    """The name of a plugin."""

    identity: ClassVar = ("pluginRef",)

    plugin_ref: str = Field(min_length=1)
    """Name of a plugin."""


class SourceSpec(Section):
    """A source of metrics and what reads them."""

    identity: ClassVar = ("pluginRef",)

    plugin_ref: str = Field(min_length=1)
    """Name of a metrics source."""
    extractors: Many[PluginReference] = ()
    """The extractors that read its data."""


class DataLayer(Section):
    """Where endpoints and their metrics come from."""

    inject_defaults: bool = True
    """Add `metrics-data-source` with `core-metrics-extractor` where no such source is listed."""
    sources: Many[SourceSpec] = ()
    """Sources of metrics, read in this order."""
    discovery: PluginReference | None = None
    """Where endpoints come from, instead of `pool.endpoints`."""
    peer_discovery: PluginReference | None = None
    """Other replicas of the Go pickers; does nothing here."""
    cross_replica_syncer_plugin_ref: str | None = None
    """How replicas of the Go pickers share state; does nothing here."""
    cross_replica_sync_interval: Duration | None = Field(default=None, ge=0)
    """How often they do; does nothing here."""


class PriorityBand(Section):
    """Limits and policies of requests of one priority."""

    identity: ClassVar = ("priority",)

    priority: int = 0
    max_bytes: Quantity | None = Field(default=None, ge=0)
    max_requests: Quantity | None = Field(default=None, ge=0)
    fairness_policy_ref: str = ""
    ordering_policy_ref: str = ""


class OptionalReference(Section):
    """The name of a plugin, or nothing."""

    plugin_ref: str = ""


class FlowControl(Section):
    """Queueing of requests. This version has none: the section is read and without effect."""

    max_bytes: Quantity | None = Field(default=None, ge=0)
    max_requests: Quantity | None = Field(default=None, ge=0)
    default_request_ttl: Duration | None = Field(default=None, ge=0, alias="defaultRequestTTL")
    no_endpoint_request_ttl: Duration | None = Field(default=None, ge=0, alias="noEndpointRequestTTL")
    default_priority_band: PriorityBand | None = None
    default_negative_priority_band: PriorityBand | None = None
    priority_bands: Many[PriorityBand] = ()
    usage_limit_policy_plugin_ref: str = ""
    saturation_detector: OptionalReference | None = None
    enable_eviction: bool = False


class RequestHandler(Section):
    """How requests are parsed."""

    parsers: Many[PluginReference] = ()
    """Parsers by name or type, each for its paths; by default those of the OpenAI and Anthropic APIs and of vLLM's own,
    and one for all other paths."""
