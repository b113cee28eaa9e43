"""Plans where endpoints and their metrics come from."""

from __future__ import annotations

from collections.abc import Sequence

from app.extension import Discovery, Extractor, KnownEngines, MetricsSource
from app.planning.builder import PlanBuilder
from app.planning.plan import SourcePlan
from app.settings.errors import did_you_mean

SOURCE = "metrics-data-source"
EXTRACTOR = "core-metrics-extractor"


def plan_sources(builder: PlanBuilder) -> Sequence[SourcePlan]:
    """The listed metrics sources, and the default one unless one of its type is listed or `injectDefaults` is false."""
    layer = builder.settings.data_layer
    plans = []
    for index, source in enumerate(layer.sources):
        at = ("dataLayer", "sources", index)
        found = builder.resolve(
            source.plugin_ref, builder.configuration.origin(*at, "pluginRef"), "a source", MetricsSource
        )
        extractors = [
            extractor.name
            for place, reference in enumerate(source.extractors)
            if (
                extractor := builder.resolve(
                    reference.plugin_ref,
                    builder.configuration.origin(*at, "extractors", place, "pluginRef"),
                    "an extractor",
                    Extractor,
                )
            )
        ]
        if found is not None:
            plans.append(SourcePlan(found.name, extractors or _default_extractor(builder, found.type.mark.type)))
    types = {builder.plugins[plan.source].type.mark.type for plan in plans}
    if layer.inject_defaults and SOURCE not in types:
        plans += _default_source(builder)
    return plans


def plan_discovery(builder: PlanBuilder) -> str | None:
    """The name of the discovery plugin; None if the configuration names none."""
    reference = builder.settings.data_layer.discovery
    if reference is None:
        return None
    origin = builder.configuration.origin("dataLayer", "discovery", "pluginRef")
    found = builder.resolve(reference.plugin_ref, origin, "the discovery", Discovery)
    if builder.settings.pool.endpoints:
        endpoints = builder.configuration.origin("pool", "endpoints")
        builder.faults.error(
            endpoints, "the pool has both static endpoints and a discovery plugin", "remove one of them"
        )
    return found.name if found else None


def check_engines(builder: PlanBuilder) -> None:
    """Checks that an extractor knows the engine of each static endpoint."""
    known = {"auto"}
    for plugin in builder.serving(Extractor):
        cls = plugin.type.cls
        known |= set(cls.engines(plugin.params)) if isinstance(cls, KnownEngines) else set()
    for index, endpoint in enumerate(builder.settings.pool.endpoints):
        if endpoint.engine not in known:
            origin = builder.configuration.origin("pool", "endpoints", index, "engine")
            builder.faults.error(origin, f"unknown engine {endpoint.engine!r}", did_you_mean(endpoint.engine, known))


def _default_extractor(builder: PlanBuilder, source_type: str) -> Sequence[str]:
    if source_type != SOURCE:
        return ()
    found = builder.plugins.get(EXTRACTOR) or builder.add(EXTRACTOR, f"{SOURCE} has no extractor")
    builder.used.add(EXTRACTOR)
    return (EXTRACTOR,) if found else ()


def _default_source(builder: PlanBuilder) -> Sequence[SourcePlan]:
    named = next((p.name for p in builder.serving(MetricsSource) if p.type.mark.type == SOURCE), None)
    if named is None and builder.add(SOURCE, "metrics are scraped by default") is None:
        return ()
    builder.used.add(named or SOURCE)
    return (SourcePlan(named or SOURCE, _default_extractor(builder, SOURCE)),)
