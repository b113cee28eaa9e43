"""Sections of `EndpointPickerConfig`, as defined by the Go projects."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from app.settings.types import Duration, Many, Quantity, Section

Role = Literal["filter", "scorer", "picker"]


class PluginSpec(Section):
    """A plugin instance. Profiles and other plugins refer to it by name."""

    identity: ClassVar = ("name", "type")

    type: str = Field(min_length=1)
    """Plugin type: a registered type, `module:Class`, or `path/to/file.py:Class`."""
    name: str = ""
    """Instance name; by default the type."""
    enabled: bool = True
    """Whether the plugin is used. Profiles omit a disabled plugin."""
    parameters: Any = None
    """Parameters, as defined by the plugin type."""

    @property
    def key(self) -> str:
        """The instance name: `name`, or `type` if that is empty."""
        return self.name or self.type


class ProfileEntry(Section):
    """A plugin in a profile."""

    identity: ClassVar = ("pluginRef",)

    plugin_ref: str = Field(min_length=1)
    """Name of a plugin."""
    weight: float | None = Field(default=None, ge=0)
    """Weight of a scorer; 1 by default. Only scorers have a weight."""
    as_: Many[Role] = Field(default=(), alias="as")
    """Roles of the plugin in this profile: `filter`, `scorer`, `picker`. If empty, every role that it supports."""
    enabled: bool = True
    """Whether the plugin is used in this profile."""


class ProfileSpec(Section):
    """A named set of filters, weighted scorers and one picker. Filters run in the order listed."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """Profile name."""
    enabled: bool = True
    """Whether the profile is used."""
    plugins: Many[ProfileEntry] = ()
    """Plugins of the profile. If none of them is a picker, one is added."""


class PluginReference(Section):
    """A reference to a plugin."""

    identity: ClassVar = ("pluginRef",)

    plugin_ref: str = Field(min_length=1)
    """Name of a plugin."""


class SourceSpec(Section):
    """A metrics source and its extractors."""

    identity: ClassVar = ("pluginRef",)

    plugin_ref: str = Field(min_length=1)
    """Name of a metrics source plugin."""
    extractors: Many[PluginReference] = ()
    """Extractors that read the data of the source."""


class DataLayer(Section):
    """Sources of endpoints and of their metrics."""

    inject_defaults: bool = True
    """Whether to add `metrics-data-source` with `core-metrics-extractor` if no such source is listed."""
    sources: Many[SourceSpec] = ()
    """Metrics sources, in the order in which they are read."""
    discovery: PluginReference | None = None
    """Discovery plugin that provides the endpoints instead of `pool.endpoints`."""
    peer_discovery: PluginReference | None = None
    """Discovery of other replicas in the Go pickers. Has no effect."""
    cross_replica_syncer_plugin_ref: str | None = None
    """Plugin that synchronises replicas of the Go pickers. Has no effect."""
    cross_replica_sync_interval: Duration | None = Field(default=None, ge=0)
    """Time between two synchronisations of such replicas. Has no effect."""


class PriorityBand(Section):
    """Limits and policies for requests of one priority."""

    identity: ClassVar = ("priority",)

    priority: int = 0
    max_bytes: Quantity | None = Field(default=None, ge=0)
    max_requests: Quantity | None = Field(default=None, ge=0)
    fairness_policy_ref: str = ""
    ordering_policy_ref: str = ""


class OptionalReference(Section):
    """An optional reference to a plugin."""

    plugin_ref: str = ""


class FlowControl(Section):
    """Request queueing. Accepted for compatibility; has no effect in this version."""

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
    """Request parsing."""

    parsers: Many[PluginReference] = ()
    """Parsers by name or type, each for its own paths. If empty: the OpenAI, Anthropic and vLLM HTTP parsers, and the
    passthrough parser for all other paths."""
