"""Plugins that are there to be referred to, and to refer: what the Go loader's tests have stub types for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pointsman import Candidates, Endpoint, EndpointMetrics, Filter, InferenceRequest, PluginParams, PluginRef


class Plain:
    """Does nothing."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Sequence[bool]:
        return [True] * len(candidates)


class Refers(Plain):
    """Names one plugin, and if wanted another."""

    class Params(PluginParams):
        dependency: PluginRef[Filter]
        pointed_to: PluginRef[Filter] | None = None

    def __init__(self, params: Params) -> None:
        others = [params.dependency, *([params.pointed_to] if params.pointed_to else [])]
        self.filters = [other.filter for other in others]


class RefersDeeper(Plain):
    """Names plugins below mappings and in a list."""

    class Params(PluginParams):
        nested: Refers.Params
        pointed_to: PluginRef[Filter]
        nested_ptr: Refers.Params | None = None
        extras: tuple[PluginRef[Filter], ...] = ()

    def __init__(self, params: Params) -> None:
        nested = [params.nested.dependency, *([params.nested_ptr.dependency] if params.nested_ptr else [])]
        self.filters = [other.filter for other in (*nested, params.pointed_to, *params.extras)]


class Source:
    """A metrics source of another type than the shipped one."""

    interval: float | None = None

    async def fetch(self, endpoint: Endpoint) -> Any:
        return None


class Reader:
    """Reads what `Source` gives."""

    def extract(self, endpoint: Endpoint, payload: Any) -> EndpointMetrics:
        return EndpointMetrics()
