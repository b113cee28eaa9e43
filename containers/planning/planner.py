"""Checks a configuration against the plugins, and plans its generation."""

from __future__ import annotations

from app.extension import Discovery, Filter, OnFinished, OnFirstByte, OnRefused, OnScheduled, Picker, Producer, Scorer
from app.settings.configuration import Configuration
from app.settings.errors import did_you_mean
from app.settings.tree import exists
from containers.catalogue import Catalogue
from containers.planning.consistency import check_consistency
from containers.planning.draft import Draft
from containers.planning.facts import order_producers, supply_facts
from containers.planning.fleet import check_engines, plan_discovery, plan_sources
from containers.planning.parsers import plan_parsers
from containers.planning.plan import Plan
from containers.planning.profiles import plan_profile_picker, plan_profiles

FEATURE_GATES = ("flowControl", "haPopulateNonLeaderDatastore")
_TRUE, _FALSE = ("1", "t", "true"), ("0", "f", "false")


def plan(configuration: Configuration, catalogue: Catalogue) -> Plan:
    """The plan of `configuration`. Raises `ConfigurationError` with every error that it has."""
    draft = Draft(configuration, catalogue)
    draft.add_configured()
    profiles = plan_profiles(draft)
    profile_picker = plan_profile_picker(draft, profiles)
    sources = plan_sources(draft)
    parsers = plan_parsers(draft)
    discovery = plan_discovery(draft)
    supply_facts(draft)
    producers = order_producers(draft)
    check_engines(draft)
    check_consistency(draft)
    _check_references(draft)
    _check_feature_gates(draft)
    _check_what_is_not_here(draft)
    _warn_of_unused(draft)
    _warn_of_useless_switches(draft)
    configuration.require_no_errors()
    return Plan(draft.plugins, profiles, profile_picker, producers, sources, parsers, discovery, draft.notes)


def _check_references(draft: Draft) -> None:
    for plugin in draft.plugins.values():
        for reference in plugin.references:
            origin = draft.origin_of_reference(plugin.name, reference.name)
            draft.resolve(reference.name, origin, "the parameter", reference.point)
    _check_no_cycle(draft)


def _check_no_cycle(draft: Draft) -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            cycle = (*path[path.index(name) :], name)
            draft.faults.error(
                draft.origin_of_plugin(min(cycle)), f"plugins refer to each other in a circle: {' -> '.join(cycle)}"
            )
            return
        if name in done or name not in draft.plugins:
            return
        for reference in draft.plugins[name].references:
            visit(reference.name, (*path, name))
        done.add(name)

    for name in draft.plugins:
        visit(name, ())


def _check_feature_gates(draft: Draft) -> None:
    last = {text.partition("=")[0]: index for index, text in enumerate(draft.settings.feature_gates)}
    for index, text in enumerate(draft.settings.feature_gates):
        origin = draft.configuration.origin("featureGates", index)
        gate, equals, rest = text.partition("=")
        value = rest.strip().lower()
        if gate not in FEATURE_GATES:
            draft.faults.error(origin, f"unknown feature gate {gate!r}", did_you_mean(gate, FEATURE_GATES))
        elif equals and value not in (*_TRUE, *_FALSE):
            draft.faults.error(origin, f"expected {gate}=true or {gate}=false, found {rest!r}")
        elif last[gate] != index:
            continue  # of several mentions the last one holds
        elif gate == "flowControl" and value not in _FALSE:
            draft.faults.error(origin, "this version has no flow control", "set flowControl=false")
        else:
            draft.faults.warn(origin, f"the feature gate {gate} does nothing here")


def _check_what_is_not_here(draft: Draft) -> None:
    settings = draft.settings
    for key in ("peerDiscovery", "crossReplicaSyncerPluginRef", "crossReplicaSyncInterval"):
        if exists(draft.configuration.tree, ("dataLayer", key)):
            origin = draft.configuration.origin("dataLayer", key)
            draft.faults.warn(origin, f"{key} does nothing: replicas do not share state in this version")
    if settings.flow_control is not None:
        origin = draft.configuration.origin("flowControl")
        draft.faults.warn(origin, "flowControl does nothing: this version has no flow control")
    detector = settings.flow_control and settings.flow_control.saturation_detector
    if detector and detector.plugin_ref:
        origin = draft.configuration.origin("flowControl", "saturationDetector", "pluginRef")
        if draft.resolve(detector.plugin_ref, origin, "the saturation detector") is not None:
            draft.faults.warn(origin, "a saturation detector does nothing: this version has no flow control")


def _warn_of_useless_switches(draft: Draft) -> None:
    """A disabled plugin that nothing names, beside an enabled one of its type: was that one meant?"""
    for index, spec in enumerate(draft.settings.plugins):
        twins = [p.name for p in draft.plugins.values() if p.type_name == spec.type and p.name != spec.key]
        if not spec.enabled and twins and spec.key not in draft.used:
            origin = draft.configuration.origin("plugins", index)
            message = f"{spec.key!r} is disabled and nothing names it, while {twins[0]!r} of the same type stays on"
            draft.faults.warn(origin, message, f"to switch that one off, write name: {twins[0]}")


def _warn_of_unused(draft: Draft) -> None:
    """A filter, scorer or picker that no profile lists never runs; others act without being listed."""
    for plugin in draft.plugins.values():
        acts = plugin.type.serves(Producer, OnScheduled, OnFirstByte, OnFinished, OnRefused, Discovery)
        if plugin.type.serves(Filter, Scorer, Picker) and plugin.name not in draft.used and not acts:
            origin = draft.origin_of_plugin(plugin.name)
            draft.faults.warn(origin, f"the plugin {plugin.name!r} is in no profile and never runs")
