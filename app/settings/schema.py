"""The configuration schema: `EndpointPickerConfig` of the Go projects, and Pointsman's own sections."""

from __future__ import annotations

from typing import Any, cast

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from app.settings.picker_config import (
    DataLayer,
    FlowControl,
    PluginSpec,
    ProfileSpec,
    RequestHandler,
)
from app.settings.sections import Observability, PoolSettings, Reload, Routing, Shutdown, Simulation, Tune
from app.settings.transports import Transports
from app.settings.tree import Entries, plain
from app.settings.types import Many, Section

API_VERSIONS = ("llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1")
"""The current version, and the deprecated one."""


TREE = "tree"
"""The argument of `Settings` that holds the merged tree."""


class MergedTreeSource(PydanticBaseSettingsSource):
    """Reads all settings from the merged tree of the layers."""

    def __init__(self, settings_cls: type[BaseSettings], tree: Entries | None) -> None:
        super().__init__(settings_cls)
        self._values: dict[str, Any] = {} if tree is None else plain(tree)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The value of one field, its key, and whether it needs parsing."""
        key = field.alias or field_name
        return self._values.get(key), key, False

    def __call__(self) -> dict[str, Any]:
        """All values, unknown keys included: these are refused by the model."""
        return self._values


class Settings(BaseSettings):
    """A complete configuration."""

    model_config = SettingsConfigDict(
        **{key: value for key, value in Section.model_config.items() if key != "protected_namespaces"},  # type: ignore[typeddict-item]
    )

    api_version: str = API_VERSIONS[0]
    """Version of the `EndpointPickerConfig` schema."""
    kind: str = "EndpointPickerConfig"
    """Always `EndpointPickerConfig`."""
    feature_gates: Many[str] = ()
    """Feature gates of the Go pickers, each `name`, `name=true` or `name=false`."""
    plugins: Many[PluginSpec] = ()
    """Plugin instances."""
    scheduling_profiles: Many[ProfileSpec] = ()
    """Scheduling profiles. If empty, one profile named `default` uses every filter, scorer and picker."""
    data_layer: DataLayer = DataLayer()
    """Sources of endpoints and of their metrics."""
    flow_control: FlowControl | None = None
    """Request queueing. Accepted for compatibility; has no effect in this version."""
    request_handler: RequestHandler = RequestHandler()
    """Request parsing."""
    transports: Transports = Transports()
    """Protocols and listeners for incoming requests."""
    pool: PoolSettings = PoolSettings()
    """The endpoints and how they are monitored."""
    routing: Routing = Routing()
    """Request processing."""
    observability: Observability = Observability()
    """Logging."""
    shutdown: Shutdown = Shutdown()
    """Graceful shutdown on SIGTERM."""
    reload: Reload = Reload()
    """Configuration reload without a restart; SIGHUP triggers one at any time."""
    tune: Tune = Tune()
    """What `pointsman tune` searches."""
    simulation: Simulation = Simulation()
    """Simulated model servers in this process, for demos and tests."""

    @classmethod
    def of(cls, tree: Entries) -> Settings:
        """The settings of a merged tree. Raises `ValidationError`."""
        return cls(**{TREE: tree})  # type: ignore[arg-type]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """One source, the merged tree: files and environment are layers of it, which keep their origins."""
        arguments = cast("InitSettingsSource", init_settings).init_kwargs
        return (MergedTreeSource(settings_cls, arguments.get(TREE)),)

    @property
    def tls_files(self) -> tuple[str, ...]:
        """The files of certificates and keys, which may be renewed in place."""
        http, ext_proc, pool = self.transports.http.tls, self.transports.ext_proc.tls, self.pool.tls
        files = (
            *(http.cert_file, http.key_file, http.client_ca_file),
            *(ext_proc.cert_file, ext_proc.key_file, ext_proc.client_ca_file),
            *(pool.ca_file, pool.cert_file, pool.key_file),
        )
        return tuple(file for file in files if file)
