"""Checks a configuration against the plugin types, and plans its generation."""

from __future__ import annotations

from app.catalogue.catalogue import Catalogue
from app.extension import Discovery, Filter, OnFinished, OnFirstToken, OnRefused, OnScheduled, Picker, Producer, Scorer
from app.planning.builder import PlanBuilder
from app.planning.consistency import check_consistency
from app.planning.facts import order_producers, supply_facts
from app.planning.fleet import check_engines, plan_discovery, plan_sources
from app.planning.parsers import plan_parsers
from app.planning.plan import Plan
from app.planning.profiles import plan_profile_picker, plan_profiles
from app.settings.configuration import Configuration
from app.settings.errors import did_you_mean
from app.settings.tree import exists

FEATURE_GATES = ("flowControl", "haPopulateNonLeaderDatastore")
_TRUE, _FALSE = ("1", "t", "true"), ("0", "f", "false")


def plan(configuration: Configuration, catalogue: Catalogue) -> Plan:
    """The plan of `configuration`. Raises `ConfigurationError` with all of its errors."""
    builder = PlanBuilder(configuration, catalogue)
    builder.add_configured()
    profiles = plan_profiles(builder)
    profile_picker = plan_profile_picker(builder, profiles)
    sources = plan_sources(builder)
    parsers = plan_parsers(builder)
    discovery = plan_discovery(builder)
    supply_facts(builder)
    producers = order_producers(builder)
    check_engines(builder)
    check_consistency(builder)
    _check_references(builder)
    _check_feature_gates(builder)
    _check_unsupported_sections(builder)
    _warn_of_unused(builder)
    _warn_of_wrong_twin(builder)
    configuration.require_no_errors()
    return Plan(builder.plugins, profiles, profile_picker, producers, sources, parsers, discovery, builder.notes)


def _check_references(builder: PlanBuilder) -> None:
    for plugin in builder.plugins.values():
        for reference in plugin.references:
            origin = builder.origin_of_reference(plugin.name, reference.name)
            builder.resolve(reference.name, origin, "the parameter", reference.point)
    _check_no_cycle(builder)


def _check_no_cycle(builder: PlanBuilder) -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            cycle = (*path[path.index(name) :], name)
            message = f"plugins refer to each other in a cycle: {' -> '.join(cycle)}"
            builder.faults.error(builder.origin_of_plugin(min(cycle)), message)
            return
        if name in done or name not in builder.plugins:
            return
        for reference in builder.plugins[name].references:
            visit(reference.name, (*path, name))
        done.add(name)

    for name in builder.plugins:
        visit(name, ())


def _check_feature_gates(builder: PlanBuilder) -> None:
    last = {text.partition("=")[0]: index for index, text in enumerate(builder.settings.feature_gates)}
    for index, text in enumerate(builder.settings.feature_gates):
        origin = builder.configuration.origin("featureGates", index)
        gate, equals, rest = text.partition("=")
        value = rest.strip().lower()
        if gate not in FEATURE_GATES:
            builder.faults.error(origin, f"unknown feature gate {gate!r}", did_you_mean(gate, FEATURE_GATES))
        elif equals and value not in (*_TRUE, *_FALSE):
            builder.faults.error(origin, f"expected {gate}=true or {gate}=false, found {rest!r}")
        elif last[gate] != index:
            continue  # the last mention of a gate wins
        elif gate == "flowControl" and value not in _FALSE:
            builder.faults.error(origin, "this version has no flow control", "set flowControl=false")
        else:
            builder.faults.warn(origin, f"the feature gate {gate} has no effect")


def _check_unsupported_sections(builder: PlanBuilder) -> None:
    settings = builder.settings
    for key in ("peerDiscovery", "crossReplicaSyncerPluginRef", "crossReplicaSyncInterval"):
        if exists(builder.configuration.tree, ("dataLayer", key)):
            origin = builder.configuration.origin("dataLayer", key)
            builder.faults.warn(origin, f"{key} has no effect: replicas do not share state in this version")
    if settings.flow_control is not None:
        origin = builder.configuration.origin("flowControl")
        builder.faults.warn(origin, "flowControl has no effect: this version has no flow control")
    detector = settings.flow_control and settings.flow_control.saturation_detector
    if detector and detector.plugin_ref:
        origin = builder.configuration.origin("flowControl", "saturationDetector", "pluginRef")
        if builder.resolve(detector.plugin_ref, origin, "the saturation detector") is not None:
            builder.faults.warn(origin, "a saturation detector has no effect: this version has no flow control")


def _warn_of_wrong_twin(builder: PlanBuilder) -> None:
    """Warns of a disabled plugin that nothing refers to if another of its type stays enabled: was that one meant?"""
    for index, spec in enumerate(builder.settings.plugins):
        twins = [p.name for p in builder.plugins.values() if p.type_name == spec.type and p.name != spec.key]
        if not spec.enabled and twins and spec.key not in builder.used:
            origin = builder.configuration.origin("plugins", index)
            message = (
                f"{spec.key!r} is disabled but nothing refers to it, and {twins[0]!r} of the same type stays enabled"
            )
            builder.faults.warn(origin, message, f"to disable that one, set 'name: {twins[0]}'")


def _warn_of_unused(builder: PlanBuilder) -> None:
    """Warns of filters, scorers and pickers that no profile lists, unless they serve something else as well."""
    for plugin in builder.plugins.values():
        has_other_use = plugin.type.serves(Producer, OnScheduled, OnFirstToken, OnFinished, OnRefused, Discovery)
        if plugin.type.serves(Filter, Scorer, Picker) and plugin.name not in builder.used and not has_other_use:
            origin = builder.origin_of_plugin(plugin.name)
            builder.faults.warn(origin, f"the plugin {plugin.name!r} is in no profile and never runs")
