"""GenerationContainer: everything that follows from one configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dependency_injector import containers, providers

from app.domain.named import Named
from app.explaining.explanation import Parts
from app.extension import (
    Clock,
    Filter,
    HttpClient,
    InFlight,
    MetricsRegistry,
    Picker,
    PluginName,
    PluginParams,
    Pool,
    Producer,
    Random,
    Scorer,
)
from app.fleet.discovery import DiscoveryRunner
from app.fleet.models import ModelLists
from app.fleet.monitor import Binding, FleetMonitor
from app.fleet.pool import EndpointPool
from app.fleet.probe import connect as probe
from app.generation import Generation, Services
from app.observability.plugin_metrics import PluginRegistries
from app.parsing.parsers import Parsers
from app.planning.plan import Plan, PluginPlan, ProfilePlan
from app.routing.failures import Failures
from app.routing.observers import Observers
from app.routing.pipeline import Pipeline
from app.routing.router import Router
from app.scheduling.profile import Profile
from app.scheduling.scheduler import Scheduler
from app.transports.admin.endpoints import EndpointsPage
from app.transports.admin.server import AdminPages
from app.transports.http.handler import Handler
from app.transports.http.models import MergedModels
from app.transports.http.service import HttpService
from app.transports.http.upstream import Upstream
from app.transports.receiving import Receiver
from containers import ext_proc, listening, options
from containers.overriding import Given, Plugins, Recipe, Single, connect, give


def observers_of(
    plugins: Sequence[Named[Any]], profile_picker: Any, process: Sequence[Named[Any]]
) -> Sequence[Named[Any]]:
    """All that may observe: the plugins, the profile picker (also one put in its place), the process's own."""
    picker = profile_picker if isinstance(profile_picker, Named) else Named("profile_picker", profile_picker)
    return (*(one for one in plugins if one.plugin is not picker.plugin), picker, *process)


def process_observers(metrics: Any, access_log: Any, *, access: bool) -> Sequence[Named[Any]]:
    """The process's own observers; the access log only if it is enabled."""
    own: list[Named[Any]] = [Named("request-metrics", metrics)]
    return [*own, Named("access-log", access_log)] if access else own


def parsers_of(named: Sequence[Named[Any]]) -> Parsers:
    """The parsers, in the order they are asked."""
    return Parsers([(one.name, one.plugin) for one in named])


class GenerationContainer(containers.DeclarativeContainer):
    """One configuration's graph. The process's services come in as values.

    Override any provider by name before its first use: `plugins["my-scorer"]`, `profile_picker`, `clock`, `router`.
    """

    # what it is given: the configuration, and the services of the process
    settings, plan, effective = Given(None), Given(None), Given(None)
    clock, random, http_client, in_flight, table = Given(None), Given(None), Given(None), Given(None), Given(None)
    host_pools, client_contexts = Given(None), Given(None)
    request_metrics, access_log, events, fault_reporter, plugin_metrics = (Given(None) for _ in range(5))
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
    observers = Single(
        Observers,
        providers.Callable(
            observers_of,
            named_plugins,
            profile_picker,
            providers.Callable(
                process_observers,
                request_metrics,
                access_log,
                access=settings.provided.observability.logging.access,
            ),
        ),
        report=fault_reporter,
    )
    pipeline = Single(Pipeline, scheduler=scheduler, observers=observers, producers=producers)

    # the fleet
    client_tls = Single(options.client_tls, settings, client_contexts)
    model_lists = Single(ModelLists, http_client, client_tls)
    discovery_runner = Single(
        DiscoveryRunner,
        pool=pool,
        static=providers.Callable(listening.static_endpoints, settings, simulated_endpoints),
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
        options=providers.Callable(options.monitor_options, settings),
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
    parsers_in_order = Single(parsers_of, parsers)
    receiver = Single(Receiver, parsers=parsers_in_order, refuse=observers.provided.refused)
    upstream = Single(
        Upstream,
        pools=host_pools,
        timeouts=providers.Callable(options.timeouts, settings),
        limits=providers.Callable(options.connection_limits, settings),
        tls=client_tls,
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
        endpoints=Single(EndpointsPage, pool, in_flight, clock),
        configuration=effective,
    )
    listenings = Single(
        listening.listenings, settings, http_server, admin_server, providers.Callable(options.server_tls, settings)
    )

    decision_parts = Single(
        Parts,
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
        plugins=named_plugins,
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
        listeners=providers.Callable(listening.listeners, sockets, listenings, ext_proc_server, ext_proc_service),
        admin_listener=providers.Callable(listening.admin_listener, sockets, listenings),
        registries=registries,
        shutdown=providers.Callable(options.shutdown, settings),
        on_reload=providers.List(providers.Callable(options.logging_set_up, settings), after_reload),
    )
    """All of it, to be started."""


def build(plan: Plan, **given: object) -> GenerationContainer:
    """The container of `plan`, given everything else. Nothing in it is constructed yet."""
    container = GenerationContainer()
    give(container, plan=plan, **given)
    services = {
        Clock: container.clock,
        Random: container.random,
        HttpClient: container.http_client,
        InFlight: container.in_flight,
        Pool: container.pool,
    }
    registries = container.registries
    plugins = {one.name: _single(one, services, registries) for one in plan.plugins.values()}
    container.plugins.set_providers(plugins)
    for one in plan.plugins.values():
        _give_parameters(one, plugins)
    container.profiles.add_kwargs({profile.name: _profile(profile, plugins) for profile in plan.profiles})
    container.profile_picker.add_kwargs(name=plan.profile_picker, plugin=plugins[plan.profile_picker])
    container.named_plugins.add_args(*_named(_without_profile_picker(plan), plugins))
    container.producers.add_args(*_named(plan.producers, plugins))
    container.parsers.add_args(*_named(plan.parsers, plugins))
    for source in plan.sources:
        extractors = providers.List(*(plugins[name] for name in source.extractors))
        container.bindings.add_args(providers.Factory(Binding, source=plugins[source.source], extractors=extractors))
    if plan.discovery is not None:
        container.discovery.add_kwargs(plugin=plugins[plan.discovery])  # type: ignore[attr-defined]
    connect(container)
    return container


def _without_profile_picker(plan: Plan) -> Iterable[str]:
    """All plugins but the profile picker, unless it serves in another role as well. It comes by its own provider, so that
    it is not constructed if another one is put in its place."""
    roles = (Filter, Scorer, Picker, Producer)
    return [one.name for one in plan.plugins.values() if one.name != plan.profile_picker or one.type.serves(*roles)]


def _named(names: Iterable[str], plugins: Mapping[str, Single[Any]]) -> list[providers.Factory[Named[Any]]]:
    return [providers.Factory(Named, name=name, plugin=plugins[name]) for name in names]


def _profile(plan: ProfilePlan, plugins: Mapping[str, Single[Any]]) -> Recipe[Profile]:
    (picker,) = _named([plan.picker], plugins)
    return Recipe(
        Profile,
        plan.name,
        filters=providers.List(*_named(plan.filters, plugins)),
        scorers=providers.List(*_named([name for name, _ in plan.scorers], plugins)),
        weights=[weight for _, weight in plan.scorers],
        picker=picker,
    )


def _single(plan: PluginPlan, services: Mapping[Any, Any], registries: Single[PluginRegistries]) -> Single[Any]:
    own = {
        PluginName: providers.Object(PluginName(plan.name)),
        MetricsRegistry: registries.provided.registry_of.call(plan.name),
    }
    arguments = {
        argument: own[service] if service in own else services[service]
        for argument, service in plan.type.services.items()
    }
    return Single(plan.type.cls, **arguments)


def _give_parameters(plan: PluginPlan, plugins: Mapping[str, Single[Any]]) -> None:
    """Sets the `params` of a plugin's provider; it comes last, since they may refer to any other plugin."""
    if plan.type.params_argument is None:
        return
    referenced = providers.Dict({reference.name: plugins[reference.name] for reference in plan.references})
    params = providers.Callable(_params, plan.type.params, plan.parameters, referenced)
    plugins[plan.name].add_kwargs(**{plan.type.params_argument: params})


def _params(model: type[PluginParams], text: str, plugins: Mapping[str, Any]) -> PluginParams:
    """The parameters, with each reference replaced by the plugin that it names."""
    return model.model_validate_json(text, context=lambda name, _point: plugins[name])
