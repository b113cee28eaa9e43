"""From configuration sources to a container: what every command and every test begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dependency_injector import providers

from app.extension import DiscoveryError
from app.settings.configuration import Configuration, load
from app.settings.errors import ConfigurationError
from app.settings.layers import Sources
from containers.application import ApplicationContainer
from containers.catalogue import Catalogue
from containers.effective import effective
from containers.generation import GenerationContainer
from containers.planning.plan import Plan
from containers.planning.planner import plan


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration without errors, and its plan."""

    configuration: Configuration
    plan: Plan

    def effective(self, *, origins: bool = False) -> str:
        """The effective configuration as YAML."""
        return effective(self.configuration, self.plan, origins=origins)

    def container(self, **instead: object) -> ApplicationContainer:
        """A fresh container, nothing in it built yet. `instead` are objects in place of providers, by name."""
        container = ApplicationContainer(settings=self.configuration.settings, plan=self.plan)
        container.effective.override(providers.Callable(self.effective))
        for name, value in instead.items():
            container.providers[name].override(providers.Object(value))
        return container


def check(sources: Sources, catalogue: Catalogue | None = None) -> Checked:
    """Loads and checks a configuration, and builds its plugins once to see that they can be built.

    Opens the files that the configuration names, and no socket. Raises `UsageError` for a source that is not there,
    `ConfigurationError` with all errors found.
    """
    catalogue = catalogue or Catalogue()
    configuration = load(sources, catalogue.params_model)
    planned = plan(configuration, catalogue)
    checked = Checked(configuration, planned)
    _try_to_build(checked)
    return checked


def _try_to_build(checked: Checked) -> None:
    generation: GenerationContainer = checked.container().generation()
    faults, origin_of = checked.configuration.faults, checked.configuration.origin
    names = [spec.key for spec in checked.configuration.settings.plugins]
    plugins: Mapping[str, providers.Provider[Any]] = generation.plugins.providers  # type: ignore[assignment]
    for name, provider in plugins.items():
        origin = origin_of("plugins", names.index(name)) if name in names else origin_of()
        try:
            plugin = provider()
            if name == checked.plan.discovery:
                plugin.check()
        except DiscoveryError as error:
            faults.error(origin, f"no endpoints: {error}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin's constructor raises
            faults.error(origin, f"the plugin {name!r} can't be built: {type(error).__name__}: {error}")
    if faults:
        raise ConfigurationError(faults.all)
