"""How an Envoy of our own serves, and where it keeps its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from app.transports.listening import Address
from app.transports.tls import ClientTls


@dataclass(frozen=True, slots=True)
class Files:
    """What Envoy reads and opens, in a folder of its own."""

    folder: Path

    @property
    def bootstrap(self) -> Path:
        """Its configuration."""
        return self.folder / "envoy.json"

    @property
    def endpoints(self) -> Path:
        """The model servers; it is noticed when another file is moved there."""
        return self.folder / "endpoints.json"

    @property
    def certificate(self) -> Path:
        """What clients are met with; it is noticed when another file is moved there."""
        return self.folder / "certificate.json"

    @property
    def admin(self) -> Path:
        """The socket of its admin pages."""
        return self.folder / "admin.sock"


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """How it serves; times in seconds."""

    listen: Address
    ext_proc: Address
    """The Unix socket of this process."""
    tls: bool = False
    """Whether clients are met with TLS, by the certificate in `Files.certificate`."""
    client_ca_file: str = ""
    """Authorities of the certificates that clients must show."""
    endpoint_tls: ClientTls = field(default_factory=ClientTls)
    """How endpoints of `scheme: https` are verified."""
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
    """Worker threads; 0 for one a core."""
    log_level: str = "warning"
