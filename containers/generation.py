"""GenerationContainer: everything that follows from one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dependency_injector import containers, providers

from app.domain.named import Named
from app.explaining.explanation import DecisionParts
from app.fleet.discovery import DiscoveryRunner
from app.fleet.models import ModelLists
from app.fleet.monitor import FleetMonitor, MonitorOptions
from app.fleet.pool import EndpointPool
from app.fleet.probe import connect as probe
from app.generation import Generation, Services
from app.observability.access_log import AccessLog
from app.observability.plugin_metrics import PluginRegistries
from app.parsing.parsers import Parsers
from app.routing.failures import Failures
from app.routing.observers import Observers, with_profile_picker
from app.routing.pipeline import Pipeline
from app.routing.router import Router
from app.scheduling.scheduler import Scheduler
from app.transports.admin.endpoints import EndpointsPage
from app.transports.admin.server import AdminPages
from app.transports.http.handler import Handler
from app.transports.http.models import MergedModels
from app.transports.http.service import HttpService
from app.transports.http.upstream import ConnectionLimits, Timeouts, Upstream
from app.transports.receiving import Receiver
from containers import ext_proc, options
from containers.overriding import Given, Plugins, Recipe, Single


def process_observers(metrics: Any, access_log: Any, *, access: bool) -> Sequence[Named[Any]]:
    """The process's own observers; the access log only if it is enabled."""
    own: list[Named[Any]] = [Named("request-metrics", metrics)]
    return [*own, Named("access-log", access_log)] if access else own


class GenerationContainer(containers.DeclarativeContainer):
    """One configuration's graph. The process's services come in as values.

    Override any provider by name before its first use: `plugins["my-scorer"]`, `profile_picker`, `clock`, `router`.
    """

    # what it is given: the configuration, and the services of the process
    settings, plan, effective = Given(None), Given(None), Given(None)
    clock, random, http_client, in_flight, table = Given(None), Given(None), Given(None), Given(None), Given(None)
    endpoints_files, host_pools, client_contexts = Given(None), Given(None), Given(None)
    request_metrics, events, fault_reporter, plugin_metrics = (Given(None) for _ in range(4))
    sockets, http_server, admin_server, ext_proc_server = Given(None), Given(None), Given(None), Given(None)
    simulated_endpoints, runtime_directory, after_reload = Given(tuple), Given(None), Given(None)

    # the fleet as plugins see it
    pool = Single(
        EndpointPool,
        clock=clock,
        in_flight=in_flight.provided.count,
        stale_after=settings.provided.pool.scrape.stale_after,
        table=table,
    )

    # the plugins, and what they make up; `build` adds one provider per plugin and profile
    registries = Single(PluginRegistries, plugin_metrics)
    plugins = Plugins()
    named_plugins = providers.List()
    producers = providers.List()
    parsers = providers.List()
    bindings = providers.List()
    discovery: providers.Provider[Any] = Recipe(lambda plugin=None: plugin)
    profiles = providers.Dict()
    profile_picker = Recipe(Named)

    # the decision, and the life of a request
    scheduler = Single(Scheduler, profile_picker=profile_picker, profiles=profiles)
    all_plugins = Single(with_profile_picker, named_plugins, profile_picker)
    access_log = Single(AccessLog, prefixes=settings.provided.observability.logging.prefixes)
    process_observers = providers.Callable(
        process_observers, request_metrics, access_log, access=settings.provided.observability.logging.access
    )
    observers = Single(Observers, all_plugins, process_observers, report=fault_reporter)
    pipeline = Single(Pipeline, scheduler=scheduler, observers=observers, producers=producers)

    # the fleet
    client_tls = Single(options.client_tls, settings, client_contexts)
    model_lists = Single(ModelLists, http_client, client_tls)
    discovery_runner = Single(
        DiscoveryRunner,
        pool=pool,
        static=providers.Callable(options.static_endpoints, settings, simulated_endpoints),
        discovery=discovery,
        on_failure=events.provided.discovery_failed,
    )
    monitor = Single(
        FleetMonitor,
        pool=pool,
        bindings=bindings,
        list_models=model_lists.provided.names,
        probe=providers.Object(probe),
        clock=clock,
        random=random,
        options=providers.Callable(
            options.filled,
            MonitorOptions,
            settings.provided.pool.scrape,
            models_interval=settings.provided.pool.models.interval,
        ),
        on_change=events.provided.endpoint_changed,
    )
    router = Single(
        Router,
        pool=pool,
        in_flight=in_flight,
        clock=clock,
        pipeline=pipeline,
        on_failure=Single(
            Failures,
            mark_down=pool.provided.mark_down,
            suspect=table.provided.suspect,
            log=events.provided.attempt_failed,
        ),
        refresh_models=monitor.provided.refresh_models,
        retries=settings.provided.transports.http.retries,
        producer_deadline=settings.provided.routing.producer_deadline,
    )

    # the transports
    parsers_in_order = Single(Parsers, parsers)
    receiver = Single(Receiver, parsers=parsers_in_order, refuse=observers.provided.refused)
    upstream = Single(
        Upstream,
        pools=host_pools,
        timeouts=providers.Callable(options.filled, Timeouts, settings.provided.transports.http.timeouts),
        limits=providers.Factory(
            ConnectionLimits,
            connections=settings.provided.transports.http.limits.endpoint_connections,
            keep_alive=settings.provided.transports.http.timeouts.endpoint_keep_alive,
        ),
        tls=client_tls,
        hold_stream_head=settings.provided.transports.http.hold_stream_head,
    )
    http = Single(
        HttpService,
        handler=Single(
            Handler,
            router=router,
            receiver=receiver,
            upstream=upstream,
            body_bytes=settings.provided.transports.http.limits.body_bytes,
        ),
        models=Single(MergedModels, pool, model_lists),
        limits=settings.provided.transports.http.limits,
        timeouts=settings.provided.transports.http.timeouts,
    )
    ext_proc_service = Single(ext_proc.service, settings, ext_proc_server, router, receiver, runtime_directory)
    admin = Single(
        AdminPages,
        allow_from=settings.provided.transports.admin.allow_from,
        endpoints=Single(EndpointsPage, pool, in_flight, clock, all_plugins),
        configuration=effective,
    )
    listenings = Single(options.listenings, settings, http_server, admin_server)

    decision_parts = Single(
        DecisionParts,
        plan=plan,
        pool=pool,
        in_flight=in_flight,
        clock=clock,
        parsers=parsers_in_order,
        profile_picker=profile_picker,
        profiles=profiles,
        producers=producers,
        body_bytes=settings.provided.transports.http.limits.body_bytes,
        producer_deadline=settings.provided.routing.producer_deadline,
    )
    """What `explain` decides with."""

    generation = Single(
        Generation,
        plugins=all_plugins,
        open_routes=pipeline.provided.open,
        discovery=discovery_runner,
        monitor=monitor,
        services=Single(
            Services,
            pool=pool,
            pool_name=settings.provided.pool.name,
            http=http,
            ext_proc=ext_proc_service,
            admin=admin,
        ),
        listeners=providers.Callable(options.listeners, sockets, listenings, ext_proc_server, ext_proc_service),
        admin_listener=providers.Callable(options.admin_listener, sockets, listenings),
        registries=registries,
        shutdown=settings.provided.shutdown,
        on_reload=providers.List(providers.Callable(options.logging_set_up, settings), after_reload),
    )
    """All of it, to be started."""
