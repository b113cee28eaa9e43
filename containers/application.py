"""ApplicationContainer: what lives as long as the process."""

from __future__ import annotations

from random import Random as SystemRandom
from typing import Any

from dependency_injector import containers, providers
from prometheus_client import CollectorRegistry

from app.clock import SystemClock
from app.extension import Clock, HttpClient, InFlight, MetricsRegistry, Pool, Random
from app.fleet.discovery import DiscoveryRunner
from app.fleet.models import ModelLists
from app.fleet.monitor import FleetMonitor
from app.fleet.pool import EndpointPool
from app.fleet.probe import connect
from app.lifecycle import Lifecycle, Parts
from app.observability.access_log import AccessLog
from app.observability.events import EventLog
from app.observability.faults import FaultReporter
from app.observability.metrics import RequestMetrics
from app.observability.plugin_metrics import PluginMetrics
from app.observability.reloads import ReloadLog
from app.planning.plan import Plan
from app.reload import Reloader
from app.routing.failures import Failures
from app.routing.in_flight import InFlightCounts
from app.routing.router import Router
from app.runtime import RuntimeDirectory
from app.settings.schema import Settings
from app.transports.admin.server import AdminServer
from app.transports.admission import Admission
from app.transports.http.client import PooledHttpClient
from app.transports.http.handler import Handler
from app.transports.http.models import MergedModels
from app.transports.http.server import HttpServer
from app.transports.http.upstream import Upstream
from containers import options, parts, reloading
from containers.generation import build_generation, pipeline_of


class ApplicationContainer(containers.DeclarativeContainer):
    """The process. Override a provider on an instance before its first call; build a new instance per test."""

    itself: providers.Self[Any] = providers.Self()
    settings = providers.Dependency(instance_of=Settings)
    plan = providers.Dependency(instance_of=Plan)
    effective = providers.Object("")
    """The effective configuration as text."""
    configuration_files = providers.Object(())
    """Paths of the files it was loaded from."""
    next_configuration = providers.Object(reloading.no_next_configuration)
    """A function that loads and plans the configuration anew."""

    # services that plugins may ask for
    clock = providers.Singleton(SystemClock)
    random = providers.Singleton(SystemRandom)
    metrics_registry = providers.Singleton(CollectorRegistry)
    plugin_metrics = providers.Singleton(PluginMetrics)
    http_client = providers.Singleton(PooledHttpClient)
    in_flight = providers.Singleton(InFlightCounts)
    pool = providers.Singleton(
        EndpointPool,
        clock=clock,
        in_flight=in_flight.provided.count,
        stale_after=settings.provided.pool.scrape.stale_after,
    )
    services = providers.Dict(
        {
            Clock: clock,
            Random: random,
            MetricsRegistry: plugin_metrics.provided.registry_of,
            HttpClient: http_client,
            InFlight: in_flight,
            Pool: pool,
        }
    )

    # observing
    events = providers.Singleton(EventLog)
    request_metrics = providers.Singleton(RequestMetrics, metrics_registry)
    access_log = providers.Singleton(AccessLog)
    fault_reporter = providers.Singleton(FaultReporter, clock=clock, count=request_metrics.provided.count_fault)
    observers = providers.Callable(
        parts.observers, request_metrics, access_log, access=settings.provided.observability.logging.access
    )

    # one configuration's graph
    generation = providers.Singleton(build_generation, plan, services, observers)

    # the fleet
    simulation = providers.Singleton(parts.simulated_servers, settings.provided.simulation)
    discovery = providers.Singleton(
        DiscoveryRunner,
        pool=pool,
        static_endpoints=providers.Callable(parts.static_endpoints, settings.provided.pool.endpoints, simulation),
        discovery=providers.Callable(parts.discovery_of, generation),
        on_failure=events.provided.discovery_failed,
    )
    client_tls = providers.Singleton(options.client_tls, settings)
    model_lists = providers.Singleton(ModelLists, http_client, client_tls)
    monitor = providers.Singleton(
        FleetMonitor,
        pool=pool,
        bindings=providers.Callable(parts.bindings_of, generation),
        list_models=model_lists.provided.names,
        probe=providers.Object(connect),
        clock=clock,
        random=random,
        options=providers.Callable(options.monitor_options, settings),
        on_change=events.provided.endpoint_changed,
    )

    # what runs it
    failures = providers.Singleton(
        Failures,
        mark_down=pool.provided.mark_down,
        suspect=monitor.provided.suspect,
        tell=events.provided.attempt_failed,
    )
    router = providers.Singleton(
        Router,
        pool=pool,
        in_flight=in_flight,
        clock=clock,
        pipeline=providers.Callable(pipeline_of, generation),
        report=fault_reporter,
        on_failure=failures,
        retries=settings.provided.transports.http.retries,
        producer_deadline=settings.provided.routing.producer_deadline,
    )

    # transports
    upstream = providers.Singleton(
        Upstream,
        patience=providers.Callable(options.patience, settings),
        limits=providers.Callable(options.connection_limits, settings),
        tls=client_tls,
    )
    admission = providers.Singleton(Admission, providers.Callable(options.limits, settings))
    handler = providers.Singleton(
        Handler,
        router=router,
        upstream=upstream,
        admission=admission,
    )
    http_server = providers.Singleton(
        HttpServer,
        listen=providers.Callable(options.http_listen, settings),
        admission=admission,
        handler=handler,
        models=providers.Singleton(MergedModels, pool, model_lists),
        tls=providers.Callable(options.server_tls, settings),
    )
    runtime_directory = providers.Singleton(RuntimeDirectory)
    ext_proc_admission = providers.Singleton(Admission, providers.Callable(options.ext_proc_limits, settings))
    ext_proc_listen = providers.Callable(options.ext_proc_listen, settings, runtime_directory)
    ext_proc_server = providers.Singleton(parts.ext_proc_server, itself)
    envoy = providers.Singleton(parts.envoy_process, itself)
    admin_server = providers.Singleton(
        AdminServer,
        listen=providers.Callable(options.admin_listen, settings),
        insight=providers.Callable(parts.insight, itself),
    )

    # the process
    plugins_alive = providers.Singleton(Parts, providers.Callable(parts.plugin_parts, generation))
    reload_log = providers.Singleton(ReloadLog, metrics_registry)
    reloader: providers.Singleton[Reloader[Any]] = providers.Singleton(
        Reloader,
        load=next_configuration,
        steps=providers.Callable(reloading.steps_of, itself),
        files=providers.Callable(reloading.watched_files_of, itself),
        settle=providers.Callable(reloading.settle_of, itself),
        on_outcome=reload_log.provided.record,
    )
    lifecycle = providers.Singleton(
        Lifecycle,
        parts=providers.Callable(parts.lifecycle_parts, itself),
        drain_delay=settings.provided.shutdown.delay,
        on_hangup=reloader.provided.request,
    )
