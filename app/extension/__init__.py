"""Everything that a plugin imports: extension points and their values, declarations, parameters, services, the marker.

Plugins import these names from `pointsman`.
"""

from app.domain.addresses import parse_address, parse_authority
from app.domain.candidates import Candidates, Column, Mask
from app.domain.decision import Decision, FilterStep, PluginFault, ProfileResult, Scored
from app.domain.endpoint import ENGINE_LABEL, ROLE_LABEL, Endpoint
from app.domain.errors import BadRequestError, RoutingError, SaturatedError
from app.domain.facts import AnyFactKey, EndpointFactKey, FactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.outcome import Ending, Outcome
from app.domain.request import BYTES_PER_TOKEN, InferenceRequest, RawRequest
from app.extension.declarations import (
    FactDeclaration,
    KnownEngines,
    NeedsFacts,
    ProducesFacts,
    RequiresProfiles,
    SingleProfile,
    WantsFacts,
)
from app.extension.facts import (
    ACTIVE_ADAPTERS,
    IN_FLIGHT_REQUESTS,
    IN_FLIGHT_TOKENS,
    KV_CACHE_USAGE,
    PREFIX_HITS,
    PREFIX_SHAPE,
    RUNNING,
    UNCACHED_TOKENS,
    WAITING,
    WAITING_ADAPTERS,
    PrefixShape,
)
from app.extension.fleet import (
    Discovery,
    DiscoveryError,
    EndpointSink,
    Extractor,
    MetricsSource,
    ScrapeError,
)
from app.extension.marker import plugin
from app.extension.params import Duration, PluginParams, PluginRef
from app.extension.parsing import Parser
from app.extension.requests import Lifecycle, OnFinished, OnFirstByte, OnRefused, OnScheduled, Producer, Successor
from app.extension.scheduling import Filter, Keep, Picker, ProfilePicker, Scorer, Scores
from app.extension.services import (
    Clock,
    EndpointsFiles,
    HttpClient,
    HttpResponse,
    InFlight,
    InFlightListener,
    MetricsRegistry,
    PluginName,
    Pool,
    Random,
)

__all__ = [
    "ACTIVE_ADAPTERS",
    "BYTES_PER_TOKEN",
    "ENGINE_LABEL",
    "IN_FLIGHT_REQUESTS",
    "IN_FLIGHT_TOKENS",
    "KV_CACHE_USAGE",
    "PREFIX_HITS",
    "PREFIX_SHAPE",
    "ROLE_LABEL",
    "RUNNING",
    "UNCACHED_TOKENS",
    "WAITING",
    "WAITING_ADAPTERS",
    "AnyFactKey",
    "BadRequestError",
    "Candidates",
    "Clock",
    "Column",
    "Decision",
    "Discovery",
    "DiscoveryError",
    "Duration",
    "Ending",
    "Endpoint",
    "EndpointFactKey",
    "EndpointMetrics",
    "EndpointSink",
    "EndpointsFiles",
    "Extractor",
    "FactDeclaration",
    "FactKey",
    "Facts",
    "Filter",
    "FilterStep",
    "HttpClient",
    "HttpResponse",
    "InFlight",
    "InFlightListener",
    "InferenceRequest",
    "Keep",
    "KnownEngines",
    "Lifecycle",
    "Mask",
    "MetricsRegistry",
    "MetricsSource",
    "NeedsFacts",
    "OnFinished",
    "OnFirstByte",
    "OnRefused",
    "OnScheduled",
    "Outcome",
    "Parser",
    "Picker",
    "PluginFault",
    "PluginName",
    "PluginParams",
    "PluginRef",
    "Pool",
    "PrefixShape",
    "Producer",
    "ProducesFacts",
    "ProfilePicker",
    "ProfileResult",
    "Random",
    "RawRequest",
    "RequiresProfiles",
    "RoutingError",
    "SaturatedError",
    "Scored",
    "Scorer",
    "Scores",
    "ScrapeError",
    "SingleProfile",
    "Successor",
    "WantsFacts",
    "parse_address",
    "parse_authority",
    "plugin",
]
