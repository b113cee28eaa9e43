"""The metrics of each engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pointsman import Sample

_SPEC = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*")
_PAIR = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*(?:"([^"]*)"|([^",{}]*?))\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The name of a metric, and the labels that its samples must have."""

    name: str
    labels: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> MetricSpec:
        """Parses `name` or `name{label=value, other="value"}`. Raises `ValueError` for anything else."""
        match = _SPEC.fullmatch(text)
        pairs, end = {}, 0
        inner = (match and match[2]) or ""
        while match and end < len(inner):
            pair = _PAIR.match(inner, end)
            if pair is None:
                match = None
                break
            pairs[pair[1]] = pair[2] if pair[2] is not None else pair[3]
            end = pair.end()
        if match is None:
            message = f"{text!r} is not a metric: expected name or name{{label=value}}"
            raise ValueError(message)
        return cls(match[1], pairs)

    def of(self, samples: Mapping[str, Sequence[Sample]]) -> list[Sample]:
        """The samples with this name and these labels."""
        return [
            sample
            for sample in samples.get(self.name, ())
            if all(sample.labels.get(label) == value for label, value in self.labels.items())
        ]


@dataclass(frozen=True, slots=True)
class Engine:
    """The metrics of a model server. Of several specs for one value, the first that has samples is used."""

    name: str
    prefix: str
    """The prefix of its metric names, by which the engine is detected."""
    waiting: tuple[MetricSpec, ...] = ()
    running: tuple[MetricSpec, ...] = ()
    kv_cache_usage: tuple[MetricSpec, ...] = ()
    lora: MetricSpec | None = None
    """Its labels list the LoRA adapters; its value is the time of the update."""
    cache_info: MetricSpec | None = None
    """Its labels have the block size and the number of blocks of the KV cache."""
    block_size_label: str = "block_size"
    num_blocks_label: str = "num_gpu_blocks"
    block_size: MetricSpec | None = None
    num_blocks: MetricSpec | None = None

    @property
    def metric_names(self) -> frozenset[str]:
        """The names of all its metrics."""
        several = (*self.waiting, *self.running, *self.kv_cache_usage)
        single = (self.lora, self.cache_info, self.block_size, self.num_blocks)
        return frozenset(spec.name for spec in (*several, *single) if spec is not None)


def _specs(*texts: str) -> tuple[MetricSpec, ...]:
    return tuple(map(MetricSpec.parse, texts))


VLLM = Engine(
    "vllm",
    "vllm:",
    waiting=_specs("vllm:num_requests_waiting"),
    running=_specs("vllm:num_requests_running"),
    kv_cache_usage=_specs("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    lora=MetricSpec.parse("vllm:lora_requests_info"),
    cache_info=MetricSpec.parse("vllm:cache_config_info"),
)
SGLANG = Engine(
    "sglang",
    "sglang:",
    waiting=_specs("sglang:num_queue_reqs"),
    running=_specs("sglang:num_running_reqs"),
    kv_cache_usage=_specs("sglang:token_usage"),
    cache_info=MetricSpec.parse("sglang:cache_config_info"),
    block_size_label="page_size",
    num_blocks_label="num_pages",
)

TRTLLM_SERVE = Engine(
    "trtllm-serve",
    "trtllm_",
    waiting=_specs("trtllm_num_requests_waiting"),
    running=_specs("trtllm_num_requests_running"),
    kv_cache_usage=_specs("trtllm_kv_cache_utilization"),
    block_size=MetricSpec.parse("trtllm_kv_cache_tokens_per_block"),
    num_blocks=MetricSpec.parse("trtllm_kv_cache_max_blocks"),
)
TRITON_TENSORRT_LLM = Engine(
    "triton-tensorrt-llm",
    "nv_trt_llm_",
    waiting=_specs("nv_trt_llm_request_metrics{request_type=waiting}"),
    running=_specs("nv_trt_llm_request_metrics{request_type=scheduled}"),
    kv_cache_usage=_specs("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
    block_size=MetricSpec.parse("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}"),
    num_blocks=MetricSpec.parse("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}"),
)
TRITON = Engine("triton", "nv_inference_", waiting=_specs("nv_inference_pending_request_count"))
"""Triton reports waiting requests only: its execution count is a counter, not the number of running requests."""
LLAMACPP = Engine(
    "llamacpp",
    "llamacpp:",
    waiting=_specs("llamacpp:requests_deferred"),
    running=_specs("llamacpp:requests_processing"),
)
"""llama.cpp does not report KV cache usage."""

ENGINES: Mapping[str, Engine] = {
    engine.name: engine for engine in (VLLM, SGLANG, TRTLLM_SERVE, TRITON_TENSORRT_LLM, TRITON, LLAMACPP)
}
"""The built-in engines by name. The engine of a metrics page is the first one with a matching prefix, so the order
matters: Triton with TensorRT-LLM has the metrics of both."""
