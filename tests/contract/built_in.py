"""Every built-in plugin type of a kind, and how a contract suite builds one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from app.catalogue.catalogue import Catalogue, PluginType
from app.extension import Clock, HttpClient, InFlight, MetricsRegistry, PluginName, Pool
from app.extension import Random as Randomness
from app.routing.in_flight import InFlightCounts
from app.transports.http.client import BufferedResponse, PooledHttpClient
from pointsman.testing import FakeClock, FakePool, make_candidates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ssl import SSLContext

    from _pytest.mark import ParameterSet

DEFAULTS: Mapping[str, Any] = MappingProxyType({})

REQUIRED: Mapping[str, Mapping[str, Any]] = {"by-label": {"label": "llm-d.ai/role", "validValues": ["decode"]}}
"""By type the parameters that it can't do without."""


class OneOffClient:
    """An `HttpClient` that leaves no connection open behind it."""

    async def get(self, url: str, *, timeout: float, tls: SSLContext | bool = True) -> BufferedResponse:  # noqa: ASYNC109
        """One request over a session of its own."""
        client = PooledHttpClient()
        try:
            return await client.get(url, timeout=timeout, tls=tls)
        finally:
            await client.close()


def types_of(*points: type) -> list[PluginType]:
    """The built-in types that serve one of the extension points, each once."""
    types = dict.fromkeys(found.mark.type for found in Catalogue().built_in.values() if found.serves(*points))
    return [Catalogue().built_in[name] for name in types]


def every(*points: type) -> list[ParameterSet]:
    """The same, as parameters of a test."""
    return [pytest.param(found, id=found.mark.type) for found in types_of(*points)]


def build(kind: PluginType, params: Mapping[str, Any] = DEFAULTS) -> Any:
    """An instance with `params` over what it needs and its defaults, and with services for tests."""
    services: Mapping[Any, Any] = {
        Clock: FakeClock(),
        Randomness: Random(7),
        HttpClient: OneOffClient(),
        MetricsRegistry: CollectorRegistry(),
        InFlight: InFlightCounts(),
        Pool: FakePool(make_candidates("a")),
        PluginName: kind.mark.type,
    }
    arguments = {name: services[service] for name, service in kind.services.items()}
    if kind.params_argument is not None:
        arguments[kind.params_argument] = kind.params.model_validate_json(
            orjson.dumps({**REQUIRED.get(kind.mark.type, {}), **params})
        )
    return kind.cls(**arguments)


def modules_in(folder: str) -> set[str]:
    """Names of the modules in a folder of plugins, each of which holds one plugin."""
    package = import_module(f"plugins.{folder}")
    return {
        f"plugins.{folder}.{path.stem}"
        for directory in package.__path__
        for path in Path(directory).glob("*.py")
        if path.stem != "__init__"
    }
