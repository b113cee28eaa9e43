"""The metrics of plugins: each instance has a registry of its own, and all come out on one page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

LABEL = "plugin"


class PluginMetrics(Collector):
    """Collects from every plugin's registry; the label `plugin` tells instances of one type apart."""

    def __init__(self) -> None:
        self._registries: dict[str, CollectorRegistry] = {}

    def registry_of(self, name: str) -> CollectorRegistry:
        """A new registry for the plugin instance `name`; one that had the name before is no longer collected."""
        self._registries[name] = CollectorRegistry()
        return self._registries[name]

    def change(self, kept: Collection[str], new: Mapping[str, CollectorRegistry]) -> None:
        """From now on the registries of the plugins `kept` are collected, and `new` ones."""
        self._registries = {name: one for name, one in self._registries.items() if name in kept} | dict(new)

    def collect(self) -> Iterator[Metric]:
        """Each metric once, with the samples of all plugins that have it."""
        merged: dict[str, Metric] = {}
        for name, registry in self._registries.items():
            for family in registry.collect():
                into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                into.samples += [sample._replace(labels={**sample.labels, LABEL: name}) for sample in family.samples]
        yield from merged.values()
