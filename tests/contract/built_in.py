"""The built-in plugin types of an extension point, built for its contract suite."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

import plugins
from app.catalogue.catalogue import Catalogue, PluginType
from app.endpoints_files import LocalEndpointsFiles
from app.extension import Clock, EndpointsFiles, HttpClient, InFlight, MetricsRegistry, PluginName, Pool
from app.extension import Random as Randomness
from app.routing.in_flight import InFlightRequests
from app.transports.http.client import BufferedResponse, PooledHttpClient
from pointsman.testing import FakeClock, FakePool, example_params, make_candidates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from _pytest.mark import ParameterSet

NO_VALUES: Mapping[str, Any] = MappingProxyType({})


class OneOffClient:
    """An `HttpClient` that keeps no connection open."""

    async def get(self, url: str, *, timeout: float, tls: SSLContext | bool = True) -> BufferedResponse:  # noqa: ASYNC109
        """One request with a client of its own."""
        client = PooledHttpClient()
        try:
            return await client.get(url, timeout=timeout, tls=tls)
        finally:
            await client.close()


def types_of(*points: type) -> list[PluginType]:
    """The built-in types that implement one of the extension points, each once."""
    built_in = Catalogue(plugins).built_in
    types = dict.fromkeys(found.mark.type for found in built_in.values() if found.serves(*points))
    return [built_in[name] for name in types]


def every(*points: type) -> list[ParameterSet]:
    """`types_of`, as the parameters of a test."""
    return [pytest.param(found, id=found.mark.type) for found in types_of(*points)]


def build(kind: PluginType, values: Mapping[str, Any] = NO_VALUES) -> Any:
    """An instance with `values` and the examples of its `Params`, and with services for tests."""
    services: Mapping[Any, Any] = {
        Clock: FakeClock(),
        Randomness: Random(7),
        HttpClient: OneOffClient(),
        MetricsRegistry: CollectorRegistry(),
        InFlight: InFlightRequests(),
        Pool: FakePool(make_candidates("a")),
        EndpointsFiles: LocalEndpointsFiles(),
        PluginName: kind.mark.type,
    }
    arguments = {name: services[service] for name, service in kind.services.items()}
    if kind.params_argument is not None:
        arguments[kind.params_argument] = example_params(kind.params, **values)
    return kind.cls(**arguments)


def modules_in(folder: str) -> set[str]:
    """The modules in a folder of plugins, one plugin in each."""
    package = import_module(f"plugins.{folder}")
    return {
        f"plugins.{folder}.{path.stem}"
        for directory in package.__path__
        for path in Path(directory).glob("*.py")
        if path.stem != "__init__"
    }
