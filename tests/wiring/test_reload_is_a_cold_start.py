"""A reload equals a cold start: for every setting, a change either needs a restart or comes out the same both ways.

What is compared: everything that can be reached from the current generation, object by object; the listeners and what
answers there, with or without TLS; health; the effective configuration; metrics labels; logging; what is watched.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from enum import Enum
from functools import cache
from pathlib import Path
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, get_args, get_origin

import grpc.aio
import numpy as np
import pytest
import structlog
import yaml
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from pydantic import BaseModel

from app.clock import SystemClock
from app.domain.candidates import Snapshot
from app.fleet.table import EndpointTable
from app.observability.events import EventLog
from app.observability.faults import FaultReporter
from app.observability.metrics import RequestMetrics
from app.observability.plugin_metrics import PluginMetrics
from app.routing.in_flight import InFlightRequests
from app.runtime import RuntimeDirectory
from app.settings.errors import ConfigurationError
from app.settings.layers import Sources
from app.settings.schema import Settings
from app.transports.admin.server import AdminServer
from app.transports.admission import Admission
from app.transports.ext_proc.lazy import ExtProc
from app.transports.ext_proc.server import ExtProcServer
from app.transports.http.client import PooledHttpClient
from app.transports.http.host_pools import HostPools
from app.transports.http.server import HttpServer
from app.transports.listening import Sockets
from app.transports.tls_contexts import ClientContexts
from containers import options
from containers.application import Application, catalogue, load
from tests.support.reloads import FINDING, TELLING
from tests.support.running import Running, serving

TLS = Path(__file__).parents[1] / "data" / "tls"
CATALOGUE = catalogue()
CERTIFICATE = {"certFile": str(TLS / "server.pem"), "keyFile": str(TLS / "server.key")}

pytestmark = pytest.mark.usefixtures("logging_as_before")


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


BASE: Mapping[str, Any] = {
    "plugins": [
        {"name": "told", "type": TELLING},
        {"name": "own-source", "type": "metrics-data-source", "parameters": {"path": "/other"}},
    ],
    "schedulingProfiles": [
        {"name": "default", "plugins": [{"pluginRef": "expected-ttft-scorer"}, {"pluginRef": "told"}]}
    ],
    "transports": {
        "http": {"bind": "127.0.0.1", "port": 0},
        "extProc": {"enabled": True, "bind": "127.0.0.1", "port": 0, "healthPort": 0},
        "admin": {"bind": "127.0.0.1", "port": 0},
    },
    "pool": {
        "endpoints": [
            {"name": "a", "address": "127.0.0.1", "port": 1},
            {"name": "b", "address": "127.0.0.1", "port": 2},
        ],
        "scrape": {"interval": "2s"},
    },
    "observability": {"logging": {"level": "error"}},
    "reload": {"watch": False},
}


# -- what is observed

PROCESS = (
    AdminServer, Admission, ClientContexts, EndpointTable, EventLog, ExtProc, ExtProcServer, FaultReporter, HostPools, HttpServer,
    InFlightRequests, PluginMetrics, PooledHttpClient, RequestMetrics, RuntimeDirectory, Sockets, SystemClock, Random, Snapshot,
)  # fmt: skip
"""Objects that both generations share, which therefore hold nothing of a configuration."""

PASSING = frozenset({
    "_task", "_watches", "_ending", "_expires", "_version", "_snapshot", "_has_first", "_last", "_log", "_alive", "_tune_at",
    "_listeners", "incarnation", "since", "_waiting", "_count", "_lives", "_names", "_registries", "_identity",
})  # fmt: skip
"""Attributes that change as time goes by."""


def shape(thing: Any, seen: dict[int, int]) -> Any:  # noqa: PLR0911 - a table of kinds
    """All that `thing` holds, as plain values that can be compared."""
    if thing is None or isinstance(thing, bool | int | float | str | bytes | Enum | type | ModuleType | Path):
        return thing
    if isinstance(thing, PROCESS):
        return type(thing).__name__
    if id(thing) in seen:
        return f"<{seen[id(thing)]}>"
    seen[id(thing)] = len(seen)
    if isinstance(thing, BaseModel):
        return (type(thing).__name__, {name: shape(getattr(thing, name), seen) for name in type(thing).model_fields})
    if isinstance(thing, Mapping):
        return {str(shape(key, seen)): shape(value, seen) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [shape(item, seen) for item in thing]
    if isinstance(thing, set | frozenset):
        return sorted(map(repr, thing))
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, ssl.SSLContext):
        return ("TLS", thing.verify_mode, thing.check_hostname, len(thing.get_ca_certs()))
    return _object_shape(thing, seen)


def _object_shape(thing: Any, seen: dict[int, int]) -> Any:
    if isinstance(thing, MethodType):
        return (thing.__func__.__qualname__, shape(thing.__self__, seen))
    if isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        return (thing.__qualname__, [shape(cell, seen) for cell in cells])
    if isinstance(thing, BuiltinFunctionType) or not type(thing).__module__.startswith(("app.", "plugins.", "tests.")):
        return type(thing).__name__
    names = [
        *getattr(thing, "__dict__", ()),
        *(s for cls in type(thing).__mro__ for s in getattr(cls, "__slots__", ())),
    ]
    return (
        type(thing).__qualname__,
        {name: shape(getattr(thing, name, None), seen) for name in names if name not in PASSING},
    )


async def observed(app: Running) -> dict[str, Any]:
    """Everything that a configuration comes to."""
    process, generation = app.process, app.generation
    table = process.table()
    config = structlog.get_config()
    return {
        "effective": generation.effective()(),
        "settings": app.application.checked.settings,
        "providers": sorted(map(str, generation.plugins.providers)),
        "graph": shape(process.generations().current, {}),
        "endpoints": [
            (one.endpoint.name, one.endpoint.authority, one.endpoint.metrics_authority, dict(one.endpoint.labels))
            for one in table.statuses()
        ],
        "watched endpoints": sorted(generation.monitor()._watches),
        "listeners": await listeners(app),
        "pool": process.generations().pool_name(),
        "reload": process.reloader()._watching(),
        "logging": (config["wrapper_class"], type(config["processors"][-1]), logging.getLogger().level),
        "alive": sorted(process.generations().current._alive.started),
    }


async def listeners(app: Running) -> dict[str, Any]:
    """For each server: where it listens, and what answers there."""
    found: dict[str, Any] = {}
    sockets = app.process.sockets()
    for bound in sockets._bound.values():
        serves = bound.serves
        assert serves is not None
        for one in bound.sockets:
            where = one.getsockname()
            found[serves.server, str(serves.address)] = await http_answer(where)
    ext_proc = app.process.ext_proc_server()._server
    for key, port in ext_proc._ports.items() if ext_proc is not None else ():
        assert port.started
        target = f"unix:{key.address.socket}" if key.address.socket else f"{key.address.bind}:{port.number}"
        target = target.replace("0.0.0.0", "127.0.0.1")
        found["health" if key.health_only else "ext_proc", str(key.address)] = await grpc_health(target)
    return found


async def http_answer(where: Any) -> str:
    """The status line that a listener sends to a request, after `TLS` if it speaks that."""
    for context in (None, client_tls()):
        try:
            if isinstance(where, str):
                reader, writer = await asyncio.open_unix_connection(
                    where, ssl=context, server_hostname="localhost" if context else None
                )
            else:
                host = "127.0.0.1" if where[0] == "0.0.0.0" else where[0]
                reader, writer = await asyncio.open_connection(
                    host, where[1], ssl=context, server_hostname="localhost" if context else None
                )
        except (ssl.SSLError, ConnectionError):
            return "TLS that verifies clients"
        with suppress(ConnectionError, ssl.SSLError):
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            line = await reader.readline()
            writer.close()
            if line:
                return f"{'TLS ' if context else ''}{line.decode().strip()}"
    return "nothing"


async def grpc_health(target: str) -> str:
    """Whether gRPC health answers at a port, without TLS; else whether TLS is spoken there."""
    async with grpc.aio.insecure_channel(target) as channel:
        try:
            answer = await HealthStub(channel).Check(HealthCheckRequest(), timeout=2)
        except grpc.aio.AioRpcError:
            pass
        else:
            return f"plain, status {answer.status}"
    context = client_tls()
    context.set_alpn_protocols(["h2"])
    if target.startswith("unix:"):
        _, writer = await asyncio.open_unix_connection(target[5:], ssl=context, server_hostname="x")
    else:
        host, _, port = target.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="x")
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    own = ssl.PEM_cert_to_DER_cert((TLS / "server.pem").read_text()) == certificate
    return f"TLS, {'the configured' if own else 'a self-signed'} certificate"


def client_tls() -> ssl.SSLContext:
    """Trusts anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# -- the leaves of the settings, and another value for each

SPECIAL: Mapping[str, Any] = {
    "apiVersion": None, "kind": None,  # they have one value each
    "featureGates": ["flowControl=false"],
    "plugins": [{"name": "told", "type": TELLING, "parameters": {"note": "x"}}, {"type": "inflight-load-producer"}],
    "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": "told", "weight": 5}]}],
    "dataLayer.discovery": {"discovery": {"pluginRef": "found"}},
    "dataLayer.sources": [{"pluginRef": "own-source"}], "dataLayer.peerDiscovery": {"pluginRef": "told"},
    "dataLayer.crossReplicaSyncInterval": "3s",
    "flowControl": {"defaultRequestTTL": "3s"},
    "requestHandler.parsers": [{"pluginRef": "vertexai-parser"}],
    "transports.http.bind": "127.0.0.2", "transports.extProc.bind": "127.0.0.2", "transports.admin.bind": "127.0.0.2",
    "transports.http.port": free_port, "transports.extProc.port": free_port, "transports.extProc.healthPort": free_port,
    "transports.admin.port": free_port,
    "transports.admin.allowFrom": ["10.0.0.0/8", "127.0.0.1/32"],
    "transports.envoy.binary": "/bin/true",
    "pool.endpoints": [{"name": "b", "address": "127.0.0.1", "port": 2, "labels": {"zone": "x"}}, {"name": "c", "address": "127.0.0.1", "port": 3}],
    "pool.name": "other", "tune.parameters": {"routing.producerDeadline": "[1s, 2s]"}, "simulation.model": "other", "simulation.adapters": ["lora"],
    "pool.tls.caFile": str(TLS / "ca.pem"),
}  # fmt: skip
"""Values that the type of a setting does not suggest."""

TOGETHER: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("transports.http.tls.certFile", "transports.http.tls.keyFile"), CERTIFICATE),
    **dict.fromkeys(("transports.extProc.tls.certFile", "transports.extProc.tls.keyFile"), CERTIFICATE),
    **dict.fromkeys(("pool.tls.certFile", "pool.tls.keyFile"), CERTIFICATE),
    "transports.http.tls.clientCaFile": {**CERTIFICATE, "clientCaFile": str(TLS / "ca.pem")},
    "transports.extProc.tls.clientCaFile": {**CERTIFICATE, "clientCaFile": str(TLS / "ca.pem")},
}
"""Settings that go together with others of their section."""


def leaves(model: type[BaseModel] = Settings, above: str = "") -> list[str]:
    """The paths of all settings, in YAML's spelling."""
    found = []
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += leaves(kind, f"{path}.")
        else:
            found.append(path)
    return found


def another(path: str) -> Mapping[str, Any] | None:
    """The base configuration with another value at `path`; None for a setting that has only one."""
    *sections, key = path.split(".")
    if path in TOGETHER:
        return changed(sections, TOGETHER[path])
    value = SPECIAL[path] if path in SPECIAL else derived(path)
    if value is None:
        return None
    value = value() if callable(value) else value
    if path == "dataLayer.discovery":
        found = {"name": "found", "type": FINDING, "parameters": {"name": "found"}}
        base = {**BASE, "plugins": [*BASE["plugins"], found], "dataLayer": value}
        return {**base, "pool": {key: value for key, value in BASE["pool"].items() if key != "endpoints"}}
    return changed(sections, {key: value})


def changed(sections: Sequence[str], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The base configuration with these values in the section at that path."""
    whole: dict[str, Any] = yaml.safe_load(yaml.safe_dump(dict(BASE)))
    section = whole
    for name in sections:
        section = section.setdefault(name, {})
    section.update(values)
    return whole


@cache
def base_settings() -> Settings:
    """Those of the base configuration."""
    return load(Sources(("builtin:default",), yaml.safe_dump(dict(BASE))), CATALOGUE).settings


def derived(path: str) -> Any:
    """A value that is not the present one, by the setting's type and bounds."""
    settings: Any = base_settings()
    model: type[BaseModel] = Settings
    *sections, key = path.split(".")
    for name in sections:
        field = next(n for n, f in model.model_fields.items() if (f.alias or n) == name)
        settings, model = getattr(settings, field), model.model_fields[field].annotation  # type: ignore[assignment]
    name, field = next((n, f) for n, f in model.model_fields.items() if (f.alias or n) == key)
    now = getattr(settings, name)
    annotation = field.annotation
    if isinstance(now, bool):
        return not now
    if (
        get_origin(annotation) is not None
        and get_args(annotation)
        and all(isinstance(a, str) for a in get_args(annotation))
    ):
        return next(option for option in get_args(annotation) if option != now)
    if isinstance(now, int):
        return max(2 * now, now + 70_000) if now > 1000 else now + 1
    if "s" in str(model.model_construct().model_dump(by_alias=True, mode="json").get(key, "")):
        return f"{now * 1.5 + 1:g}s"
    return now + 1.5 if isinstance(now, float) else "other"


LEAVES = leaves()


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[Running]:
    """The application, run from that file over the defaults, with logging set up as `serve` does."""
    application = Application(load(Sources(("builtin:default", str(path))), CATALOGUE))
    application.verify()
    options.logging_set_up(application.checked.settings)()
    async with serving(application) as app:
        yield app


async def compare(after: Mapping[str, Any], path: Path, before: Mapping[str, Any] = BASE) -> str:
    """Reloads from `before` to `after`. Returns why that needs a restart; else it must equal a cold start."""
    path.write_text(yaml.safe_dump(dict(before)))
    async with started(path) as app:
        path.write_text(yaml.safe_dump(dict(after)))
        result = await app.process.reloader().reload()
        if not result.done:
            (reason,) = result.reasons
            assert reason.startswith("needs restart: "), result
            return str(reason)
        assert result.changed
        async with asyncio.timeout(5):
            while app.process.generations()._retiring:
                await asyncio.sleep(0.005)
        reloaded = await observed(app)
    async with started(path) as app:
        cold = await observed(app)
    assert not differences(reloaded, cold)
    return ""


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = [*one, *(key for key in other if key not in one)]
        return [line for key in keys for line in differences(one.get(key), other.get(key), f"{path}.{key}")]
    both_lists = isinstance(one, list | tuple) and isinstance(other, list | tuple)
    if both_lists and len(one) == len(other):
        return [
            line
            for row, pair in enumerate(zip(one, other, strict=True))
            for line in differences(*pair, f"{path}[{row}]")
        ]
    return [] if one == other else [f"{path}: {one!r} after a reload, {other!r} after a cold start"]


@pytest.mark.parametrize("leaf", LEAVES)
async def test_every_setting_either_needs_a_restart_or_comes_out_as_after_a_cold_start(
    leaf: str, tmp_path: Path
) -> None:
    after = another(leaf)
    if after is None:
        assert leaf in ("apiVersion", "kind")
        return
    path, before = tmp_path / "pointsman.yaml", BASE
    if leaf == "transports.envoy.enabled":
        before = changed(["transports", "extProc"], {"enabled": False})
        after = merged(before, after, leaf)
    reason = await compare(after, path, before)
    assert reason == (f"needs restart: {leaf}" if leaf in ("simulation.servers", "transports.envoy.enabled") else "")


UNIX: Any = object()

MOVES = [
    pytest.param({"bind": "127.0.0.2"}, {}, id="another address"),
    pytest.param({"bind": "unix:SOCKET"}, {}, id="a Unix socket"),
    pytest.param({}, {"bind": "unix:SOCKET"}, id="from a Unix socket"),
    pytest.param({"bind": "unix:SOCKET", "tls": CERTIFICATE}, {"bind": "unix:SOCKET"}, id="TLS at the same Unix socket"),
    pytest.param({"tls": {"enabled": False}}, {}, id="without TLS"),
    pytest.param({"tls": {"enabled": False}, "port": "PORT"}, {"port": "PORT"}, id="without TLS at the same port"),
    pytest.param({"port": "PORT", "limits": {"messageBytes": "1Mi"}}, {"port": "PORT"}, id="other messages at the same port"),
    pytest.param({"enabled": False}, {}, id="switched off"),
    pytest.param({}, {"enabled": False}, id="switched on"),
]  # fmt: skip


@pytest.mark.parametrize(("after", "before"), MOVES)
async def test_a_change_of_the_endpoint_picker_s_listener_is_a_cold_start(
    after: Mapping[str, Any], before: Mapping[str, Any], tmp_path: Path
) -> None:
    port = free_port()

    def whole(values: Mapping[str, Any]) -> Mapping[str, Any]:
        filled = {
            key: f"unix:{tmp_path / 'ext.sock'}" if value == "unix:SOCKET" else port if value == "PORT" else value
            for key, value in values.items()
        }
        return changed(["transports", "extProc"], filled)

    assert not await compare(whole(after), tmp_path / "pointsman.yaml", whole(before))


ADDRESSES = [
    pytest.param({"http": ("0.0.0.0", 1), "admin": ("127.0.0.1", 2)}, {"http": ("127.0.0.1", 1), "admin": ("127.0.0.1", 2)}, id="narrower at one port"),
    pytest.param({"http": ("127.0.0.1", 1), "admin": ("127.0.0.1", 2)}, {"http": ("0.0.0.0", 1), "admin": ("127.0.0.1", 2)}, id="wider at one port"),
    pytest.param({"http": ("127.0.0.1", 1), "admin": ("127.0.0.1", 2)}, {"http": ("127.0.0.1", 2), "admin": ("127.0.0.1", 1)}, id="two that swap"),
    pytest.param({"http": ("127.0.0.1", 1), "extProc": ("127.0.0.1", 2)}, {"http": ("127.0.0.1", 2), "extProc": ("127.0.0.1", 1)}, id="two kinds that swap"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ADDRESSES)
async def test_addresses_may_overlap_and_swap(
    before: Mapping[str, tuple[str, int]], after: Mapping[str, tuple[str, int]], tmp_path: Path
) -> None:
    ports = {1: free_port(), 2: free_port()}

    def whole(addresses: Mapping[str, tuple[str, int]]) -> Mapping[str, Any]:
        sections = {name: {"bind": bind, "port": ports[number]} for name, (bind, number) in addresses.items()}
        transports = {name: {**BASE["transports"][name], **sections.get(name, {})} for name in BASE["transports"]}
        return {**BASE, "transports": transports}

    assert not await compare(whole(after), tmp_path / "pointsman.yaml", whole(before))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_any_changes_at_once_come_out_as_after_a_cold_start(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    usable = [leaf for leaf in LEAVES if another(leaf) is not None and leaf not in TOGETHER]
    never = ("simulation.servers", "transports.envoy.enabled", "dataLayer.discovery")
    chosen = random.sample([leaf for leaf in usable if leaf not in never], 12)
    after: Mapping[str, Any] = BASE
    for leaf in chosen:
        candidate = merged(after, another(leaf) or {}, leaf)
        with suppress(ConfigurationError):  # values that don't go together
            load(Sources(("builtin:default",), yaml.safe_dump(candidate)), CATALOGUE)
            after = candidate
    assert not await compare(after, tmp_path / "pointsman.yaml")


def merged(into: Mapping[str, Any], one: Mapping[str, Any], leaf: str) -> Mapping[str, Any]:
    """`into` with the value that `one` has at `leaf`."""
    whole: dict[str, Any] = yaml.safe_load(yaml.safe_dump(dict(into)))
    section, value = whole, one
    *sections, key = leaf.split(".")
    for name in sections:
        section, value = section.setdefault(name, {}), value[name]
    section[key] = value[key]
    return whole
