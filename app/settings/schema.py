"""The one schema: `EndpointPickerConfig` of the Go projects, then our own sections."""

from __future__ import annotations

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.picker_config import (
    DataLayer,
    FlowControl,
    PluginSpec,
    ProfileSpec,
    RequestHandler,
)
from app.settings.sections import Observability, PoolSettings, Reload, Routing, Shutdown, Simulation
from app.settings.transports import Transports
from app.settings.types import Many, Section

API_VERSIONS = ("llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1")
"""The current one, and the one that is deprecated."""


class Settings(BaseSettings):
    """A whole configuration."""

    model_config = SettingsConfigDict(
        **{key: value for key, value in Section.model_config.items() if key != "protected_namespaces"},  # type: ignore[typeddict-item]
    )

    api_version: str = API_VERSIONS[0]
    """Version of the schema's first part."""
    kind: str = "EndpointPickerConfig"
    """Always this."""
    feature_gates: Many[str] = ()
    """Features of the Go pickers, each `name`, `name=true` or `name=false`."""
    plugins: Many[PluginSpec] = ()
    """The plugin instances."""
    scheduling_profiles: Many[ProfileSpec] = ()
    """The profiles; without any, one named `default` with every filter, scorer and picker."""
    data_layer: DataLayer = DataLayer()
    """Where endpoints and their metrics come from."""
    flow_control: FlowControl | None = None
    """Queueing of requests; without effect in this version."""
    request_handler: RequestHandler = RequestHandler()
    """How requests are parsed."""
    transports: Transports = Transports()
    """How requests come in."""
    pool: PoolSettings = PoolSettings()
    """The endpoints, and how they are watched."""
    routing: Routing = Routing()
    """The life of a request."""
    observability: Observability = Observability()
    """Logs."""
    shutdown: Shutdown = Shutdown()
    """What SIGTERM does."""
    reload: Reload = Reload()
    """Taking over a changed configuration without a restart."""
    simulation: Simulation = Simulation()
    """Simulated model servers in this process."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is given: the merged tree, into which files and the environment have gone already."""
        return (init_settings,)
