"""The configuration and files of an Envoy that this process runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from app.transports.listening import Address
from app.transports.tls import ClientTls


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one Envoy, in a folder of their own."""

    folder: Path

    @property
    def bootstrap(self) -> Path:
        """The bootstrap configuration."""
        return self.folder / "envoy.json"

    @property
    def endpoints(self) -> Path:
        """The model servers. Envoy reloads them when another file is moved there."""
        return self.folder / "endpoints.json"

    @property
    def certificate(self) -> Path:
        """The server certificate. Envoy reloads it when another file is moved there."""
        return self.folder / "certificate.json"

    @property
    def admin(self) -> Path:
        """The Unix socket of the admin interface."""
        return self.folder / "admin.sock"


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """How Envoy serves; times in seconds."""

    listen: Address
    ext_proc: Address
    """Where this process serves external processing."""
    tls: bool = False
    """Whether clients connect with TLS; the certificate is in `Files.certificate`."""
    client_ca_file: str = ""
    """PEM file of the authorities for client certificates; empty if clients need none."""
    endpoint_tls: ClientTls = field(default_factory=ClientTls)
    """How to connect to endpoints of `scheme: https`."""
    https: tuple[str, ...] = ()
    """IP addresses of the endpoints of `scheme: https`."""
    body_bytes: int = 64 * 1024 * 1024
    header_bytes: int = 32 * 1024
    retries: int = 2
    connect: float = 2.0
    response: float = 600.0
    idle: float = 300.0
    header: float = 10.0
    body: float = 60.0
    keep_alive: float = 75.0
    endpoint_keep_alive: float = 3.0
    concurrency: int = 0
    """Worker threads; 0 for one per core."""
    log_level: str = "warning"
