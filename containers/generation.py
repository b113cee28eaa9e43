"""GenerationContainer: the plugins, profiles and pipeline of one configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from dependency_injector import containers, providers

from app.extension import (
    Lifecycle,
    MetricsRegistry,
    OnFinished,
    OnFirstByte,
    OnRefused,
    OnScheduled,
    PluginName,
    PluginParams,
)
from app.fleet.monitor import Binding
from app.parsing.parsers import Parsers
from app.planning.plan import Plan, PluginPlan, ProfilePlan
from app.routing.pipeline import Pipeline
from app.scheduling.profile import Named, Profile
from app.scheduling.scheduler import Scheduler

P = TypeVar("P")

NONE: Mapping[str, object] = {}


class GenerationContainer(containers.DeclarativeContainer):
    """One configuration's graph. Outer services come in as values, never as providers.

    `plugins.providers[name]` is a Singleton per plugin instance: override it to replace that plugin in every profile.
    `profiles` makes each profile, `profile_picker` the thin value that names the ProfilePicker plugin.
    """

    plugins = providers.Container(containers.DynamicContainer)
    profiles = providers.Dict()
    profile_picker = providers.Factory(Named)
    """Its arguments are set by `build_generation`."""
    producers = providers.List()
    parsers = providers.List()
    everything = providers.List()
    """Every plugin under its name; what it observes is seen by what it has, be it overridden."""
    machine_observers = providers.Object(())
    """Observers that belong to the process and not to the configuration, as `Named`."""
    scheduler = providers.Factory(Scheduler, profile_picker=profile_picker, profiles=profiles)
    bindings = providers.List()
    discovery: providers.Provider[Any] = providers.Object(None)


def build_generation(
    plan: Plan, services: Mapping[Any, Any], observers: Iterable[Named[Any]] = (), kept: Mapping[str, object] = NONE
) -> GenerationContainer:
    """The container of `plan`. `services` are the plugins' collaborators by type; for `MetricsRegistry` a function
    that makes one for the plugin of a name. `kept` are plugins that go on as they are, by name.

    Nothing is constructed yet: override providers first, then call them.
    """
    container = GenerationContainer()
    for plugin in plan.plugins.values():
        own = providers.Object(kept[plugin.name]) if plugin.name in kept else _singleton(plugin, services)
        container.plugins.set_provider(plugin.name, own)
    by_name: Mapping[str, providers.Provider[Any]] = container.plugins.providers  # type: ignore[assignment]
    for plugin in plan.plugins.values():
        _give_parameters(plugin, by_name)
    container.profiles.add_kwargs({profile.name: _profile(profile, by_name) for profile in plan.profiles})
    container.profile_picker.add_kwargs(name=plan.profile_picker, plugin=by_name[plan.profile_picker])
    container.producers.add_args(*(_named(name, by_name) for name in plan.producers))
    container.parsers.add_args(*(_named(name, by_name) for name in plan.parsers))
    container.everything.add_args(*(_named(name, by_name) for name in plan.plugins))
    container.machine_observers.override(providers.Object(tuple(observers)))
    for source in plan.sources:
        extractors = providers.List(*(by_name[name] for name in source.extractors))
        container.bindings.add_args(providers.Factory(Binding, source=by_name[source.source], extractors=extractors))
    if plan.discovery is not None:
        container.discovery.override(by_name[plan.discovery])
    return container


def pipeline_of(container: GenerationContainer) -> Pipeline:
    """What the router runs, built from `container`."""
    named: Sequence[Named[Any]] = (*container.everything(), *container.machine_observers())

    def of(point: type[P]) -> tuple[Named[P], ...]:
        return tuple(one for one in named if isinstance(one.plugin, point))

    return Pipeline(
        parsers=Parsers([(named.name, named.plugin) for named in container.parsers()]),
        scheduler=container.scheduler(),
        producers=tuple(container.producers()),
        on_scheduled=of(OnScheduled),
        on_first_byte=of(OnFirstByte),
        on_finished=of(OnFinished),
        on_refused=of(OnRefused),
    )


def lifecycles_of(container: GenerationContainer) -> tuple[Named[Lifecycle], ...]:
    """The plugins that want to be started and stopped."""
    return tuple(named for named in container.everything() if isinstance(named.plugin, Lifecycle))


def _named(name: str, by_name: Mapping[str, providers.Provider[Any]]) -> providers.Factory[Named[Any]]:
    return providers.Factory(Named, name=name, plugin=by_name[name])


def _profile(plan: ProfilePlan, by_name: Mapping[str, providers.Provider[Any]]) -> providers.Factory[Profile]:
    return providers.Factory(
        Profile,
        plan.name,
        filters=providers.List(*(_named(name, by_name) for name in plan.filters)),
        scorers=providers.List(*(_named(name, by_name) for name, _ in plan.scorers)),
        weights=[weight for _, weight in plan.scorers],
        picker=_named(plan.picker, by_name),
    )


def _singleton(plan: PluginPlan, services: Mapping[Any, Any]) -> providers.Singleton[Any]:
    own = {
        PluginName: providers.Object(PluginName(plan.name)),
        MetricsRegistry: providers.Callable(services[MetricsRegistry], plan.name),
    }
    arguments = {
        argument: own[service] if service in own else services[service]
        for argument, service in plan.type.services.items()
    }
    return providers.Singleton(plan.type.cls, **arguments)


def _give_parameters(plan: PluginPlan, by_name: Mapping[str, providers.Provider[Any]]) -> None:
    """Sets the `params` of a plugin's provider; it comes last, since they may name any other plugin."""
    provider = by_name[plan.name]
    if plan.type.params_argument is None or not isinstance(provider, providers.Singleton):
        return
    referenced = providers.Dict({reference.name: by_name[reference.name] for reference in plan.references})
    params = providers.Callable(_params, plan.type.params, plan.parameters, referenced)
    provider.add_kwargs(**{plan.type.params_argument: params})


def _params(model: type[PluginParams], text: str, plugins: Mapping[str, Any]) -> PluginParams:
    """The parameters, with each reference become the plugin that it names."""
    return model.model_validate_json(text, context=lambda name, _point: plugins[name])
