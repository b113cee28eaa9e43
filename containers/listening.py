"""Where a generation listens, and which endpoints it begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ssl import SSLContext

from app.domain.endpoint import Endpoint
from app.generation import Listener
from app.settings.schema import Settings
from app.transports.admin.server import AdminServer
from app.transports.ext_proc.lazy import ExtProc
from app.transports.http.server import HttpServer
from app.transports.listening import Address, Listening, Sockets, SocketsListener
from containers import options

HTTP, ADMIN = "http", "admin"


def static_endpoints(
    settings: Settings, simulated: Callable[[], Sequence[Endpoint]]
) -> Callable[[], Sequence[Endpoint]]:
    """The configured endpoints and the embedded fleet, whose ports are known once it has started."""
    fixed = options.static_endpoints(settings.pool.endpoints)
    return lambda: [*fixed, *simulated()]


def listenings(settings: Settings, http: HttpServer, admin: AdminServer, tls: SSLContext | None) -> Sequence[Listening]:
    """What is served by sockets of the process."""
    transports = settings.transports
    found = []
    if transports.admin.enabled:
        address = Address(transports.admin.bind, transports.admin.port)
        found.append(Listening(ADMIN, address, admin.connection))
    if transports.http.enabled and not transports.envoy.enabled:
        found.append(Listening(HTTP, Address(transports.http.bind, transports.http.port), http.connection, tls))
    return found


def listeners(sockets: Sockets, wanted: Sequence[Listening], ext_proc: ExtProc, service: object) -> Sequence[Listener]:
    """For all addresses of the generation."""
    return (SocketsListener(sockets, wanted), *ext_proc.listeners(service))


def admin_listener(sockets: Sockets, wanted: Sequence[Listening]) -> Listener:
    """For the admin port alone."""
    return SocketsListener(sockets, [one for one in wanted if one.server == ADMIN], only=False)
