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
from app.domain.request import BYTES_PER_TOKEN, MEDIA_TOKENS, InferenceRequest, RawRequest
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
    EXPECTED_TTFT,
    IN_FLIGHT_REQUESTS,
    IN_FLIGHT_TOKENS,
    KV_CACHE_USAGE,
    PREFILL_RATE,
    PREFIX_HITS,
    PREFIX_SHAPE,
    RUNNING,
    TOKEN_LOAD,
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
from app.extension.inspection import InspectsEndpoints
from app.extension.marker import plugin
from app.extension.params import Duration, PluginParams, PluginRef
from app.extension.parsing import Parser
from app.extension.requests import Lifecycle, OnFinished, OnFirstToken, OnRefused, OnScheduled, Producer, Successor
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
    "EXPECTED_TTFT",
    "IN_FLIGHT_REQUESTS",
    "IN_FLIGHT_TOKENS",
    "KV_CACHE_USAGE",
    "MEDIA_TOKENS",
    "PREFILL_RATE",
    "PREFIX_HITS",
    "PREFIX_SHAPE",
    "ROLE_LABEL",
    "RUNNING",
    "TOKEN_LOAD",
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
    "InspectsEndpoints",
    "Keep",
    "KnownEngines",
    "Lifecycle",
    "Mask",
    "MetricsRegistry",
    "MetricsSource",
    "NeedsFacts",
    "OnFinished",
    "OnFirstToken",
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
