"""A process and its generations, built from configuration sources: what every command and every test begins with."""

from __future__ import annotations

from collections.abc import Sequence

import plugins
from app.catalogue.catalogue import Catalogue
from app.checking import Checked, plan_sources
from app.extension import DiscoveryError
from app.lifecycle import ProcessRunner
from app.reload import NeedsRestartError, Watching
from app.settings.errors import Fault
from app.settings.layers import Sources
from app.settings.reading import SettingsReader
from containers.generation import GenerationContainer
from containers.overriding import connect, give
from containers.plan_wiring import build
from containers.process import ProcessContainer

SERVICES = (
    "clock", "random", "http_client", "endpoints_files", "in_flight", "table", "host_pools", "client_contexts",
    "request_metrics", "events", "fault_reporter", "plugin_metrics", "sockets", "http_server",
    "admin_server", "ext_proc_server", "simulated_endpoints", "runtime_directory", "after_reload",
)  # fmt: skip
"""What a generation gets of the process, by the names that both containers have for it."""


def catalogue() -> Catalogue:
    """The plugin types: those under `plugins/`, and of installed packages."""
    return Catalogue(plugins)


def check(sources: Sources, types: Catalogue | None = None) -> Checked:
    """Loads and checks a configuration, and builds its plugins once to see that they can be built.

    Opens the files that it names, and no socket. Raises `UsageError` for a source that does not exist,
    `ConfigurationError` with all errors found.
    """
    checked = load(sources, types)
    Application(checked).verify()
    return checked


def load(sources: Sources, types: Catalogue | None = None) -> Checked:
    """The same, without building anything."""
    return plan_sources(sources, types or catalogue())


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

    def verify(self, *, discovery: bool = True) -> None:
        """Builds the plugins. Raises `ConfigurationError` if one can't be, or if the first endpoints can't be read.

        Without `discovery` none are read: for commands that are given their endpoints.
        """
        verify(self.generation, self.checked, discovery=discovery)

    def runner(self) -> ProcessRunner:
        """What runs the process: a `ProcessRunner`."""
        self.process.generations().begin(self.generation.generation())
        runner: ProcessRunner = self.process.runner()
        return runner

    def _container(self, checked: Checked) -> GenerationContainer:
        services = {name: self._instead.get(name) or self.process.providers[name]() for name in SERVICES}
        return build(checked.plan, settings=checked.settings, effective=checked.effective, **services)

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
        unchanged = checked.unchanged_plugins(self.checked)
        await self.process.generations().replace(container.generation(), unchanged)
        self.checked, self.generation = checked, container
        return True

    def _watching(self) -> Watching:
        reload = self.checked.settings.reload
        return Watching(reload.watch, self.checked.files(), reload.settle)


def verify(container: GenerationContainer, checked: Checked, *, discovery: bool = True) -> None:
    """Builds every plugin and, with `discovery`, reads the first list of endpoints. Raises `ConfigurationError`."""
    for name, provider in container.plugins.providers.items():
        try:
            provider()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin's constructor raises
            checked.plugin_fault(str(name), f"the plugin {name!r} can't be built: {type(error).__name__}: {error}")
    checked.configuration.require_no_errors()
    if discovery and checked.plan.discovery is not None:
        try:
            container.plugins[checked.plan.discovery]().check()
        except DiscoveryError as error:
            checked.plugin_fault(checked.plan.discovery, f"no endpoints: {error}")
            checked.configuration.require_no_errors()
