"""The metrics page of the simulated server, with vLLM's metric names."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.simulation.engine import BLOCK_TOKENS, Engine


class EngineMetrics(Collector):
    """Collects the metrics of the engine at each scrape."""

    def __init__(self, engine: Engine, model: str) -> None:
        self._engine = engine
        self._model = model
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def page(self) -> bytes:
        """The metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The subset of vLLM's metrics that the engine has."""
        engine, counters = self._engine, self._engine.counters
        yield self._gauge("num_requests_running", "Requests in the batch.", len(engine.running))
        yield self._gauge("num_requests_waiting", "Requests waiting.", len(engine.waiting))
        yield self._gauge("kv_cache_usage_perc", "Used share of the KV cache, 0 to 1.", engine.cache.usage)
        yield self._counter("prefix_cache_queries", "Tokens looked up in the prefix cache.", counters.prefix_queries)
        yield self._counter("prefix_cache_hits", "Tokens found in the prefix cache.", counters.prefix_hits)
        yield self._counter("prompt_tokens", "Tokens of prompts.", counters.prompt_tokens)
        yield self._counter("generation_tokens", "Tokens generated.", counters.generation_tokens)
        yield self._counter("num_preemptions", "Preempted sequences.", counters.preemptions)
        yield self._cache_config()
        yield self._lora()

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name"])
        family.add_metric(["0", self._model], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name"])
        family.add_metric(["0", self._model], value)
        return family

    def _cache_config(self) -> Metric:
        family = GaugeMetricFamily(
            "vllm:cache_config_info", "The KV cache.", labels=["block_size", "engine", "num_gpu_blocks"]
        )
        family.add_metric([str(BLOCK_TOKENS), "0", str(self._engine.options.num_gpu_blocks)], 1)
        return family

    def _lora(self) -> Metric:
        family = GaugeMetricFamily(
            "vllm:lora_requests_info",
            "LoRA adapters in use; the value is a timestamp.",
            labels=["max_lora", "running_lora_adapters", "waiting_lora_adapters"],
        )
        running, waiting = sorted(self._engine.running_adapters), sorted(self._engine.waiting_adapters)
        if running or waiting:
            slots = str(self._engine.options.max_loras)
            family.add_metric([slots, ",".join(running), ",".join(waiting)], time.time())
        return family
