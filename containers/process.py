"""ProcessContainer: what lives as long as the process, whichever configuration is current."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from dependency_injector import containers, providers
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from app.clock import SystemClock
from app.domain.endpoint import Endpoint
from app.fleet.table import EndpointTable
from app.generation import Generations
from app.lifecycle import Component, ProcessRunner, ProcessState
from app.observability.access_log import AccessLog
from app.observability.events import EventLog
from app.observability.faults import FaultReporter
from app.observability.metrics import PoolMetrics, RequestMetrics, register_build_info
from app.observability.plugin_metrics import PluginMetrics
from app.observability.reloads import ReloadLog
from app.reload import Reloader
from app.routing.in_flight import InFlightRequests
from app.runtime import RuntimeDirectory
from app.simulation.server import SimulatedServer
from app.transports.admin.server import AdminServer, ProcessPages
from app.transports.envoy.config import EnvoyConfig, Files
from app.transports.envoy.process import EnvoyProcess
from app.transports.ext_proc.lazy import ExtProc
from app.transports.http.client import PooledHttpClient
from app.transports.http.host_pools import HostPools
from app.transports.http.server import HttpServer
from app.transports.listening import OwnPorts, Sockets
from app.transports.tls_contexts import ClientContexts
from containers import options
from containers.listening import ADMIN, HTTP
from containers.overriding import Given, Single
from pointsman import __version__


def simulated_fleet(servers: Sequence[Any]) -> Sequence[SimulatedServer]:
    """The embedded fleet, not yet started."""
    return [SimulatedServer(one) for one in servers]


def endpoints_of(fleet: Sequence[SimulatedServer]) -> Callable[[], Sequence[Endpoint]]:
    """The embedded fleet's endpoints, once it has started."""
    return lambda: [Endpoint(server.options.name, server.options.host, server.port) for server in fleet]


def metrics_page(registry: CollectorRegistry, *collectors: Collector) -> Callable[[], bytes]:
    """The Prometheus page, with these collectors besides what is registered already."""
    for collector in collectors:
        registry.register(collector)
    register_build_info(registry, __version__)
    return partial(generate_latest, registry)


def readiness(state: ProcessState, table: EndpointTable) -> Callable[[], Mapping[str, bool]]:
    """What must hold for requests to be sent here, and whether it does."""
    return lambda: {
        "started": state.started,
        "discovered": table.discovered,
        "not draining": not state.draining,
    }


def is_ready(conditions: Callable[[], Mapping[str, bool]]) -> Callable[[], bool]:
    """Whether all conditions hold."""
    return lambda: all(conditions().values())


def reload_page(reloader: Reloader[Any]) -> Callable[[], Awaitable[tuple[str, bool]]]:
    """Reloads, and returns what there is to say."""

    async def page() -> tuple[str, bool]:
        result = await reloader.reload()
        return f"{result}\n", result.done

    return page


def envoy_process(
    config: EnvoyConfig | None, files: tuple[str, str, str], table: EndpointTable, runtime: RuntimeDirectory
) -> EnvoyProcess | None:
    """An Envoy of our own, kept up to date with the endpoints; None if it is not enabled."""
    if config is None:
        return None
    binary, certificate, key = files
    return EnvoyProcess(
        binary=binary,
        config=replace(config, ext_proc=options.envoy_socket(runtime)),
        files=lambda: Files(runtime.path),
        endpoints=lambda: [status.endpoint for status in table.statuses()],
        subscribe=table.subscribe,
        certificate=lambda: (Path(certificate).read_bytes(), Path(key).read_bytes()),
    )


def renew_certificate(envoy: EnvoyProcess | None) -> Callable[[], None]:
    """Gives an Envoy of our own the certificate as it is now."""
    return lambda: envoy.renew_certificate() if envoy is not None else None


def components(  # noqa: PLR0913 - the parts of a process, by name
    *,
    runtime: RuntimeDirectory,
    admin: AdminServer,
    sockets: Sockets,
    generations: Generations,
    simulation: Sequence[SimulatedServer],
    http_client: PooledHttpClient,
    host_pools: HostPools,
    reloader: Reloader[Any],
    ext_proc: ExtProc,
    envoy: EnvoyProcess | None,
    http: HttpServer,
) -> Sequence[Component]:
    """What is started, in order."""

    def timeout() -> float:
        return generations.shutdown().timeout

    async def start_admin() -> None:
        await admin.start()
        await generations.serve_admin()

    async def stop_admin() -> None:
        sockets.close(ADMIN)
        await admin.stop()

    async def drain_http() -> None:
        http.admission.draining = True
        sockets.close(HTTP)
        await http.drain(timeout())

    return [
        Component("runtime directory", stop=runtime.remove),
        Component("admin", start_admin, stop_admin),
        *(Component(server.options.name, server.start, server.stop) for server in simulation),
        Component("http client", stop=http_client.close),
        Component("connections to endpoints", stop=host_pools.close),
        Component("configuration", generations.start, generations.stop),
        Component("reload", reloader.start, reloader.stop),
        Component("http", stop=drain_http),
        Component("ext_proc", stop=lambda: ext_proc.stop(timeout())),
        Component("listening", generations.serve),
        *([] if envoy is None else [Component("envoy", envoy.start, lambda: envoy.stop(timeout()))]),
    ]


class ProcessContainer(containers.DeclarativeContainer):
    """The process. What it reads of the settings, by `read`, can't change while it runs."""

    settings_reader = Given(None)
    load, apply, watching = Given(None), Given(None), Given(None)
    """What a reload does."""

    read = settings_reader.provided.read

    # services that plugins may ask for, and what is known of the endpoints
    clock = Single(SystemClock)
    random = Single(Random)
    http_client = Single(PooledHttpClient)
    table = Single(EndpointTable)

    # observing
    registry = Single(CollectorRegistry)
    events = Single(EventLog)
    request_metrics = Single(RequestMetrics, registry)
    access_log = Single(AccessLog)
    plugin_metrics = Single(PluginMetrics)
    reload_log = Single(ReloadLog, registry)
    fault_reporter = Single(FaultReporter, clock=clock, count=request_metrics.provided.count_fault)
    in_flight = Single(InFlightRequests, fault_reporter)

    # what serves, by the current generation
    generations = Single(Generations)
    state = Single(ProcessState)
    readiness = Single(readiness, state, table)
    host_pools = Single(HostPools)
    client_contexts = Single(ClientContexts)
    runtime_directory = Single(RuntimeDirectory)
    own_ports = Single(OwnPorts)
    sockets = Single(Sockets, own_ports)
    http_server = Single(HttpServer, generations.provided.http)
    ext_proc_server = Single(
        ExtProc,
        service=generations.provided.ext_proc,
        ready=Single(is_ready, readiness),
        own_ports=own_ports,
    )
    reloader: Single[Reloader[Any]] = Single(
        Reloader, load=load, apply=apply, watching=watching, on_result=reload_log.provided.record
    )
    pool_metrics = Single(
        PoolMetrics,
        statuses=table.provided.statuses,
        is_fresh=generations.provided.is_fresh,
        in_flight=in_flight,
        name=generations.provided.pool_name,
    )
    admin_server = Single(
        AdminServer,
        Single(
            ProcessPages,
            readiness=readiness,
            metrics=Single(metrics_page, registry, pool_metrics, plugin_metrics),
            reload=Single(reload_page, reloader),
            remarks=reload_log.provided.remarks,
        ),
        generations.provided.admin,
    )

    # other programs, and servers in this one
    simulation = Single(simulated_fleet, read.call(options.simulated_servers))
    simulated_endpoints = Single(endpoints_of, simulation)
    envoy = Single(
        envoy_process,
        config=read.call(options.envoy_config),
        files=read.call(options.envoy_files),
        table=table,
        runtime=runtime_directory,
    )
    after_reload = Single(renew_certificate, envoy)

    runner = Single(
        ProcessRunner,
        providers.Callable(
            components,
            runtime=runtime_directory,
            admin=admin_server,
            sockets=sockets,
            generations=generations,
            simulation=simulation,
            http_client=http_client,
            host_pools=host_pools,
            reloader=reloader,
            ext_proc=ext_proc_server,
            envoy=envoy,
            http=http_server,
        ),
        drain_delay=providers.Callable(lambda of: lambda: of.shutdown().delay, generations),
        on_hangup=reloader.provided.request,
        state=state,
    )
