"""`core-metrics-extractor`: the metrics pages of engines, and detection of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.extension import EndpointMetrics, ScrapeError
from app.fleet.exposition import Exposition
from plugins.shared.engines import MetricSpec
from plugins.sources.core_metrics_extractor import CoreMetricsExtractor
from pointsman.testing import make_endpoint
from tests.unit.plugins.given import params_of

VLLM_PAGE = (Path(__file__).parents[2] / "data" / "vllm-0.32-cpu.txt").read_bytes()

SGLANG_PAGE = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="demo",tp_rank="0"} 5.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="demo",tp_rank="0"} 3.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="demo",tp_rank="0"} 0.28
# TYPE sglang:cache_config_info gauge
sglang:cache_config_info{page_size="64",num_pages="1000"} 1.0
"""

TWO_RANKS = """\
vllm:num_requests_waiting{engine="0"} 2
vllm:num_requests_waiting{engine="1"} 5
vllm:num_requests_running{engine="0"} 1
vllm:num_requests_running{engine="1"} 3
vllm:kv_cache_usage_perc{engine="0"} 0.2
vllm:kv_cache_usage_perc{engine="1"} 0.6
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="900"} 1
"""

BOTH = "vllm:num_requests_waiting 1\nsglang:num_queue_reqs 2\nacme_queue 3\n"
ACME = {"name": "acme", "queuedRequestsSpec": "acme_queue"}


def extract(page: bytes | str, labels: dict[str, str] | None = None, **params: Any) -> EndpointMetrics:
    plugin = CoreMetricsExtractor(params_of(CoreMetricsExtractor.Params, params))
    return plugin.extract(make_endpoint(labels=labels), Exposition(page))


def vllm(*lines: str) -> str:
    return "\n".join(["vllm:num_requests_waiting 0", *lines, ""])


def lora(running: str, waiting: str = "", *, value: str = "1", most: str = "4") -> str:
    labels = f'max_lora="{most}",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"'
    return f"vllm:lora_requests_info{{{labels}}} {value}"


def test_a_real_vllm_page_is_parsed() -> None:
    assert extract(VLLM_PAGE) == EndpointMetrics(
        waiting=24.0,
        running=8.0,
        kv_cache_usage=0.003173924985503729,
        engine="vllm",
        block_size=32,
        num_blocks=32768,
    )


def test_an_sglang_page_is_parsed() -> None:
    assert extract(SGLANG_PAGE) == EndpointMetrics(
        waiting=3.0, running=5.0, kv_cache_usage=0.28, engine="sglang", block_size=64, num_blocks=1000
    )


def test_over_ranks_requests_and_blocks_are_summed_and_usage_is_averaged() -> None:
    assert extract(TWO_RANKS) == EndpointMetrics(
        waiting=7.0, running=4.0, kv_cache_usage=pytest.approx(0.4), engine="vllm", block_size=16, num_blocks=1900
    )


@pytest.mark.parametrize(
    ("lines", "usage"),
    [
        pytest.param(["vllm:gpu_cache_usage_perc 0.5"], 0.5, id="old name"),
        pytest.param(
            ["vllm:gpu_cache_usage_perc 0.5", "vllm:kv_cache_usage_perc 0.25"], 0.25, id="new name before old"
        ),
        pytest.param(["vllm:kv_cache_usage_perc 1.5"], 1.0, id="over one"),
        pytest.param(["vllm:kv_cache_usage_perc -0.5"], 0.0, id="negative"),
        pytest.param(["vllm:kv_cache_usage_perc NaN"], None, id="NaN"),
        pytest.param(["vllm:kv_cache_usage_percent 0.5"], None, id="a longer name"),
        pytest.param([], None, id="missing"),
    ],
)
def test_kv_cache_usage_is_found_under_both_names(lines: list[str], usage: float | None) -> None:
    assert extract(vllm(*lines)).kv_cache_usage == usage


@pytest.mark.parametrize(
    ("value", "waiting"),
    [
        pytest.param("3", 3.0, id="whole"),
        pytest.param("3.0e0", 3.0, id="with an exponent"),
        pytest.param("3 1700000000000", 3.0, id="with a timestamp"),
        pytest.param("NaN", None, id="NaN"),
        pytest.param("+Inf", None, id="infinite"),
    ],
)
def test_a_queue_that_is_not_finite_is_unknown(value: str, waiting: float | None) -> None:
    page = f"vllm:num_requests_waiting {value}\nvllm:num_requests_running 1\n"
    assert extract(page).waiting == waiting


@pytest.mark.parametrize(
    ("lines", "running", "waiting", "most"),
    [
        pytest.param([], set(), set(), 0, id="no such metric"),
        pytest.param([lora("sql")], {"sql"}, set(), 4, id="one running"),
        pytest.param([lora("sql, chat", "math")], {"sql", "chat"}, {"math"}, 4, id="space after the comma"),
        pytest.param([lora("", "")], set(), set(), 4, id="none"),
        pytest.param([lora(",sql,")], {"sql"}, set(), 4, id="commas at the ends"),
        pytest.param([lora("old", value="1"), lora("new", value="2")], {"new"}, set(), 4, id="newest last"),
        pytest.param([lora("new", value="2"), lora("old", value="1")], {"new"}, set(), 4, id="newest first"),
        pytest.param([lora("n", value="1.7e9"), lora("o", value="1.6e9")], {"n"}, set(), 4, id="times with exponents"),
        pytest.param([lora("sql", most="many")], {"sql"}, set(), 0, id="max_lora is not a number"),
    ],
)
def test_the_newest_sample_has_the_adapters(lines: list[str], running: set[str], waiting: set[str], most: int) -> None:
    metrics = extract(vllm(*lines))
    assert (metrics.running_adapters, metrics.waiting_adapters, metrics.max_adapters) == (running, waiting, most)


@pytest.mark.parametrize(
    ("labels", "params", "engine"),
    [
        pytest.param({"llm-d.ai/engine-type": "sglang"}, {}, "sglang", id="label"),
        pytest.param({"inference.networking.k8s.io/engine-type": "sglang"}, {}, "sglang", id="older label"),
        pytest.param(
            {"llm-d.ai/engine-type": "vllm", "inference.networking.k8s.io/engine-type": "sglang"},
            {"defaultEngine": "sglang"},
            "vllm",
            id="label before older label and default",
        ),
        pytest.param({"engine": "sglang"}, {"engineLabelKey": "engine"}, "sglang", id="another label"),
        pytest.param(
            {"llm-d.ai/engine-type": "sglang"}, {"defaultEngine": "vllm"}, "sglang", id="label before default"
        ),
        pytest.param({}, {"defaultEngine": "sglang"}, "sglang", id="default before detection"),
        pytest.param({"llm-d.ai/engine-type": "??"}, {"defaultEngine": "sglang"}, "sglang", id="unknown label"),
        pytest.param({"llm-d.ai/engine-type": "??"}, {}, "vllm", id="unknown label without a default"),
        pytest.param({}, {}, "vllm", id="first engine found on the page"),
        pytest.param({"llm-d.ai/engine-type": "acme"}, {"engineConfigs": [ACME]}, "acme", id="custom engine by label"),
        pytest.param({}, {"engineConfigs": [ACME], "defaultEngine": "acme"}, "acme", id="custom engine by default"),
    ],
)
def test_the_label_overrides_the_default_engine_which_overrides_detection(
    labels: dict[str, str], params: dict[str, Any], engine: str
) -> None:
    assert extract(BOTH, labels, **params).engine == engine


@pytest.mark.parametrize(
    ("page", "engine"),
    [
        pytest.param("# HELP vllm:x\nsglang:num_queue_reqs 1\n", "sglang", id="comments do not count"),
        pytest.param("python_info 1\nvllm:num_requests_running 1\n", "vllm", id="not on the first line"),
        pytest.param("acme_queue 1\n", "acme", id="custom engine"),
    ],
)
def test_the_engine_is_detected_from_the_page(page: str, engine: str) -> None:
    assert extract(page, engineConfigs=[ACME]).engine == engine


@pytest.mark.parametrize(
    ("page", "labels"),
    [
        pytest.param("python_info 1\n", {}, id="no engine"),
        pytest.param("vllm:num_preemptions_total 1\n", {}, id="no load metrics"),
        pytest.param("vllm:num_requests_waiting 1\n", {"llm-d.ai/engine-type": "sglang"}, id="another engine"),
        pytest.param("vllm:num_requests_waiting NaN\n", {}, id="load is NaN"),
        pytest.param("vllm:num_requests_waiting one\n", {}, id="invalid line"),
        pytest.param('vllm:num_requests_waiting{engine="0} 1\n', {}, id="unterminated label"),
    ],
)
def test_an_invalid_page_is_an_error(page: str, labels: dict[str, str]) -> None:
    with pytest.raises(ScrapeError):
        extract(page, labels)


CUSTOM = {
    "name": "acme",
    "queuedRequestsSpec": 'acme_requests{state="queued"}',
    "runningRequestsSpec": "acme_requests{state=running, pool=main}",
    "kvUsageSpec": "acme_cache{kind=used}",
    "loraSpec": "acme_lora",
    "cacheBlockSizeSpec": "acme_cache{kind=block}",
    "cacheNumBlocksSpec": "acme_cache{kind=blocks}",
}
CUSTOM_PAGE = """\
acme_requests{state="queued",pool="main"} 4
acme_requests{state="queued",pool="spare"} 1
acme_requests{state="running",pool="main"} 2
acme_requests{state="running",pool="spare"} 9
acme_cache{kind="used"} 0.75
acme_cache{kind="block"} 32
acme_cache{kind="blocks"} 512
acme_lora{max_lora="2",running_lora_adapters="a",waiting_lora_adapters="b"} 1
"""


def test_a_custom_engine_is_parsed_by_its_specs() -> None:
    assert extract(CUSTOM_PAGE, engineConfigs=[CUSTOM]) == EndpointMetrics(
        waiting=5.0,
        running=2.0,
        kv_cache_usage=0.75,
        engine="acme",
        block_size=32,
        num_blocks=512,
        running_adapters=frozenset({"a"}),
        waiting_adapters=frozenset({"b"}),
        max_adapters=2,
    )


def test_a_custom_engine_may_set_the_labels_of_its_cache_info() -> None:
    config = {**ACME, "cacheInfoSpec": "acme_info", "cacheBlockSizeLabelName": "size", "cacheNumBlocksLabelName": "n"}
    metrics = extract('acme_queue 0\nacme_info{size="8",n="99"} 1\n', engineConfigs=[config])
    assert (metrics.block_size, metrics.num_blocks) == (8, 99)


def test_a_custom_engine_replaces_a_built_in_one() -> None:
    config = {"name": "vllm", "queuedRequestsSpec": "vllm:num_requests_running"}
    metrics = extract(TWO_RANKS, engineConfigs=[config])
    assert metrics == EndpointMetrics(waiting=4.0, engine="vllm")


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param('block_size="None",num_gpu_blocks="None"', id="None"),
        pytest.param('block_size="0",num_gpu_blocks="0"', id="zero"),
        pytest.param('block_size="-16",num_gpu_blocks="1.5"', id="negative and fraction"),
        pytest.param('engine="0"', id="missing"),
    ],
)
def test_a_cache_without_a_valid_size_has_none(labels: str) -> None:
    metrics = extract(vllm(f"vllm:cache_config_info{{{labels}}} 1"))
    assert (metrics.block_size, metrics.num_blocks) == (None, None)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"defaultEngine": "unknown"}, id="unknown default"),
        pytest.param({"engineLabelKey": ""}, id="empty label"),
        pytest.param({"engineConfigs": [{"name": ""}]}, id="engine without a name"),
        pytest.param({"engineConfigs": [{"name": "default"}]}, id="reserved name"),
        pytest.param({"engineConfigs": [ACME, ACME]}, id="duplicate name"),
        pytest.param({"engineConfigs": [{**ACME, "queuedRequestsSpec": "no metric"}]}, id="queue spec with a space"),
        pytest.param({"engineConfigs": [{**ACME, "kvUsageSpec": "a{b}"}]}, id="label without a value"),
        pytest.param({"engineConfigs": [{**ACME, "loraSpec": "a{b=c"}]}, id="unterminated brace"),
        pytest.param({"engineConfigs": [{**ACME, "unknownSpec": "a"}]}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(CoreMetricsExtractor.Params, values)


@pytest.mark.parametrize(
    ("text", "name", "labels"),
    [
        pytest.param("queue", "queue", {}, id="name"),
        pytest.param(" ns:queue ", "ns:queue", {}, id="spaces around"),
        pytest.param("queue{}", "queue", {}, id="no labels"),
        pytest.param("queue{a=b}", "queue", {"a": "b"}, id="one label"),
        pytest.param('queue{a="b"}', "queue", {"a": "b"}, id="quotes"),
        pytest.param('queue{a="b,c=d", e=f}', "queue", {"a": "b,c=d", "e": "f"}, id="comma in quotes"),
        pytest.param('queue{ a = b , c = "" }', "queue", {"a": "b", "c": ""}, id="spaces within"),
    ],
)
def test_a_spec_is_a_name_and_labels(text: str, name: str, labels: dict[str, str]) -> None:
    assert MetricSpec.parse(text) == MetricSpec(name, labels)


@pytest.mark.parametrize(
    "text",
    ["", "1queue", "queue{", "queue}", "queue{a}", "queue{=b}", "queue{a!=b}", "queue{a=b c=d}{", "a b", 'q{a="b}'],
)
def test_an_invalid_spec_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a metric"):
        MetricSpec.parse(text)
