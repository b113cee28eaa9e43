"""An endpoint of a model server."""

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
    """A destination for requests. Compared by identity; `name` is unique within a pool."""

    name: str
    address: str
    """An IP address (IPv6 without brackets), a host name, or a Unix socket such as `unix:/run/engine.sock`."""
    port: int
    """0 for a Unix socket."""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    metrics_port: int | None = None
    """Port of `/metrics`; None means `port`."""
    tls: bool = False
    """Whether the endpoint uses HTTPS."""
    authority: str = field(init=False)
    """`host:port` for URLs and headers, with IPv6 in brackets; `address` for a Unix socket."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", self.address if self.socket else f"{self.host}:{self.port}")

    @property
    def socket(self) -> str | None:
        """The path of the Unix socket, None for an IP address or host name."""
        return self.address.removeprefix(UNIX) if self.address.startswith(UNIX) else None

    @property
    def host(self) -> str:
        """The address for URLs: IPv6 in brackets, `localhost` for a Unix socket."""
        if self.socket:
            return "localhost"
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def host_header(self) -> str:
        """The value of the `host` header."""
        return self.host if self.socket else self.authority

    @property
    def url(self) -> str:
        """The URL of the API, without a path."""
        return f"{'https' if self.tls else 'http'}://{self.host_header}"

    @property
    def metrics_authority(self) -> str:
        """`host:port` of `/metrics`."""
        if self.socket:
            return self.host
        return f"{self.host}:{self.metrics_port or self.port}"

    def same_as(self, other: Endpoint) -> bool:
        """Whether all fields are equal."""
        return (self.name, self.address, self.port, self.metrics_port, self.tls) == (
            other.name,
            other.address,
            other.port,
            other.metrics_port,
            other.tls,
        ) and dict(self.labels) == dict(other.labels)
