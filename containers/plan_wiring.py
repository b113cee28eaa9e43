"""From a plan to providers: one per plugin, one per profile, and the lists of those that act together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dependency_injector import providers

from app.domain.named import Named
from app.extension import (
    Clock,
    EndpointsFiles,
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
from app.fleet.monitor import Binding
from app.observability.plugin_metrics import PluginRegistries
from app.planning.plan import Plan, PluginPlan, ProfilePlan
from app.scheduling.profile import Profile
from containers.generation import GenerationContainer
from containers.overriding import Recipe, Single, connect, give


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
        EndpointsFiles: container.endpoints_files,
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
    """All plugins but the profile picker, unless it serves in another role as well.

    It has a provider of its own, so that it is not constructed if another one is put in its place.
    """
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
