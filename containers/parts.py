"""Puts parts together where a line in the container is not enough."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest

from app.domain.addresses import UNIX
from app.domain.endpoint import ENGINE_LABEL, Endpoint
from app.domain.status import EndpointStatus
from app.extension import Discovery
from app.fleet.monitor import Binding
from app.fleet.pool import EndpointPool
from app.lifecycle import Part
from app.observability.access_log import AccessLog
from app.observability.metrics import PoolMetrics, RequestMetrics, register_build_info
from app.routing.in_flight import InFlightCounts
from app.scheduling.profile import Named
from app.settings.schema import Settings
from app.settings.sections import EndpointSpec, Simulation
from app.simulation.engine import EngineOptions
from app.simulation.server import ServerOptions, SimulatedServer
from app.transports.admin.server import Insight
from app.transports.envoy.config import Files
from app.transports.envoy.process import EnvoyProcess
from containers import options
from containers.generation import GenerationContainer, lifecycles_of
from pointsman import __version__

if TYPE_CHECKING:
    from app.transports.ext_proc.server import ExtProcServer
    from containers.application import ApplicationContainer

FIRST_ROUND = 2.0
"""Seconds that the endpoints have to be looked at before requests are let in."""


def observers(metrics: RequestMetrics, access_log: AccessLog, *, access: bool) -> Sequence[Named[Any]]:
    """The process's own observers, the access log if it is switched on."""
    always: list[Named[Any]] = [Named("request-metrics", metrics)]
    return [*always, Named("access-log", access_log)] if access else always


def simulated_servers(simulation: Simulation) -> Sequence[SimulatedServer]:
    """The embedded fleet, not yet started."""
    engine = EngineOptions(
        max_num_seqs=simulation.max_num_seqs,
        num_gpu_blocks=simulation.num_gpu_blocks,
        prefill_tokens_per_second=simulation.prefill_tokens_per_second,
        decode_tokens_per_second=simulation.decode_tokens_per_second,
    )
    return [
        SimulatedServer(
            ServerOptions(
                name=f"sim-{number}",
                model=simulation.model,
                adapters=simulation.adapters,
                seed=simulation.seed,
                engine=engine,
            )
        )
        for number in range(simulation.servers)
    ]


def static_endpoints(
    specs: Sequence[EndpointSpec], servers: Sequence[SimulatedServer]
) -> Callable[[], Sequence[Endpoint]]:
    """The endpoints of the configuration and of the embedded fleet, whose ports are known once it has started."""
    fixed = [_endpoint(spec) for spec in specs if spec.enabled]
    return lambda: [
        *fixed,
        *(Endpoint(server.options.name, server.options.host, server.port) for server in servers),
    ]


def discovery_of(generation: GenerationContainer) -> Discovery | None:
    """The discovery plugin, if one is configured."""
    found: Discovery | None = generation.discovery()
    return found


def bindings_of(generation: GenerationContainer) -> Sequence[Binding]:
    """The metrics sources with their extractors."""
    bindings: Sequence[Binding] = generation.bindings()
    return bindings


def insight(app: ApplicationContainer) -> Insight:
    """What the admin port shows."""
    pool, in_flight, registry = app.pool(), app.in_flight(), app.metrics_registry()
    pool_metrics = PoolMetrics(
        statuses=pool.statuses, is_fresh=pool.is_fresh, in_flight=in_flight, name=app.settings().pool.name
    )
    registry.register(pool_metrics)
    registry.register(app.plugin_metrics())
    register_build_info(registry, __version__)
    return Insight(
        readiness=lambda: readiness(app),
        metrics=lambda: generate_latest(registry),
        endpoints=lambda: [_shown(status, pool, in_flight, app.clock().now()) for status in pool.statuses()],
        configuration=app.effective,
        reload=lambda: _reloaded(app),
        remarks=app.reload_log().remarks,
    )


def readiness(app: ApplicationContainer) -> Mapping[str, bool]:
    """What must hold for requests to be sent here, and whether it does."""
    lifecycle = app.lifecycle()
    return {
        "started": lifecycle.started,
        "discovered": app.pool().discovered,
        "not draining": not lifecycle.draining,
    }


def is_ready(app: ApplicationContainer) -> bool:
    """Whether requests can be sent here."""
    return all(readiness(app).values())


def ext_proc_server(app: ApplicationContainer) -> ExtProcServer:
    """The server of the Endpoint Picker Protocol."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # we fork for other programs only, and it would complain
    server: ExtProcServer = import_module("containers.ext_proc").server_of(app)
    return server


def envoy_process(app: ApplicationContainer) -> EnvoyProcess:
    """The Envoy of our own, told of the endpoints as they change."""
    pool = app.pool()
    return EnvoyProcess(
        binary=app.settings().transports.envoy.binary,
        behaviour=options.envoy_behaviour(app.settings(), app.ext_proc_listen()),
        files=lambda: Files(app.runtime_directory().path),
        endpoints=lambda: [status.endpoint for status in pool.statuses()],
        follow=pool.subscribe,
        certificate=lambda: _certificate(app.settings()),
    )


def _certificate(settings: Settings) -> tuple[bytes, bytes]:
    tls = settings.transports.http.tls
    return Path(tls.cert_file).read_bytes(), Path(tls.key_file).read_bytes()


def lifecycle_parts(app: ApplicationContainer) -> Sequence[Part]:
    """All parts in the order they start."""
    settings = app.settings()
    transports = settings.transports
    parts = [Part("runtime directory", stop=app.runtime_directory().remove)]
    parts += [_admin(app)] if transports.admin.enabled else []
    parts += [Part(server.options.name, server.start, server.stop) for server in app.simulation()]
    parts.append(Part("http client", stop=app.http_client().close))  # before the plugins: it outlives them
    parts.append(Part("plugins", app.plugins_alive().start, app.plugins_alive().stop))
    parts += [
        Part("discovery", app.discovery().start, app.discovery().stop),
        Part("monitor", app.monitor().start, app.monitor().stop),
        Part("first look", lambda: app.monitor().initial_scrape(FIRST_ROUND)),
        Part("upstream", stop=app.upstream().close),
        Part("reload", lambda: app.reloader().start(watch=settings.reload.watch), app.reloader().stop),
    ]

    def patience() -> float:
        return float(app.settings().shutdown.timeout)

    if transports.ext_proc.enabled or transports.envoy.enabled:
        ext_proc = app.ext_proc_server()
        parts.append(Part("ext_proc", ext_proc.start, lambda: ext_proc.stop(patience())))
    if transports.envoy.enabled:
        envoy = app.envoy()
        parts.append(Part("envoy", envoy.start, lambda: envoy.stop(patience())))
    elif transports.http.enabled:
        server = app.http_server()
        parts.append(Part("http", server.start, lambda: server.stop(patience())))
    return parts


def plugin_parts(generation: GenerationContainer) -> Sequence[Part]:
    """The plugins that want to be started and stopped."""
    return [Part(name, plugin.start, plugin.stop) for name, plugin in lifecycles_of(generation)]


async def _reloaded(app: ApplicationContainer) -> tuple[str, bool]:
    outcome = await app.reloader().reload()
    return f"{outcome}\n", outcome.done


def _admin(app: ApplicationContainer) -> Part:
    server = app.admin_server()
    return Part("admin", server.start, server.stop)


def _endpoint(spec: EndpointSpec) -> Endpoint:
    labels = spec.labels if spec.engine == "auto" else {ENGINE_LABEL: spec.engine, **spec.labels}
    port = 0 if spec.address.startswith(UNIX) else spec.port
    return Endpoint(spec.name, spec.address, port, labels, spec.metrics_port, spec.scheme == "https")


def _shown(status: EndpointStatus, pool: EndpointPool, in_flight: InFlightCounts, now: float) -> Mapping[str, Any]:
    endpoint, metrics = status.endpoint, status.metrics
    fresh = pool.is_fresh(status)
    return {
        "name": endpoint.name,
        "address": endpoint.authority,
        "labels": dict(endpoint.labels),
        "state": "up" if status.up else "down",
        "since_seconds": round(now - status.since, 3),
        "reason": status.reason,
        "metrics": "fresh" if fresh else "unknown",
        "metrics_age_seconds": round(now - status.read_at, 3) if metrics and status.read_at > float("-inf") else None,
        "engine": metrics.engine if metrics else None,
        "waiting": metrics.waiting if metrics else None,
        "running": metrics.running if metrics else None,
        "kv_cache_usage": metrics.kv_cache_usage if metrics else None,
        "in_flight": in_flight.count(endpoint.name),
        "models": sorted(status.models) if status.models is not None else None,
    }
