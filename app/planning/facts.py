"""Plans which plugins produce the facts that others need, and in which order producers run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from app.catalogue.loading import PluginTypeError
from app.extension import AnyFactKey, Producer
from app.planning.builder import PlanBuilder
from app.planning.plan import PluginPlan
from app.settings.errors import did_you_mean


def supply_facts(builder: PlanBuilder) -> None:
    """Adds the default producer of each needed fact that no configured plugin produces."""
    checked: set[str] = set()
    while missing := [plugin for plugin in builder.plugins.values() if plugin.name not in checked]:
        for plugin in missing:
            checked.add(plugin.name)
            needs = plugin.type.needs(plugin.params)
            for producer in dict.fromkeys(key.producer for key in needs):
                _supply(builder, plugin, producer, [key for key in needs if key.producer == producer])


def order_producers(builder: PlanBuilder) -> Sequence[str]:
    """The producers' names, each after those whose facts it needs or wants."""
    producer_of = _producers_by_fact(builder)
    producers = {plugin.name: plugin for plugin in builder.serving(Producer)}
    graph: dict[str, list[str]] = {}
    for plugin in producers.values():
        keys = (*plugin.type.needs(plugin.params), *plugin.type.wants(plugin.params))
        earlier = [producer_of[key] for key in keys if key in producer_of]
        graph[plugin.name] = [name for name in earlier if name in producers]
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        message = f"producers need each other's facts in a cycle: {cycle}"
        builder.faults.error(builder.origin_of_plugin(error.args[1][0]), message)
        return tuple(producers)


def _supply(builder: PlanBuilder, plugin: PluginPlan, producer: str, keys: Sequence[AnyFactKey]) -> None:
    """Adds `producer` if nothing produces one of `keys`, which are all facts of it that `plugin` needs."""
    producer_of = _producers_by_fact(builder)
    builder.used.update(producer_of[key] for key in keys if key in producer_of)
    missing = [key for key in keys if key not in producer_of]
    if not missing:
        return
    origin = builder.origin_of_plugin(plugin.name)
    names, several = " and ".join(repr(key.name) for key in missing), len(missing) > 1
    facts, them = ("facts", "them") if several else ("fact", "it")
    message = f"{plugin.name!r} needs the {facts} {names} of the producer {producer!r}, but nothing produces {them}"
    try:
        default = builder.catalogue.find(producer)
    except PluginTypeError as error:
        if producer in builder.catalogue.names:
            builder.faults.error(origin, message, str(error))
            return
        others = [other.producer for other in producer_of if other.name == missing[0].name]
        builder.faults.error(origin, message, did_you_mean(producer, others) if others else "")
        return
    if not default.serves(Producer) or producer in builder.plugins:
        builder.faults.error(origin, message, f"is a plugin of the type {producer!r} missing or disabled?")
        return
    added = builder.add(producer, f"{plugin.name} needs {missing[0].name}")
    if added is None or not set(missing) <= set(added.type.produces(added.name, added.params)):
        builder.faults.error(origin, message, "its default producer is disabled" if added is None else "")


def _producers_by_fact(builder: PlanBuilder) -> Mapping[AnyFactKey, str]:
    """The name of the plugin that produces each fact."""
    return {
        key: plugin.name
        for plugin in builder.plugins.values()
        for key in plugin.type.produces(plugin.name, plugin.params)
    }
