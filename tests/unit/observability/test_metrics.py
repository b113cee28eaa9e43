"""Metrics of requests and of the pool."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from app.domain.decision import PluginFault
from app.domain.errors import BadRequestError, NoEndpointsError, UpstreamTimeoutError
from app.domain.metrics import EndpointMetrics
from app.domain.outcome import Ending, Outcome
from app.domain.status import EndpointStatus
from app.fleet.exposition import Exposition
from app.observability.metrics import MODELS_COUNTED, MetricsPage, PoolMetrics, RequestMetrics
from app.observability.plugin_metrics import PluginMetrics, PluginRegistries
from app.routing.in_flight import InFlightRequests
from pointsman.testing import make_decision, make_endpoint, make_request

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE = Outcome(Ending.COMPLETED, 1.5, status=200, head=0.05, first_token=0.25, time_per_output_token=0.125)


@pytest.fixture
def registry() -> CollectorRegistry:
    """An empty registry."""
    return CollectorRegistry()


def finish(metrics: RequestMetrics, model: str = "demo", outcome: Outcome = DONE, *, streaming: bool = False) -> None:
    metrics.on_finished(make_request(model=model, size=100, streaming=streaming), make_decision("a"), outcome)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("llm_d_epp_request_total", 1, id="requests"),
        pytest.param("llm_d_epp_request_duration_seconds_sum", 1.5, id="duration"),
        pytest.param("pointsman_response_head_seconds_sum", 0.05, id="response head"),
        pytest.param("llm_d_epp_request_streaming_tpot_seconds_sum", 0.125, id="time per output token"),
        pytest.param("llm_d_epp_request_size_bytes_sum", 100, id="size"),
    ],
)
def test_a_finished_request_is_counted_by_its_model(registry: CollectorRegistry, name: str, value: float) -> None:
    finish(RequestMetrics(registry))
    assert registry.get_sample_value(name, {"model_name": "demo"}) == value


def test_requests_of_one_model_add_up(registry: CollectorRegistry) -> None:
    metrics = RequestMetrics(registry)
    for model in ("demo", "other", "demo"):
        finish(metrics, model)
    counts = [registry.get_sample_value("llm_d_epp_request_total", {"model_name": m}) for m in ("demo", "other")]
    assert counts == [2, 1]


@pytest.mark.parametrize("streaming", [False, True])
def test_the_time_to_the_first_token_is_observed_by_streaming(registry: CollectorRegistry, streaming: bool) -> None:
    metrics = RequestMetrics(registry)
    finish(metrics, streaming=streaming)
    finish(metrics, streaming=streaming, outcome=replace(DONE, first_token=0.75))
    finish(metrics, streaming=not streaming, outcome=replace(DONE, first_token=9.0))
    labels = {"model_name": "demo", "streaming": str(streaming).lower()}
    found = [registry.get_sample_value(f"llm_d_epp_request_ttft_seconds_{what}", labels) for what in ("sum", "count")]
    assert found == [1.0, 2]


def test_a_first_token_whose_time_is_that_of_the_head_is_observed_and_counted(registry: CollectorRegistry) -> None:
    metrics, labels = RequestMetrics(registry), {"model_name": "demo", "streaming": "false"}
    for exact in (True, False, False):
        finish(metrics, outcome=replace(DONE, first_token_exact=exact))
    finish(metrics, outcome=replace(DONE, first_token_exact=False, final=False))
    assert registry.get_sample_value("llm_d_epp_request_ttft_seconds_count", labels) == 3
    assert registry.get_sample_value("pointsman_ttft_from_head_total") == 2


def test_without_such_a_request_none_is_counted(registry: CollectorRegistry) -> None:
    RequestMetrics(registry)
    assert registry.get_sample_value("pointsman_ttft_from_head_total") == 0


def test_what_an_outcome_lacks_is_not_observed(registry: CollectorRegistry) -> None:
    finish(RequestMetrics(registry), outcome=Outcome(Ending.CLIENT_LEFT, 1.0))
    names = (
        "llm_d_epp_request_ttft_seconds",
        "pointsman_response_head_seconds",
        "llm_d_epp_request_streaming_tpot_seconds",
    )
    page = Exposition(generate_latest(registry)).samples([f"{name}_count" for name in names])
    assert [sample.value for samples in page.values() for sample in samples if sample.value] == []
    assert registry.get_sample_value("llm_d_epp_request_duration_seconds_count", {"model_name": "demo"}) == 1


@pytest.mark.parametrize(
    ("name", "labels", "bounds"),
    [
        ("llm_d_epp_request_ttft_seconds", {"streaming": "false"}, (24, "0.005", "120.0")),
        ("llm_d_epp_request_streaming_tpot_seconds", {}, (19, "0.0005", "2.0")),
    ],
)
def test_buckets_are_those_of_the_go_pickers(
    registry: CollectorRegistry, name: str, labels: dict[str, str], bounds: tuple[int, str, str]
) -> None:
    finish(RequestMetrics(registry))
    samples = Exposition(generate_latest(registry)).samples([f"{name}_bucket"])[f"{name}_bucket"]
    found = [sample.labels["le"] for sample in samples if labels.items() <= sample.labels.items()]
    assert (len(found) - 1, found[0], found[-2], found[-1]) == (*bounds, "+Inf")


def test_an_attempt_that_was_followed_by_another_is_counted_only_as_an_attempt(registry: CollectorRegistry) -> None:
    finish(RequestMetrics(registry), outcome=Outcome(Ending.UPSTREAM_FAILED, 1.0, final=False))
    assert registry.get_sample_value("pointsman_attempts_ended_total", {"ending": "upstream-failed"}) == 1
    assert registry.get_sample_value("llm_d_epp_request_total", {"model_name": "demo"}) is None


@pytest.mark.parametrize("ending", list(Ending))
def test_each_ending_is_counted(registry: CollectorRegistry, ending: Ending) -> None:
    finish(RequestMetrics(registry), outcome=replace(DONE, ending=ending))
    assert registry.get_sample_value("pointsman_attempts_ended_total", {"ending": str(ending)}) == 1


def test_a_decision_is_counted_as_a_success(registry: CollectorRegistry) -> None:
    RequestMetrics(registry).on_scheduled(make_request(), make_decision("a"))
    assert registry.get_sample_value("llm_d_epp_scheduler_attempts_total", {"status": "success"}) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(NoEndpointsError(), "NoEndpoints", id="no endpoints"),
        pytest.param(BadRequestError("x"), "BadRequest", id="bad request"),
        pytest.param(UpstreamTimeoutError("a", "x"), "UpstreamTimeout", id="timeout"),
    ],
)
def test_a_refused_request_is_counted_by_model_and_error(registry: CollectorRegistry, error: Any, code: str) -> None:
    RequestMetrics(registry).on_refused(make_request(), error)
    labels = {"model_name": "demo", "error_code": code}
    assert registry.get_sample_value("llm_d_epp_request_error_total", labels) == 1
    assert registry.get_sample_value("llm_d_epp_scheduler_attempts_total", {"status": "failure"}) == 1


def test_a_plugin_s_fault_is_counted(registry: CollectorRegistry) -> None:
    RequestMetrics(registry).count_fault(PluginFault("queue", "Scorer", "NaN"))
    labels = {"plugin": "queue", "extension_point": "Scorer"}
    assert registry.get_sample_value("pointsman_plugin_faults_total", labels) == 1


def test_models_over_the_limit_are_counted_together(registry: CollectorRegistry) -> None:
    metrics = RequestMetrics(registry)
    for number in range(MODELS_COUNTED + 5):
        finish(metrics, f"model-{number}")
    finish(metrics, "model-0")
    counts = [
        registry.get_sample_value("llm_d_epp_request_total", {"model_name": name})
        for name in ("model-0", f"model-{MODELS_COUNTED - 1}", f"model-{MODELS_COUNTED}", "other")
    ]
    assert (MODELS_COUNTED, counts) == (1000, [2, 1, None, 5])


def test_refused_and_served_requests_share_the_limit_on_models(registry: CollectorRegistry) -> None:
    metrics = RequestMetrics(registry)
    for number in range(MODELS_COUNTED):
        metrics.on_refused(make_request(model=f"model-{number}"), NoEndpointsError())
    finish(metrics, "one more")
    assert registry.get_sample_value("llm_d_epp_request_total", {"model_name": "other"}) == 1


def test_a_model_called_other_is_counted_with_the_others(registry: CollectorRegistry) -> None:
    metrics = RequestMetrics(registry)
    for number in range(MODELS_COUNTED):
        finish(metrics, f"model-{number}")
    for model in ("other", "one more"):
        finish(metrics, model)
    assert registry.get_sample_value("llm_d_epp_request_total", {"model_name": "other"}) == 2


@pytest.mark.parametrize("model", ['say "hi"', "two\nlines", "back\\slash", "🚂", ""])
def test_any_name_of_a_model_makes_a_page_that_can_be_read(registry: CollectorRegistry, model: str) -> None:
    finish(RequestMetrics(registry), model)
    page = Exposition(generate_latest(registry))
    (sample,) = page.samples(["llm_d_epp_request_total"])["llm_d_epp_request_total"]
    assert sample.labels["model_name"] == model


def test_a_model_s_name_with_a_lone_surrogate_still_makes_a_page(registry: CollectorRegistry) -> None:
    finish(RequestMetrics(registry), "\ud800")
    assert generate_latest(registry)


def status(name: str, *load: float | None, up: bool = True, read_at: float = 0.0) -> EndpointStatus:
    metrics = EndpointMetrics(*load) if load else None
    return EndpointStatus(make_endpoint(name), up=up, metrics=metrics, read_at=read_at if load else -math.inf)


STATUSES = (
    status("busy", 10.0, 4.0, 0.8),
    status("idle", 2.0, 0.0, 0.2),
    status("stale", 99.0, 99.0, 0.9, read_at=-60.0),
    status("down", 50.0, 50.0, 0.5, up=False),
    status("new"),
)


def pool_value(name: str, statuses: Sequence[EndpointStatus] = STATUSES, **labels: str) -> float | None:
    registry, in_flight = CollectorRegistry(), InFlightRequests()
    in_flight.enter("busy")
    in_flight.enter("down")
    registry.register(
        PoolMetrics(
            statuses=lambda: statuses, is_fresh=lambda s: s.read_at >= -5, in_flight=in_flight, name=lambda: "main"
        )
    )
    return registry.get_sample_value(f"llm_d_epp_{name}", {"name": "main", **labels})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("ready_endpoints", 2, id="ready are up and fresh"),
        pytest.param("up_endpoints", 4, id="up"),
        pytest.param("average_queue_size", 6.0, id="queue"),
        pytest.param("average_running_requests", 2.0, id="running"),
        pytest.param("average_kv_cache_utilization", 0.5, id="kv cache"),
    ],
)
def test_the_state_of_the_pool_is_reported(name: str, value: float) -> None:
    assert pool_value(name) == pytest.approx(value)


@pytest.mark.parametrize(
    ("endpoint", "queue", "in_flight"),
    [
        pytest.param("busy", 10.0, 1, id="busy"),
        pytest.param("idle", 2.0, 0, id="idle"),
        pytest.param("stale", None, 0, id="stale"),
        pytest.param("down", None, 1, id="down"),
        pytest.param("new", None, 0, id="never read"),
    ],
)
def test_the_state_of_each_endpoint_is_reported(endpoint: str, queue: float | None, in_flight: float) -> None:
    values = [
        pool_value(f"per_endpoint_{what}", model_server_endpoint=endpoint) for what in ("queue_size", "in_flight")
    ]
    assert values == [queue, in_flight]


@pytest.mark.parametrize("statuses", [pytest.param([], id="empty pool"), pytest.param([status("new")], id="none read")])
def test_without_metrics_there_is_no_mean(statuses: list[EndpointStatus]) -> None:
    assert (pool_value("average_queue_size", statuses), pool_value("ready_endpoints", statuses)) == (None, 0)


def test_a_value_that_one_engine_lacks_is_the_mean_of_the_others() -> None:
    statuses = [status("a", 4.0, None, None), status("b", 8.0, 2.0, None)]
    values = [
        pool_value(f"average_{what}", statuses) for what in ("queue_size", "running_requests", "kv_cache_utilization")
    ]
    assert values == [6.0, 2.0, None]


def test_the_name_of_the_pool_may_change() -> None:
    registry, names = CollectorRegistry(), ["first"]
    registry.register(
        PoolMetrics(
            statuses=lambda: STATUSES, is_fresh=lambda _: True, in_flight=InFlightRequests(), name=lambda: names[-1]
        )
    )
    names.append("second")
    found = [registry.get_sample_value("llm_d_epp_up_endpoints", {"name": name}) for name in names]
    assert found == [None, 4]


def test_the_page_shows_the_version_what_is_registered_and_the_collectors(registry: CollectorRegistry) -> None:
    finish(RequestMetrics(registry), "demo")
    page = PluginMetrics()
    show = MetricsPage(registry, "1.2.3", page)
    plugins = PluginRegistries(page)
    Counter("picks", "Picks made.", registry=plugins.registry_of("a"))
    plugins.publish([])
    text = show().decode()
    assert 'llm_d_epp_info{version="1.2.3"} 1.0' in text
    assert 'llm_d_epp_request_total{model_name="demo"} 1.0' in text
    assert 'picks_total{plugin="a"} 0.0' in text
