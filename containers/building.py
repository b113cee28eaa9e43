"""Builds every plugin of a generation, and tells which can't be built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dependency_injector import providers

from app.settings.configuration import Configuration
from containers.generation import GenerationContainer


def build_all(generation: GenerationContainer, configuration: Configuration) -> None:
    """Raises `ConfigurationError` if a constructor raises."""
    names = [spec.key for spec in configuration.settings.plugins]
    plugins: Mapping[str, providers.Provider[Any]] = generation.plugins.providers  # type: ignore[assignment]
    for name, provider in plugins.items():
        try:
            provider()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin's constructor raises
            origin = configuration.origin("plugins", names.index(name)) if name in names else configuration.origin()
            message = f"the plugin {name!r} can't be built: {type(error).__name__}: {error}"
            configuration.faults.error(origin, message)
    configuration.require_no_errors()
