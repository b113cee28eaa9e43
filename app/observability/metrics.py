"""Prometheus metrics: those of the Go pickers under the same names, and a few of our own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.domain.decision import Decision, PluginFault
from app.domain.errors import ModelNotFoundError, RoutingError
from app.domain.outcome import Ending, Outcome
from app.domain.request import InferenceRequest
from app.domain.status import EndpointStatus
from app.domain.usage import Usage
from app.extension.services import InFlight
from app.observability.series import Count, Counts, Distribution, Distributions

MODELS_COUNTED = 1000
"""Maximum number of model names in labels. Names come from clients, so any further ones are counted as `other`."""

_MODEL = ("model_name",)
_DURATIONS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180,
    240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
)  # fmt: skip
_FIRST_TOKENS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120
)  # fmt: skip
_OUTPUT_TOKENS = (
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 2
)  # fmt: skip
_SIZES = tuple(float(2**power) for power in range(6, 31, 2))


_TOKENS = (1.0, 8.0, *(float(2**power) for power in range(4, 21)))


class _Tokens(NamedTuple):
    """The token counts of one model, whose engine reports them."""

    prompt: Distribution
    completion: Distribution
    cached: Distribution

    def observe(self, usage: Usage) -> None:
        """Adds the usage of one response."""
        for distribution, tokens in (
            (self.prompt, usage.prompt_tokens),
            (self.completion, usage.completion_tokens),
            (self.cached, usage.cached_tokens),
        ):
            if tokens is not None:
                distribution.observe(tokens)


class _Series(NamedTuple):
    """The series of one model."""

    requests: Count
    duration: Distribution
    head: Distribution
    first_token: Sequence[Distribution]
    """Of requests that are not streaming, and of those that are."""
    output_token: Distribution
    size: Distribution


class _Times:
    """The metrics of when requests got their responses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.duration = Distributions(
            "llm_d_epp_request_duration_seconds",
            "Time from the arrival of a request to the last byte of its response.",
            _MODEL,
            _DURATIONS,
            registry,
        )
        self.head = Distributions(
            "pointsman_response_head_seconds",
            "Time from the arrival of a request to the response head, which engines may send before the first token.",
            _MODEL,
            _FIRST_TOKENS,
            registry,
        )
        self.first_token = Distributions(
            "llm_d_epp_request_ttft_seconds",
            "Time from the arrival of a request to the first token of its response.",
            [*_MODEL, "streaming"],
            _FIRST_TOKENS,
            registry,
        )
        self.from_head = Counts(
            "pointsman_ttft_from_head",
            "Requests whose time to first token is that of the response head, since the proxy sends no bodies.",
            [],
            registry,
        ).of()
        self.output_token = Distributions(
            "llm_d_epp_request_streaming_tpot_seconds",
            "Mean time per output token of a streamed response, after the first token.",
            _MODEL,
            _OUTPUT_TOKENS,
            registry,
        )


class RequestMetrics:
    """Counts requests as they end."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models: set[str] = set()
        self._series: dict[str, _Series] = {}
        self._tokens: dict[str, _Tokens] = {}
        self._requests = Counts("llm_d_epp_request", "Requests served by an endpoint.", _MODEL, registry)
        self._errors = Counts(
            "llm_d_epp_request_error",
            "Requests that the router rejected with an error.",
            ["model_name", "error_code"],
            registry,
        )
        self._attempts = Counts("llm_d_epp_scheduler_attempts", "Scheduling attempts, by status.", ["status"], registry)
        self._times = _Times(registry)
        self._size = Distributions("llm_d_epp_request_size_bytes", "Size of request bodies.", _MODEL, _SIZES, registry)
        self._token_counts = [
            Distributions(
                f"llm_d_epp_request_{kind}_tokens", f"{text}, as reported by the engine.", _MODEL, _TOKENS, registry
            )
            for kind, text in (
                ("input", "Prompt tokens of requests"),
                ("output", "Tokens of responses"),
                ("cached", "Prompt tokens found in the engine's prefix cache"),
            )
        ]
        self._endings = Counts(
            "pointsman_attempts_ended", "Attempts at endpoints, by how they ended.", ["ending"], registry
        )
        self._faults = Counts(
            "pointsman_plugin_faults",
            "Failures of plugins that did not fail the request.",
            ["plugin", "extension_point"],
            registry,
        )
        self._decided = self._attempts.of("success")
        self._ended = {ending: self._endings.of(ending.value) for ending in Ending}

    def on_scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        """Counts a decision."""
        self._decided.value += 1

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """Counts the end of an attempt, and of the request if the attempt was its last."""
        self._ended[outcome.ending].value += 1
        if not outcome.final:
            return
        series = self._series.get(request.model) or self._series_of(request.model)
        series.requests.value += 1
        series.duration.observe(outcome.duration)
        series.size.observe(request.size)
        if outcome.head is not None:
            series.head.observe(outcome.head)
        if outcome.first_token is not None:
            series.first_token[request.streaming].observe(outcome.first_token)
            self._times.from_head.value += not outcome.first_token_exact
        if outcome.time_per_output_token is not None:
            series.output_token.observe(outcome.time_per_output_token)
        if outcome.usage is not None:
            self._tokens_of(request.model).observe(outcome.usage)

    def on_refused(self, request: InferenceRequest, error: RoutingError) -> None:
        """Counts a refused request by the class of the error."""
        self._attempts.of("failure").value += 1
        unknown = isinstance(error, ModelNotFoundError)  # clients can make up names, which must not use up the labels
        model = "other" if unknown else self._label(request.model)
        self._errors.of(model, type(error).__name__.removesuffix("Error")).value += 1

    def count_fault(self, fault: PluginFault) -> None:
        """Counts a failure of a plugin."""
        self._faults.of(fault.plugin, fault.extension_point).value += 1

    def _series_of(self, model: str) -> _Series:
        """The series of `model`, which are cached unless the model is counted as `other`."""
        label = self._label(model)
        found = _Series(
            self._requests.of(label),
            self._times.duration.of(label),
            self._times.head.of(label),
            [self._times.first_token.of(label, streaming) for streaming in ("false", "true")],
            self._times.output_token.of(label),
            self._size.of(label),
        )
        if label == model:
            self._series[model] = found
        return found

    def _tokens_of(self, model: str) -> _Tokens:
        label = self._label(model)
        found = self._tokens.get(label)
        if found is None:
            found = self._tokens[label] = _Tokens(*(counts.of(label) for counts in self._token_counts))
        return found

    def _label(self, model: str) -> str:
        model = model.encode("utf-8", "replace").decode()  # JSON allows lone surrogates, UTF-8 does not
        if model not in self._models:
            if len(self._models) >= MODELS_COUNTED:
                return "other"
            self._models.add(model)
        return model


class PoolMetrics(Collector):
    """The state of the pool at the time of the scrape. Nothing is stored per endpoint."""

    def __init__(
        self,
        *,
        statuses: Callable[[], Sequence[EndpointStatus]],
        is_fresh: Callable[[EndpointStatus], bool],
        in_flight: InFlight,
        name: Callable[[], str],
    ) -> None:
        """`name` returns the label value for the pool."""
        self._statuses = statuses
        self._is_fresh = is_fresh
        self._in_flight = in_flight
        self._name = name

    def collect(self) -> Iterator[Metric]:
        """Yields the current state."""
        statuses = self._statuses()
        fresh = [status for status in statuses if status.up and self._is_fresh(status)]
        yield self._single("ready_endpoints", "Endpoints that are up with fresh metrics.", len(fresh))
        yield self._single("up_endpoints", "Endpoints that are up.", sum(status.up for status in statuses))
        columns = {
            "queue_size": [s.metrics.waiting for s in fresh if s.metrics],
            "running_requests": [s.metrics.running for s in fresh if s.metrics],
            "kv_cache_utilization": [s.metrics.kv_cache_usage for s in fresh if s.metrics],
        }
        for what, values in columns.items():
            known = [value for value in values if value is not None]
            if known:
                yield self._single(
                    f"average_{what}", f"Mean {what.replace('_', ' ')} of the ready endpoints.", statistics.fmean(known)
                )
        waiting = {s.endpoint.name: s.metrics.waiting for s in fresh if s.metrics and s.metrics.waiting is not None}
        yield self._per_endpoint("per_endpoint_queue_size", "Requests waiting in the engine.", waiting)
        counts = {s.endpoint.name: float(self._in_flight.count(s.endpoint.name)) for s in statuses}
        yield self._per_endpoint("per_endpoint_in_flight", "Requests in flight from this router.", counts)

    def _single(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"llm_d_epp_{name}", text, labels=["name"])
        family.add_metric([self._name()], value)
        return family

    def _per_endpoint(self, name: str, text: str, values: Mapping[str, float]) -> Metric:
        family = GaugeMetricFamily(f"llm_d_epp_{name}", text, labels=["name", "model_server_endpoint"])
        for endpoint, value in values.items():
            family.add_metric([self._name(), endpoint], value)
        return family


def register_build_info(registry: CollectorRegistry, version: str) -> None:
    """Registers the metric that shows the running version."""
    Gauge("llm_d_epp_info", "The running version.", ["version"], registry=registry).labels(version).set(1)


class MetricsPage:
    """The Prometheus page."""

    def __init__(self, registry: CollectorRegistry, version: str, *collectors: Collector) -> None:
        """`collectors` are shown besides what is registered already."""
        self._registry = registry
        register_build_info(registry, version)
        for collector in collectors:
            registry.register(collector)

    def __call__(self) -> bytes:
        """The page as it is now."""
        return generate_latest(self._registry)
