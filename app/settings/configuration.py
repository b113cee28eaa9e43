"""A loaded configuration: the settings and the origin of each value."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings.errors import ConfigurationError, Faults
from app.settings.layers import ParamsModel, Sources, load_layers
from app.settings.schema import Settings
from app.settings.tree import Entries, Origin, locate
from app.settings.validation import validate


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, their origins, and the faults found so far."""

    settings: Settings
    tree: Entries
    """The merged layers without their invalid values."""
    written: Entries
    """The merged layers as written."""
    faults: Faults

    def origin(self, *path: str | int) -> Origin:
        """The origin of the value at `path`, which is spelled as in the schema."""
        return locate(self.tree, path)

    def require_no_errors(self) -> None:
        """Raises `ConfigurationError` if there are errors."""
        if self.faults:
            raise ConfigurationError(self.faults.all)


def load(sources: Sources, params_model: ParamsModel) -> Configuration:
    """Loads the layers and validates what doesn't depend on plugins. Errors are in the `faults` of the result.

    Raises `UsageError` if a file can't be read or a `--set` is malformed.
    """
    faults = Faults()
    written = load_layers(sources, params_model, faults)
    settings, tree = validate(written, faults)
    return Configuration(settings, tree, written, faults)
