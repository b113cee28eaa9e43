"""ProcessContainer: what lives as long as the process, whichever configuration is current."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from dependency_injector import containers, providers
from prometheus_client import CollectorRegistry

from app.clock import SystemClock
from app.endpoints_files import LocalEndpointsFiles
from app.fleet.table import EndpointTable
from app.generation import Generations
from app.lifecycle import ProcessRunner, ProcessState
from app.observability.events import EventLog
from app.observability.faults import FaultReporter
from app.observability.metrics import MetricsPage, PoolMetrics, RequestMetrics
from app.observability.plugin_metrics import PluginMetrics
from app.observability.reloads import ReloadLog
from app.reload import Reloader
from app.routing.in_flight import InFlightRequests
from app.runtime import RuntimeDirectory
from app.simulation.fleet import SimulatedFleet
from app.startup import components
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
from containers.overriding import Given, Single
from pointsman import __version__


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
    endpoints_files = Single(LocalEndpointsFiles)
    table = Single(EndpointTable)

    # observing
    registry = Single(CollectorRegistry)
    events = Single(EventLog)
    request_metrics = Single(RequestMetrics, registry)
    plugin_metrics = Single(PluginMetrics)
    reload_log = Single(ReloadLog, registry)
    fault_reporter = Single(FaultReporter, clock=clock, count=request_metrics.provided.count_fault)
    in_flight = Single(InFlightRequests, fault_reporter)

    # what serves, by the current generation
    generations = Single(Generations)
    state = Single(ProcessState, table.provided.has_been_written)
    host_pools = Single(HostPools)
    client_contexts = Single(ClientContexts)
    runtime_directory = Single(RuntimeDirectory)
    own_ports = Single(OwnPorts)
    sockets = Single(Sockets, own_ports)
    http_server = Single(HttpServer, generations.provided.http)
    ext_proc_server = Single(
        ExtProc, service=generations.provided.ext_proc, ready=state.provided.ready, own_ports=own_ports
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
    process_pages = Single(
        ProcessPages,
        readiness=state.provided.conditions,
        metrics=Single(MetricsPage, registry, __version__, pool_metrics, plugin_metrics),
        reload=reloader.provided.report,
        remarks=reload_log.provided.remarks,
    )
    admin_server = Single(AdminServer, process_pages, generations.provided.admin)

    # other programs, and servers in this one
    simulation = Single(SimulatedFleet, read.call(options.simulated_servers))
    simulated_endpoints = simulation.provided.endpoints
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
            runtime_directory=runtime_directory,
            simulation=simulation,
            http_client=http_client,
            host_pools=host_pools,
            sockets=sockets,
            generations=generations,
            reloader=reloader,
            admin=admin_server,
            http=http_server,
            ext_proc=ext_proc_server,
            envoy=envoy,
        ),
        drain_delay=generations.provided.drain_delay,
        on_hangup=reloader.provided.request,
        state=state,
    )
