"""Plans who produces the facts that others need, and in which order producers run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from app.extension import AnyFactKey, Producer
from app.settings.errors import did_you_mean
from containers.loading import PluginTypeError
from containers.planning.draft import Draft
from containers.planning.plan import PluginPlan


def supply_facts(draft: Draft) -> None:
    """Adds the default producer of each needed fact that nothing configured produces."""
    checked: set[str] = set()
    while missing := [plugin for plugin in draft.plugins.values() if plugin.name not in checked]:
        for plugin in missing:
            checked.add(plugin.name)
            needs = plugin.type.needs(plugin.params)
            for producer in dict.fromkeys(key.producer for key in needs):
                _supply(draft, plugin, producer, [key for key in needs if key.producer == producer])


def order_producers(draft: Draft) -> Sequence[str]:
    """The producers' names, each after those whose facts it needs or wants."""
    makers = _makers(draft)
    producers = {plugin.name: plugin for plugin in draft.serving(Producer)}
    graph: dict[str, list[str]] = {}
    for plugin in producers.values():
        keys = (*plugin.type.needs(plugin.params), *plugin.type.wants(plugin.params))
        before = [makers[key] for key in keys if key in makers]
        graph[plugin.name] = [name for name in before if name in producers]
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        draft.faults.error(draft.origin_of_plugin(error.args[1][0]), f"producers need each other's facts: {cycle}")
        return tuple(producers)


def _supply(draft: Draft, plugin: PluginPlan, producer: str, keys: Sequence[AnyFactKey]) -> None:
    """Sees that `keys`, all of one producer, are produced."""
    makers = _makers(draft)
    draft.used.update(makers[key] for key in keys if key in makers)
    missing = [key for key in keys if key not in makers]
    if not missing:
        return
    origin = draft.origin_of_plugin(plugin.name)
    names, several = " and ".join(repr(key.name) for key in missing), len(missing) > 1
    facts, them = ("facts", "them") if several else ("fact", "it")
    message = f"{plugin.name!r} needs the {facts} {names} of the producer {producer!r}, and nothing produces {them}"
    try:
        default = draft.catalogue.find(producer)
    except PluginTypeError as error:
        if producer in draft.catalogue.names:
            draft.faults.error(origin, message, str(error))
            return
        others = [other.producer for other in makers if other.name == missing[0].name]
        draft.faults.error(origin, message, did_you_mean(producer, others) if others else "")
        return
    if not default.serves(Producer) or producer in draft.plugins:
        draft.faults.error(origin, message, f"is a plugin of the type {producer!r} missing or disabled?")
        return
    added = draft.add(producer, f"{plugin.name} needs {missing[0].name}")
    if added is None or not set(missing) <= set(added.type.produces(added.name, added.params)):
        draft.faults.error(origin, message, "its default producer is disabled" if added is None else "")


def _makers(draft: Draft) -> Mapping[AnyFactKey, str]:
    """Who produces each fact."""
    return {
        key: plugin.name
        for plugin in draft.plugins.values()
        for key in plugin.type.produces(plugin.name, plugin.params)
    }
