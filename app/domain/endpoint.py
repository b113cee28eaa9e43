"""An endpoint: one address that serves a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from app.domain.addresses import UNIX

ROLE_LABEL = "llm-d.ai/role"
ENGINE_LABEL = "llm-d.ai/engine-type"

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """Where requests can be sent. Identity is the object; `name` is unique within a pool."""

    name: str
    address: str
    """An IP address or a host name, IPv6 without brackets; or a Unix socket as `unix:/run/engine.sock`."""
    port: int
    """0 with a Unix socket."""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    metrics_port: int | None = None
    """Where `/metrics` is, when not on `port`."""
    tls: bool = False
    """Whether it speaks HTTPS."""
    authority: str = field(init=False)
    """`host:port` as it stands in a URL or header, IPv6 in brackets; of a Unix socket its address."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", self.address if self.socket else f"{self.host}:{self.port}")

    @property
    def socket(self) -> str | None:
        """The path of its Unix socket, if it has one."""
        return self.address.removeprefix(UNIX) if self.address.startswith(UNIX) else None

    @property
    def host(self) -> str:
        """The address as it stands in a URL: IPv6 in brackets, `localhost` for a Unix socket."""
        if self.socket:
            return "localhost"
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def host_header(self) -> str:
        """Who it is in a `host` header."""
        return self.host if self.socket else self.authority

    @property
    def url(self) -> str:
        """Where its API is, without a path."""
        return f"{'https' if self.tls else 'http'}://{self.host_header}"

    @property
    def metrics_authority(self) -> str:
        """`host:port` of the metrics page."""
        if self.socket:
            return self.host
        return f"{self.host}:{self.metrics_port or self.port}"

    def same_as(self, other: Endpoint) -> bool:
        """Whether every field is equal."""
        return (self.name, self.address, self.port, self.metrics_port, self.tls) == (
            other.name,
            other.address,
            other.port,
            other.metrics_port,
            other.tls,
        ) and dict(self.labels) == dict(other.labels)
