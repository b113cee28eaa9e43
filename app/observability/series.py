"""Counters and histograms that are cheap to update: plain numbers, which are read when the metrics are scraped.

They need no lock, since only the event loop updates them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


class Count:
    """The value of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Distribution:
    """The counts per bucket and the sum of a histogram."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the upper bounds of the buckets, ascending, without infinity."""
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Adds `value`."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Counts(Collector):
    """A family of counters, one per combination of labels."""

    def __init__(self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[Labels, Count] = {}
        registry.register(self)

    def of(self, *labels: str) -> Count:
        """The counter with these labels. Keep it where it is updated often."""
        return self._counts.get(labels) or self._counts.setdefault(labels, Count())

    def collect(self) -> Iterator[Metric]:
        """Yields the current values."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in tuple(self._counts.items()):
            family.add_metric(labels, count.value)
        yield family


class Distributions(Collector):
    """A family of histograms, one per combination of labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._bounds = tuple(map(float, bounds))
        self._distributions: dict[Labels, Distribution] = {}
        registry.register(self)

    def of(self, *labels: str) -> Distribution:
        """The histogram with these labels. Keep it where it is updated often."""
        return self._distributions.get(labels) or self._distributions.setdefault(labels, Distribution(self._bounds))

    def collect(self) -> Iterator[Metric]:
        """Yields the current values, with cumulative buckets."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        ends = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, distribution in tuple(self._distributions.items()):
            below, buckets = 0, []
            for end, count in zip(ends, distribution.counts, strict=True):
                below += count
                buckets.append((end, below))
            family.add_metric(labels, buckets, distribution.total)
        yield family
