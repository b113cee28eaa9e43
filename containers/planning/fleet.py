"""Plans where endpoints and their metrics come from."""

from __future__ import annotations

from collections.abc import Sequence

from app.extension import Discovery, Extractor, MetricsSource
from app.settings.errors import did_you_mean
from containers.planning.draft import Draft
from containers.planning.plan import SourcePlan

SOURCE = "metrics-data-source"
EXTRACTOR = "core-metrics-extractor"


def plan_sources(draft: Draft) -> Sequence[SourcePlan]:
    """The metrics sources listed, and the default one unless one of its type is listed or it is switched off."""
    layer = draft.settings.data_layer
    plans = []
    for index, source in enumerate(layer.sources):
        at = ("dataLayer", "sources", index)
        found = draft.resolve(
            source.plugin_ref, draft.configuration.origin(*at, "pluginRef"), "a source", MetricsSource
        )
        extractors = [
            extractor.name
            for place, reference in enumerate(source.extractors)
            if (
                extractor := draft.resolve(
                    reference.plugin_ref,
                    draft.configuration.origin(*at, "extractors", place, "pluginRef"),
                    "an extractor",
                    Extractor,
                )
            )
        ]
        if found is not None:
            plans.append(SourcePlan(found.name, extractors or _default_extractor(draft, found.type.mark.type)))
    types = {draft.plugins[plan.source].type.mark.type for plan in plans}
    if layer.inject_defaults and SOURCE not in types:
        plans += _default_source(draft)
    return plans


def plan_discovery(draft: Draft) -> str | None:
    """The discovery plugin's name, if endpoints are not written down in the configuration."""
    reference = draft.settings.data_layer.discovery
    if reference is None:
        return None
    origin = draft.configuration.origin("dataLayer", "discovery", "pluginRef")
    found = draft.resolve(reference.plugin_ref, origin, "the discovery", Discovery)
    if draft.settings.pool.endpoints:
        endpoints = draft.configuration.origin("pool", "endpoints")
        draft.faults.error(
            endpoints, "the pool has endpoints written down and a discovery plugin", "leave one of the two out"
        )
    return found.name if found else None


def check_engines(draft: Draft) -> None:
    """Every engine that an endpoint is said to be must be known to an extractor."""
    known = {"auto"}
    for plugin in draft.serving(Extractor):
        engines = getattr(plugin.type.cls, "engines", None)
        known |= set(engines(plugin.params)) if engines else set()
    for index, endpoint in enumerate(draft.settings.pool.endpoints):
        if endpoint.engine not in known:
            origin = draft.configuration.origin("pool", "endpoints", index, "engine")
            draft.faults.error(origin, f"unknown engine {endpoint.engine!r}", did_you_mean(endpoint.engine, known))


def _default_extractor(draft: Draft, source_type: str) -> Sequence[str]:
    if source_type != SOURCE:
        return ()
    found = draft.plugins.get(EXTRACTOR) or draft.add(EXTRACTOR, f"{SOURCE} has no extractor")
    draft.used.add(EXTRACTOR)
    return (EXTRACTOR,) if found else ()


def _default_source(draft: Draft) -> Sequence[SourcePlan]:
    named = next((p.name for p in draft.serving(MetricsSource) if p.type.mark.type == SOURCE), None)
    if named is None and draft.add(SOURCE, "metrics are read by default") is None:
        return ()
    draft.used.add(named or SOURCE)
    return (SourcePlan(named or SOURCE, _default_extractor(draft, SOURCE)),)
