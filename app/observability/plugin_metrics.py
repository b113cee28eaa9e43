"""The metrics of plugins: each instance has its own registry, and all are on one page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

LABEL = "plugin"

CUMULATIVE = frozenset({"counter", "histogram", "summary"})
"""Types of metrics that only grow, and so continue when a plugin is rebuilt."""

_Key = tuple[str, str, frozenset[tuple[str, str]]]
"""Plugin, sample name and labels."""


class PluginRegistries:
    """The registries of one configuration's plugins. They are on the page from `publish` on."""

    def __init__(self, page: PluginMetrics) -> None:
        self._page = page
        self._registries: dict[str, CollectorRegistry] = {}

    def registry_of(self, name: str) -> CollectorRegistry:
        """The registry for the plugin instance `name`."""
        return self._registries.setdefault(name, CollectorRegistry())

    def publish(self, unchanged: Collection[str]) -> None:
        """Shows these registries in place of the previous configuration's. Counters of plugins `unchanged` continue."""
        self._page.replace(self, unchanged)

    def end(self) -> None:
        """The plugins count no more."""
        self._page.end(self)

    def collect(self) -> Iterator[tuple[str, Metric]]:
        """Each plugin's metrics, with its name."""
        for name, registry in self._registries.items():
            for family in registry.collect():
                yield name, family


class PluginMetrics(Collector):
    """Collects from every plugin's registry; the label `plugin` distinguishes instances."""

    def __init__(self) -> None:
        self._current: PluginRegistries | None = None
        self._ending: dict[PluginRegistries, frozenset[str]] = {}
        """Previous ones whose requests still run, with the plugins whose counters continue."""
        self._carried: dict[_Key, float] = {}
        """What those that ended had counted."""

    def replace(self, following: PluginRegistries, unchanged: Collection[str]) -> None:
        """Makes `following` the current registries."""
        kept = frozenset(unchanged)
        self._carried = {key: value for key, value in self._carried.items() if key[0] in kept}
        self._ending = {registries: names & kept for registries, names in self._ending.items()}
        if self._current is not None:
            self._ending[self._current] = kept
        self._current = following

    def end(self, registries: PluginRegistries) -> None:
        """Keeps the counts of `registries`, as far as they continue."""
        names = self._ending.pop(registries, frozenset())
        for key, value in _counted(registries, names):
            self._carried[key] = self._carried.get(key, 0.0) + value

    def collect(self) -> Iterator[Metric]:
        """Each metric once, with the samples of all plugins that have it."""
        before = dict(self._carried)
        for registries, names in self._ending.items():
            for key, value in _counted(registries, names):
                before[key] = before.get(key, 0.0) + value
        merged: dict[str, Metric] = {}
        for name, family in self._current.collect() if self._current is not None else ():
            into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            into.samples += list(_labelled(name, family, before))
        yield from merged.values()


def _labelled(plugin: str, family: Metric, before: Mapping[_Key, float]) -> Iterator[Sample]:
    """The family's samples, with what was counted before. Series that have not been counted anew are there as well."""
    shown = set()
    for sample in family.samples:
        key = _key(plugin, sample)
        shown.add(key)
        value = sample.value + before.get(key, 0.0) if _is_cumulative(family, sample) else sample.value
        yield sample._replace(labels={**sample.labels, LABEL: plugin}, value=value)
    names = {f"{family.name}{suffix}" for suffix in ("_total", "_bucket", "_count", "_sum")}
    for key, value in before.items():
        name, sample_name, labels = key
        if name == plugin and sample_name in names and key not in shown:
            yield Sample(sample_name, {**dict(labels), LABEL: plugin}, value)


def _counted(registries: PluginRegistries, names: Iterable[str]) -> Iterator[tuple[_Key, float]]:
    for name, family in registries.collect():
        if name in names:
            for sample in family.samples:
                if _is_cumulative(family, sample):
                    yield _key(name, sample), sample.value


def _is_cumulative(family: Metric, sample: Sample) -> bool:
    return family.type in CUMULATIVE and not sample.name.endswith("_created")


def _key(plugin: str, sample: Sample) -> _Key:
    return plugin, sample.name, frozenset(sample.labels.items())
