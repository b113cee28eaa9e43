"""From configuration sources to a process and its generations: what every command and every test begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import plugins
from app.catalogue.catalogue import Catalogue
from app.describing.conversion import converted
from app.describing.effective import effective
from app.extension import DiscoveryError
from app.planning.comparing import unchanged_plugins
from app.planning.plan import Plan
from app.planning.planner import plan
from app.reload import NeedsRestartError, Watching
from app.settings.configuration import Configuration, load
from app.settings.errors import Fault
from app.settings.layers import Sources
from app.settings.reading import SettingsReader
from app.settings.schema import Settings
from containers import options
from containers.generation import GenerationContainer, build
from containers.overriding import connect, give
from containers.process import ProcessContainer

SERVICES = (
    "clock", "random", "http_client", "in_flight", "table", "host_pools", "client_contexts", "request_metrics",
    "access_log", "events", "fault_reporter", "plugin_metrics", "sockets", "http_server", "admin_server",
    "ext_proc_server", "simulated_endpoints", "runtime_directory", "after_reload",
)  # fmt: skip
"""What a generation gets of the process, by the names that both containers have for it."""


def catalogue() -> Catalogue:
    """The plugin types: those under `plugins/`, and of installed packages."""
    return Catalogue(plugins)


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration without errors, and its plan."""

    configuration: Configuration
    plan: Plan
    sources: Sources
    catalogue: Catalogue
    tls_files: Mapping[str, bytes]
    """What the files of certificates and keys held."""

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.configuration.settings

    def effective(self, *, origins: bool = False) -> str:
        """The effective configuration as YAML."""
        return effective(self.configuration, self.plan, origins=origins)

    def converted(self) -> str:
        """The configuration as a plain `EndpointPickerConfig`."""
        return converted(self.configuration, self.plan)

    def again(self) -> Checked:
        """The configuration as its sources are now. Raises what `plan_sources` raises."""
        self.catalogue.refresh()
        return plan_sources(self.sources, self.catalogue)

    def is_same_as(self, other: Checked) -> bool:
        """Whether a generation of `other` would be equal."""
        unchanged = unchanged_plugins(other.plan, self.plan)
        return (
            self.settings == other.settings
            and len(unchanged) == len(self.plan.plugins) == len(other.plan.plugins)
            and self.tls_files == other.tls_files
        )


def plan_sources(sources: Sources, types: Catalogue | None = None) -> Checked:
    """Loads and checks a configuration, without building anything of it.

    Raises `UsageError` for a source that does not exist, `ConfigurationError` with all errors found.
    """
    types = types or catalogue()
    configuration = load(sources, types.params_model)
    made = plan(configuration, types)
    files = {file: Path(file).read_bytes() for file in options.tls_files(configuration.settings)}
    return Checked(configuration, made, sources, types, files)


def check(sources: Sources, types: Catalogue | None = None) -> Checked:
    """The same, and builds its plugins once to see that they can be built. Opens the files that the configuration names,
    and no socket."""
    checked = plan_sources(sources, types)
    Application(checked).verify()
    return checked


class Application:
    """A process, and the container of its current generation. Nothing is built until it is asked for."""

    def __init__(self, checked: Checked, **instead: object) -> None:
        """`instead` are objects to give the generations in place of the process's services, by name."""
        self.checked = checked
        self.process = ProcessContainer()
        self._instead = instead
        give(
            self.process,
            settings_reader=SettingsReader(checked.settings),
            load=self._load,
            apply=self._apply,
            watching=self._watching,
        )
        connect(self.process)
        self.generation = self._container(checked)
        """The current one's container; a reload replaces it."""

    def verify(self) -> None:
        """Builds the plugins. Raises `ConfigurationError` if one can't be built, or the first endpoints can't be read."""
        verify(self.generation, self.checked)

    def runner(self) -> Any:
        """What runs the process: a `ProcessRunner`."""
        self.process.generations().begin(self.generation.generation())
        return self.process.runner()

    def _container(self, checked: Checked) -> GenerationContainer:
        services = {name: self._instead.get(name) or self.process.providers[name]() for name in SERVICES}
        return build(
            checked.plan,
            settings=checked.settings,
            effective=partial(effective, checked.configuration, checked.plan),
            **services,
        )

    # -- a reload: the first part runs in a thread, where constructors hold up no request

    def _load(self) -> tuple[tuple[Checked, GenerationContainer | None], Sequence[Fault]]:
        checked = self.checked.again()
        warnings = checked.configuration.faults.warnings
        if checked.is_same_as(self.checked):
            return (checked, None), warnings
        keys = self.process.settings_reader().needing_restart(checked.settings)
        if keys:
            raise NeedsRestartError(keys)
        container = self._container(checked)
        verify(container, checked)
        return (checked, container), warnings

    async def _apply(self, loaded: tuple[Checked, GenerationContainer | None]) -> bool:
        checked, container = loaded
        if container is None:
            return False
        unchanged = unchanged_plugins(self.checked.plan, checked.plan)
        await self.process.generations().replace(container.generation(), unchanged)
        self.checked, self.generation = checked, container
        return True

    def _watching(self) -> Watching:
        reload = self.checked.settings.reload
        addresses = (plugin.type_name.rpartition(":")[0] for plugin in self.checked.plan.plugins.values())
        plugin_files = (Path(path) for path in addresses if path.endswith(".py"))
        files = (*self.checked.sources.paths, *plugin_files, *map(Path, options.tls_files(self.checked.settings)))
        return Watching(reload.watch, files, reload.settle)


def verify(container: GenerationContainer, checked: Checked) -> None:
    """Builds every plugin, and reads the first list of endpoints. Raises `ConfigurationError`."""
    configuration = checked.configuration
    names = [spec.key for spec in configuration.settings.plugins]

    def fault(name: str, message: str) -> None:
        origin = configuration.origin("plugins", names.index(name)) if name in names else configuration.origin()
        configuration.faults.error(origin, message)

    for name, provider in container.plugins.providers.items():
        try:
            provider()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin's constructor raises
            fault(str(name), f"the plugin {name!r} can't be built: {type(error).__name__}: {error}")
    configuration.require_no_errors()
    if checked.plan.discovery is not None:
        try:
            container.plugins[checked.plan.discovery]().check()
        except DiscoveryError as error:
            fault(checked.plan.discovery, f"no endpoints: {error}")
            configuration.require_no_errors()
