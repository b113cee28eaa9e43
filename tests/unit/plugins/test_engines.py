"""The metrics pages of TensorRT-LLM, Triton and llama.cpp, and the load columns of their candidates."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.extension import Candidates, EndpointMetrics, ScrapeError
from app.fleet.exposition import Exposition
from app.fleet.pool import EndpointPool
from plugins.filters.load_aware import LoadAwareFilter
from plugins.sources.core_metrics_extractor import CoreMetricsExtractor
from pointsman.testing import FakeClock, make_candidates, make_endpoint, make_request
from tests.unit.plugins.given import params_of

LLAMACPP_PAGE = (Path(__file__).parents[2] / "data" / "llamacpp.txt").read_bytes()

TRTLLM_PAGE = """\
# HELP trtllm_num_requests_running Number of requests currently running.
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{engine_type="trtllm",model_name="demo"} 6.0
# HELP trtllm_num_requests_waiting Number of requests waiting.
# TYPE trtllm_num_requests_waiting gauge
trtllm_num_requests_waiting{engine_type="trtllm",model_name="demo"} 2.0
# HELP trtllm_kv_cache_hit_rate KV cache hit rate
# TYPE trtllm_kv_cache_hit_rate gauge
trtllm_kv_cache_hit_rate{engine_type="trtllm",model_name="demo"} 0.9
# HELP trtllm_kv_cache_utilization KV cache utilization
# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="demo"} 0.62
# HELP trtllm_kv_cache_tokens_per_block Tokens per KV cache block
# TYPE trtllm_kv_cache_tokens_per_block gauge
trtllm_kv_cache_tokens_per_block{engine_type="trtllm",model_name="demo"} 32.0
# HELP trtllm_kv_cache_max_blocks KV cache blocks
# TYPE trtllm_kv_cache_max_blocks gauge
trtllm_kv_cache_max_blocks{engine_type="trtllm",model_name="demo"} 4096.0
# HELP trtllm_request_success_total Count of successfully processed requests.
# TYPE trtllm_request_success_total counter
trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="demo"} 77.0
# HELP trtllm_e2e_request_latency_seconds Histogram of end to end request latency in seconds.
# TYPE trtllm_e2e_request_latency_seconds histogram
trtllm_e2e_request_latency_seconds_bucket{engine_type="trtllm",le="+Inf",model_name="demo"} 77.0
"""

INFERENCE = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="resnet50",version="1"} 500
nv_inference_request_success{model="bert",version="2"} 40
# HELP nv_inference_exec_count Number of model executions performed (does not include cached requests)
# TYPE nv_inference_exec_count counter
nv_inference_exec_count{model="resnet50",version="1"} 480
nv_inference_exec_count{model="bert",version="2"} 33
# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="resnet50",version="1"} 3
nv_inference_pending_request_count{model="bert",version="2"} 11
# HELP nv_cpu_utilization CPU utilization rate [0.0 - 1.0]
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.25
"""

TENSORRT_LLM = """\
# HELP nv_trt_llm_request_metrics TRT LLM request metrics
# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 5
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 9
# HELP nv_trt_llm_runtime_memory_metrics TRT LLM runtime memory metrics
# TYPE nv_trt_llm_runtime_memory_metrics gauge
nv_trt_llm_runtime_memory_metrics{memory_type="gpu",model="tensorrt_llm",version="1"} 1610236
# HELP nv_trt_llm_kv_cache_block_metrics TRT LLM KV cache block metrics
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 1563
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 4689
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6252
"""

OF_TRTLLM = EndpointMetrics(
    waiting=2.0, running=6.0, kv_cache_usage=0.62, engine="trtllm-serve", block_size=32, num_blocks=4096
)
OF_TENSORRT_LLM = EndpointMetrics(
    waiting=5.0, running=4.0, kv_cache_usage=0.25, engine="triton-tensorrt-llm", block_size=64, num_blocks=6252
)
OF_TRITON = EndpointMetrics(waiting=14.0, engine="triton")
OF_LLAMACPP = EndpointMetrics(waiting=8.0, running=1.0, engine="llamacpp")

PAGES = [
    pytest.param(TRTLLM_PAGE, OF_TRTLLM, id="trtllm-serve"),
    pytest.param(TENSORRT_LLM, OF_TENSORRT_LLM, id="triton-tensorrt-llm"),
    pytest.param(INFERENCE, OF_TRITON, id="triton"),
    pytest.param(LLAMACPP_PAGE, OF_LLAMACPP, id="llamacpp"),
    pytest.param(INFERENCE + TENSORRT_LLM, OF_TENSORRT_LLM, id="both of Triton"),
    pytest.param(TENSORRT_LLM + INFERENCE, OF_TENSORRT_LLM, id="both of Triton in the other order"),
]


def extract(page: bytes | str, labels: dict[str, str] | None = None, **params: Any) -> EndpointMetrics:
    plugin = CoreMetricsExtractor(params_of(CoreMetricsExtractor.Params, params))
    return plugin.extract(make_endpoint(labels=labels), Exposition(page))


@pytest.mark.parametrize(("page", "metrics"), PAGES)
def test_the_engine_is_detected(page: bytes | str, metrics: EndpointMetrics) -> None:
    assert extract(page) == metrics


@pytest.mark.parametrize(("page", "metrics"), PAGES)
def test_the_engine_is_taken_from_the_label(page: bytes | str, metrics: EndpointMetrics) -> None:
    assert extract(page, {"llm-d.ai/engine-type": metrics.engine}) == metrics


@pytest.mark.parametrize(("page", "metrics"), PAGES)
def test_the_engine_is_taken_from_the_default_engine(page: bytes | str, metrics: EndpointMetrics) -> None:
    assert extract(page, defaultEngine=metrics.engine) == metrics


def test_a_page_with_metrics_of_both_is_plain_triton_if_the_label_says_so() -> None:
    assert extract(INFERENCE + TENSORRT_LLM, {"llm-d.ai/engine-type": "triton"}) == OF_TRITON


def test_triton_s_execution_count_is_not_the_number_of_running_requests() -> None:
    assert extract(INFERENCE).running is None


@pytest.mark.parametrize(
    ("page", "metrics"),
    [
        pytest.param(
            'trtllm_num_requests_waiting{rank="0"} 1\ntrtllm_num_requests_waiting{rank="1"} 2\n'
            'trtllm_kv_cache_utilization{rank="0"} 0.25\ntrtllm_kv_cache_utilization{rank="1"} 0.75\n'
            'trtllm_kv_cache_tokens_per_block{rank="0"} 32\ntrtllm_kv_cache_tokens_per_block{rank="1"} 32\n'
            'trtllm_kv_cache_max_blocks{rank="0"} 100\ntrtllm_kv_cache_max_blocks{rank="1"} 90\n',
            EndpointMetrics(waiting=3.0, kv_cache_usage=0.5, engine="trtllm-serve", block_size=32, num_blocks=190),
            id="queues and blocks summed and usages averaged",
        ),
        pytest.param(
            'nv_trt_llm_request_metrics{model="a",request_type="scheduled"} 1\n'
            'nv_trt_llm_request_metrics{model="b",request_type="scheduled"} 2\n'
            'nv_trt_llm_request_metrics{model="a",request_type="max"} 512\n',
            EndpointMetrics(running=3.0, engine="triton-tensorrt-llm"),
            id="a version without waiting requests",
        ),
        pytest.param(
            "llamacpp:requests_processing 2\n",
            EndpointMetrics(running=2.0, engine="llamacpp"),
            id="only running requests",
        ),
        pytest.param(
            "trtllm_num_requests_running 0\ntrtllm_kv_cache_tokens_per_block 0\ntrtllm_kv_cache_max_blocks NaN\n",
            EndpointMetrics(running=0.0, engine="trtllm-serve"),
            id="a cache without a size",
        ),
    ],
)
def test_missing_metrics_are_unknown(page: str, metrics: EndpointMetrics) -> None:
    assert extract(page) == metrics


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        pytest.param("nv_cpu_utilization 0.5\n", {}, id="triton without models"),
        pytest.param("nv_inference_exec_count 5\n", {}, id="triton without a queue"),
        pytest.param('nv_trt_llm_request_metrics{request_type="max"} 512\n', {}, id="neither waiting nor running"),
        pytest.param("trtllm_request_success_total 5\n", {}, id="trtllm-serve without the load"),
        pytest.param("llamacpp:n_decode_total 5\n", {}, id="llamacpp without the load"),
        pytest.param(INFERENCE, {"llm-d.ai/engine-type": "triton-tensorrt-llm"}, id="label of the other triton"),
        pytest.param("my_trtllm_num_requests_waiting 1\n", {}, id="a name with the same suffix"),
        pytest.param("nv_inference_pending_request_count many\n", {}, id="a queue that is not a number"),
    ],
)
def test_a_page_without_load_metrics_is_an_error(page: str, labels: dict[str, str]) -> None:
    with pytest.raises(ScrapeError):
        extract(page, labels)


# -- the columns of candidates


def candidates_of(*pages: bytes | str, in_flight: dict[str, int]) -> Candidates:
    pool = EndpointPool(clock=FakeClock(), in_flight=lambda name: in_flight.get(name, 0))
    endpoints = [make_endpoint(f"e{number}") for number in range(len(pages))]
    pool.replace_all(endpoints)
    for endpoint, page in zip(endpoints, pages, strict=True):
        pool.record(endpoint, extract(page))
    return pool.candidates()


def test_running_requests_on_triton_are_those_in_flight_and_its_queue_is_as_reported() -> None:
    candidates = candidates_of(INFERENCE, TRTLLM_PAGE, in_flight={"e0": 7, "e1": 50})
    assert (candidates.waiting.tolist(), candidates.running.tolist()) == ([14.0, 2.0], [7.0, 6.0])


def test_triton_alone_is_known_by_its_queue() -> None:
    candidates = candidates_of(INFERENCE, in_flight={"e0": 7})
    assert (candidates.known.tolist(), candidates.waiting.tolist()) == ([True], [14.0])
    assert (candidates.running.tolist(), candidates.kv_cache_usage.tolist()) == ([7.0], [0.5])


def test_an_unreported_cache_usage_is_the_mean_of_the_others() -> None:
    candidates = candidates_of(LLAMACPP_PAGE, TENSORRT_LLM, TRTLLM_PAGE, in_flight={})
    assert candidates.kv_cache_usage.tolist() == pytest.approx([(0.25 + 0.62) / 2, 0.25, 0.62])


def test_triton_is_known_to_the_load_aware_filter() -> None:
    plugin = LoadAwareFilter(LoadAwareFilter.Params(queue_threshold=14))
    candidates = candidates_of(INFERENCE, "llamacpp:requests_deferred 15\n", in_flight={"e0": 99})
    assert np.asarray(plugin.filter(make_request(), candidates)).tolist() == [True, False]


NAN = math.nan
IN_FLIGHT = {"a": 3, "b": 4, "c": 5}


@pytest.mark.parametrize(
    ("waiting", "running", "expected_waiting", "expected_running", "known"),
    [
        pytest.param([1, 2, 0], [NAN, 9, 8], [1, 2, 0], [3, 9, 8], [True] * 3, id="one running is missing"),
        pytest.param([1, 2, 0], [NAN] * 3, [1, 2, 0], [3, 4, 5], [True] * 3, id="all running are missing"),
        pytest.param([NAN, 2, 0], [7, 9, 8], [3, 2, 0], [7, 9, 8], [False, True, True], id="one waiting is missing"),
        pytest.param([NAN, 2, 0], [NAN, 9, 8], [3, 2, 0], [3, 9, 8], [False, True, True], id="both are missing"),
        pytest.param([NAN, 2, 0], [7, NAN, 8], [3, 2, 0], [7, 4, 8], [False, True, True], id="one of each"),
        pytest.param([1, 2, 0], [7, 9, 8], [1, 2, 0], [7, 9, 8], [True] * 3, id="none is missing"),
    ],
)
def test_only_missing_values_are_filled_in(
    waiting: list[float],
    running: list[float],
    expected_waiting: list[float],
    expected_running: list[float],
    known: list[bool],
) -> None:
    candidates = make_candidates("a", "b", "c", waiting=waiting, running=running, in_flight=IN_FLIGHT)
    found = (candidates.waiting.tolist(), candidates.running.tolist(), candidates.known.tolist())
    assert found == (expected_waiting, expected_running, known)


def test_filled_in_values_stay_aligned_in_a_subset() -> None:
    candidates = make_candidates("a", "b", "c", waiting=[1, 2, 0], running=[NAN, 9, NAN], in_flight=IN_FLIGHT)
    left = candidates.where(np.array([False, True, True]))
    assert (left.waiting.tolist(), left.running.tolist(), left.known.tolist()) == ([2, 0], [9, 5], [True, True])
