"""A loaded configuration: the settings, and where each value came from."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings.errors import ConfigurationError, Faults
from app.settings.layers import ParamsModel, Sources, load_layers
from app.settings.schema import Settings
from app.settings.tree import Entries, Origin, locate
from app.settings.validation import validate


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings with their origins, and what was found wrong so far."""

    settings: Settings
    tree: Entries
    """The merged layers, less what is wrong in them."""
    written: Entries
    """The merged layers as they are."""
    faults: Faults

    def origin(self, *path: str | int) -> Origin:
        """Where the value at `path`, in the schema's spelling, came from."""
        return locate(self.tree, path)

    def require_no_errors(self) -> None:
        """Raises `ConfigurationError` if an error was found."""
        if self.faults:
            raise ConfigurationError(self.faults.all)


def load(sources: Sources, params_model: ParamsModel) -> Configuration:
    """Loads and checks what can be checked without the plugins; errors are in the result's `faults`.

    Raises `UsageError` for what is not there at all.
    """
    faults = Faults()
    written = load_layers(sources, params_model, faults)
    settings, tree = validate(written, faults)
    return Configuration(settings, tree, written, faults)
