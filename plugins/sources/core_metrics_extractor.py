"""`core-metrics-extractor`: extracts load and cache metrics from an engine's metrics page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import Field, model_validator

from plugins.shared.engines import ENGINES, Engine, MetricSpec
from pointsman import (
    ACTIVE_ADAPTERS,
    ENGINE_LABEL,
    KV_CACHE_USAGE,
    RUNNING,
    WAITING,
    WAITING_ADAPTERS,
    Endpoint,
    EndpointMetrics,
    Exposition,
    PluginParams,
    Sample,
    ScrapeError,
    mean,
    plugin,
    total,
)

OLD_ENGINE_LABEL = "inference.networking.k8s.io/engine-type"

Samples = Mapping[str, Sequence[Sample]]


class EngineConfig(PluginParams):
    """The metrics of an engine, each as `name` or `name{label=value}`; empty for none."""

    name: str = Field(min_length=1)
    """The name of the engine, as in the endpoints' label. The name of a built-in engine replaces that engine."""
    queued_requests_spec: str = ""
    """The number of waiting requests."""
    running_requests_spec: str = ""
    """The number of running requests."""
    kv_usage_spec: str = ""
    """The used share of the KV cache, from 0 to 1."""
    lora_spec: str = ""
    """A metric with the labels `running_lora_adapters`, `waiting_lora_adapters` and `max_lora`."""
    cache_info_spec: str = ""
    """A metric whose labels have the block size and the number of blocks of the KV cache."""
    cache_block_size_label_name: str = "block_size"
    """The label of `cacheInfoSpec` with the tokens per block."""
    cache_num_blocks_label_name: str = "num_gpu_blocks"
    """The label of `cacheInfoSpec` with the number of blocks."""
    cache_block_size_spec: str = ""
    """The tokens per block, if that is a metric's value."""
    cache_num_blocks_spec: str = ""
    """The number of blocks, if that is a metric's value."""

    @model_validator(mode="after")
    def _is_valid(self) -> EngineConfig:
        if self.name == "default":
            raise ValueError("the engine name 'default' is reserved")
        self.engine()
        return self

    def engine(self) -> Engine:
        """The configured engine. Raises `ValueError` for an invalid spec."""
        queued = self.queued_requests_spec
        return Engine(
            name=self.name,
            prefix=MetricSpec.parse(queued).name if queued else "",
            waiting=_specs(queued),
            running=_specs(self.running_requests_spec),
            kv_cache_usage=_specs(self.kv_usage_spec),
            lora=_spec(self.lora_spec),
            cache_info=_spec(self.cache_info_spec),
            block_size_label=self.cache_block_size_label_name,
            num_blocks_label=self.cache_num_blocks_label_name,
            block_size=_spec(self.cache_block_size_spec),
            num_blocks=_spec(self.cache_num_blocks_spec),
        )


@plugin("core-metrics-extractor")
class CoreMetricsExtractor:
    """Extracts waiting and running requests, KV cache usage and size, and LoRA adapters from a metrics page.

    The engine is taken from the endpoint's label, else from `defaultEngine`, else detected from the page. Over several
    label sets, such as the ranks of an engine, request counts are summed and cache usage is averaged.
    """

    class Params(PluginParams):
        """The engines, and how to determine the engine of an endpoint."""

        engine_label_key: str = Field(default=ENGINE_LABEL, min_length=1)
        """The endpoint label with the name of the engine."""
        default_engine: str = ""
        """The engine of endpoints without the label. By default it is detected from the metrics page."""
        engine_configs: tuple[EngineConfig, ...] = ()
        """More engines, or replacements for built-in ones."""

        @model_validator(mode="after")
        def _names_are_valid(self) -> CoreMetricsExtractor.Params:
            names = [config.name for config in self.engine_configs]
            if len(set(names)) < len(names):
                raise ValueError("two engineConfigs have the same name")
            known = sorted({*ENGINES, *names})
            if self.default_engine and self.default_engine not in known:
                message = f"defaultEngine {self.default_engine!r} is unknown; known engines are {', '.join(known)}"
                raise ValueError(message)
            return self

    produces = (WAITING, RUNNING, KV_CACHE_USAGE, ACTIVE_ADAPTERS, WAITING_ADAPTERS)

    @classmethod
    def engines(cls, params: Params) -> frozenset[str]:
        """The names of the built-in and the configured engines."""
        return frozenset({*ENGINES, *(config.name for config in params.engine_configs)})

    def __init__(self, params: Params) -> None:
        self._params = params
        configured = {config.name: config.engine() for config in params.engine_configs}
        self._engines: Mapping[str, Engine] = {**ENGINES, **configured}

    def extract(self, endpoint: Endpoint, payload: Exposition) -> EndpointMetrics:
        """The metrics on the page. Raises `ScrapeError` if it has neither waiting nor running requests."""
        engine = self._engine_of(endpoint, payload)
        samples = payload.samples(engine.metric_names)
        metrics = EndpointMetrics(
            engine=engine.name,
            waiting=total(_first(engine.waiting, samples)),
            running=total(_first(engine.running, samples)),
            kv_cache_usage=_share(mean(_first(engine.kv_cache_usage, samples))),
        )
        if metrics.waiting is None and metrics.running is None:
            message = f"the metrics page of {endpoint.name} has no load metrics of the engine {engine.name}"
            raise ScrapeError(message)
        return _with_adapters(_with_cache(metrics, engine, samples), engine, samples)

    def _engine_of(self, endpoint: Endpoint, page: Exposition) -> Engine:
        labels = endpoint.labels
        label = labels.get(self._params.engine_label_key) or labels.get(OLD_ENGINE_LABEL)
        name = label if label in self._engines else self._params.default_engine
        if name:
            return self._engines[name]
        for engine in self._engines.values():
            if engine.prefix and page.mentions(engine.prefix):
                return engine
        message = f"the metrics page of {endpoint.name} is of no known engine: {', '.join(self._engines)}"
        raise ScrapeError(message)


def _spec(text: str) -> MetricSpec | None:
    return MetricSpec.parse(text) if text else None


def _specs(text: str) -> tuple[MetricSpec, ...]:
    return (MetricSpec.parse(text),) if text else ()


def _first(specs: Sequence[MetricSpec], samples: Samples) -> list[Sample]:
    return next((found for spec in specs if (found := spec.of(samples))), [])


def _share(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


def _with_cache(metrics: EndpointMetrics, engine: Engine, samples: Samples) -> EndpointMetrics:
    infos = engine.cache_info.of(samples) if engine.cache_info else []
    sizes = [_count(info.labels.get(engine.block_size_label)) for info in infos]
    counts = [_count(info.labels.get(engine.num_blocks_label)) for info in infos]
    if engine.block_size:
        sizes = [_whole(mean(engine.block_size.of(samples)))]
    if engine.num_blocks:
        counts = [_whole(total(engine.num_blocks.of(samples)))]
    return replace(
        metrics,
        block_size=next((size for size in sizes if size), None),
        num_blocks=sum(count for count in counts if count) or None,
    )


def _with_adapters(metrics: EndpointMetrics, engine: Engine, samples: Samples) -> EndpointMetrics:
    infos = engine.lora.of(samples) if engine.lora else []
    if not infos:
        return metrics
    newest = max(infos, key=lambda info: info.value)
    return replace(
        metrics,
        running_adapters=_names(newest.labels.get("running_lora_adapters", "")),
        waiting_adapters=_names(newest.labels.get("waiting_lora_adapters", "")),
        max_adapters=_count(newest.labels.get("max_lora")) or 0,
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value >= 1 else None
