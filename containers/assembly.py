"""From configuration sources to a container: what every command and every test begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dependency_injector import providers

from app.catalogue.catalogue import Catalogue
from app.describing.conversion import converted
from app.describing.effective import effective
from app.extension import DiscoveryError
from app.planning.plan import Plan
from app.planning.planner import plan
from app.settings.configuration import Configuration, load
from app.settings.errors import Fault
from app.settings.layers import Sources
from containers.application import ApplicationContainer
from containers.building import build_all
from containers.generation import GenerationContainer


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration without errors, and its plan."""

    configuration: Configuration
    plan: Plan
    sources: Sources
    catalogue: Catalogue

    def effective(self, *, origins: bool = False) -> str:
        """The effective configuration as YAML."""
        return effective(self.configuration, self.plan, origins=origins)

    def converted(self) -> str:
        """The configuration as a plain `EndpointPickerConfig`."""
        return converted(self.configuration, self.plan)

    def container(self, **instead: object) -> ApplicationContainer:
        """A fresh container, nothing in it built yet. `instead` are objects in place of providers, by name."""
        container = ApplicationContainer(settings=self.configuration.settings, plan=self.plan)
        container.effective.override(providers.Callable(self.effective))
        container.configuration_files.override(providers.Object(self.sources.paths))
        container.next_configuration.override(providers.Object(self.again))
        for name, value in instead.items():
            container.providers[name].override(providers.Object(value))
        return container

    def again(self) -> tuple[Checked, Sequence[Fault]]:
        """The configuration as its sources are now, with what is probably not meant in it. Raises as `check` does."""
        self.catalogue.refresh()
        checked = _planned(self.sources, self.catalogue)
        return checked, checked.configuration.faults.warnings


def check(sources: Sources, catalogue: Catalogue | None = None) -> Checked:
    """Loads and checks a configuration, and builds its plugins once to see that they can be built.

    Opens the files that the configuration names, and no socket. Raises `UsageError` for a source that is not there,
    `ConfigurationError` with all errors found.
    """
    checked = _planned(sources, catalogue or Catalogue())
    generation: GenerationContainer = checked.container().generation()
    build_all(generation, checked.configuration)
    _check_discovery(checked, generation)
    return checked


def _planned(sources: Sources, catalogue: Catalogue) -> Checked:
    configuration = load(sources, catalogue.params_model)
    return Checked(configuration, plan(configuration, catalogue), sources, catalogue)


def _check_discovery(checked: Checked, generation: GenerationContainer) -> None:
    configuration, name = checked.configuration, checked.plan.discovery
    if name is None:
        return
    try:
        generation.discovery().check()
    except DiscoveryError as error:
        index = [spec.key for spec in configuration.settings.plugins].index(name)
        configuration.faults.error(configuration.origin("plugins", index), f"no endpoints: {error}")
        configuration.require_no_errors()
