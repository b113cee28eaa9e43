"""From configuration sources to a checked configuration: what every command and every reload begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.catalogue.catalogue import Catalogue
from app.describing.conversion import converted
from app.describing.effective import effective
from app.planning.comparing import unchanged_plugins
from app.planning.plan import Plan
from app.planning.planner import plan
from app.settings.configuration import Configuration, load
from app.settings.layers import Sources
from app.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration without errors, and its plan."""

    configuration: Configuration
    plan: Plan
    sources: Sources
    catalogue: Catalogue
    tls_files: Mapping[str, bytes]
    """The contents of the certificate and key files."""

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

    def unchanged_plugins(self, before: Checked) -> frozenset[str]:
        """Names of the plugins that are as they were `before`."""
        return unchanged_plugins(before.plan, self.plan)

    def is_same_as(self, other: Checked) -> bool:
        """Whether a generation of `other` would be equal."""
        unchanged = self.unchanged_plugins(other)
        return (
            self.settings == other.settings
            and len(unchanged) == len(self.plan.plugins) == len(other.plan.plugins)
            and self.tls_files == other.tls_files
        )

    def files(self) -> tuple[Path, ...]:
        """The files that it depends on: its own, those of plugins named by file, certificates and keys."""
        addresses = (plugin.type_name.rpartition(":")[0] for plugin in self.plan.plugins.values())
        plugin_files = (Path(path) for path in addresses if path.endswith(".py"))
        return (*self.sources.paths, *plugin_files, *map(Path, self.tls_files))

    def plugin_fault(self, name: str, message: str) -> None:
        """Adds an error to the configuration, at the place that configures the plugin `name`."""
        names = [spec.key for spec in self.settings.plugins]
        at = ("plugins", names.index(name)) if name in names else ()
        self.configuration.faults.error(self.configuration.origin(*at), message)


def plan_sources(sources: Sources, catalogue: Catalogue) -> Checked:
    """Loads and checks a configuration, without building anything of it.

    Raises `UsageError` for a source that does not exist, `ConfigurationError` with all errors found.
    """
    configuration = load(sources, catalogue.params_model)
    made = plan(configuration, catalogue)
    files = {file: Path(file).read_bytes() for file in configuration.settings.tls_files}
    return Checked(configuration, made, sources, catalogue, files)
