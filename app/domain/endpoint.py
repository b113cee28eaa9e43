"""An endpoint: one address that serves a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ROLE_LABEL = "llm-d.ai/role"
ENGINE_LABEL = "llm-d.ai/engine-type"

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """Where requests can be sent. Identity is the object; `name` is unique within a pool."""

    name: str
    address: str
    """An IP address or a host name, IPv6 without brackets."""
    port: int
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    metrics_port: int | None = None
    """Where `/metrics` is, when not on `port`."""
    authority: str = field(init=False)
    """`host:port` as it stands in a URL or header; IPv6 in brackets."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", f"{self.host}:{self.port}")

    @property
    def host(self) -> str:
        """The address as it stands in a URL: IPv6 in brackets."""
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def metrics_authority(self) -> str:
        """`host:port` of the metrics page."""
        return f"{self.host}:{self.metrics_port or self.port}"

    def same_as(self, other: Endpoint) -> bool:
        """Whether every field is equal."""
        return (self.name, self.address, self.port, self.metrics_port) == (
            other.name,
            other.address,
            other.port,
            other.metrics_port,
        ) and dict(self.labels) == dict(other.labels)
