"""From settings to the options that parts take, and where a configuration listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from ssl import SSLContext
from typing import Any, TypeVar

from app.domain.addresses import UNIX
from app.domain.endpoint import Endpoint
from app.generation import Listener
from app.observability.logging import set_up_logging
from app.runtime import RuntimeDirectory
from app.settings.schema import Settings
from app.settings.sections import PoolTls
from app.simulation.engine import EngineOptions
from app.simulation.server import ServerOptions
from app.transports.admission import Limits
from app.transports.envoy.config import EnvoyConfig
from app.transports.ext_proc.lazy import ExtProc
from app.transports.listening import ADMIN, HTTP, Address, Listening, Sockets, SocketsListener
from app.transports.tls import ClientTls, ServerTls, server_context
from app.transports.tls_contexts import ClientContexts

T = TypeVar("T")

ANYWHERE = "0.0.0.0"  # noqa: S104 - probes come from outside


def filled(cls: type[T], *sections: object, **given: object) -> T:
    """A dataclass of options, with the values of the settings of the same names; the first section with one wins.

    So a new option is a field in its section, and a field where it is used.
    """
    names = [field.name for field in fields(cls) if field.name not in given]  # type: ignore[arg-type]
    holders = {name: next((one for one in sections if hasattr(one, name)), None) for name in names}
    found = {name: getattr(holder, name) for name, holder in holders.items() if holder is not None}
    return cls(**found, **given)


# -- read by the process: a change needs a restart


def simulated_servers(settings: Settings) -> tuple[ServerOptions, ...]:
    """The embedded fleet."""
    simulation = settings.simulation
    engine = filled(EngineOptions, simulation)
    return tuple(
        filled(ServerOptions, simulation, name=f"sim-{number}", engine=engine) for number in range(simulation.servers)
    )


def envoy_config(settings: Settings) -> EnvoyConfig | None:
    """How an Envoy of our own serves, but for where it calls this process; None without one."""
    http, envoy = settings.transports.http, settings.transports.envoy
    if not envoy.enabled:
        return None
    https = {one.address for one in settings.pool.endpoints if one.enabled and one.scheme == "https"}
    return filled(
        EnvoyConfig,
        *(http.limits, http.timeouts, envoy, http),
        listen=Address(http.bind, http.port),
        ext_proc=Address("", 0),
        tls=bool(http.tls.cert_file),
        client_ca_file=http.tls.client_ca_file,
        endpoint_tls=filled(ClientTls, settings.pool.tls),
        https=tuple(sorted(https)),
    )


def envoy_files(settings: Settings) -> tuple[str, str, str]:
    """Envoy's binary, and the certificate and key that it shows; empty without one."""
    transports = settings.transports
    if not transports.envoy.enabled:
        return "", "", ""
    return transports.envoy.binary, transports.http.tls.cert_file, transports.http.tls.key_file


# -- read by one generation


def static_endpoints(
    settings: Settings, simulated: Callable[[], Sequence[Endpoint]]
) -> Callable[[], Sequence[Endpoint]]:
    """The configured endpoints and the embedded fleet, whose ports are known once it has started."""
    fixed = settings.pool.static_endpoints
    return lambda: [*fixed, *simulated()]


def client_tls(settings: Settings, contexts: ClientContexts) -> SSLContext | None:
    """TLS to endpoints, unless it is the usual one. Raises `OSError`."""
    tls = settings.pool.tls
    if tls == PoolTls() and not any(endpoint.scheme == "https" for endpoint in settings.pool.endpoints):
        return None
    return contexts.of(filled(ClientTls, tls))


def listenings(settings: Settings, http: Any, admin: Any) -> Sequence[Listening]:
    """What is served by sockets of the process. Raises `OSError` for certificates that can't be read."""
    transports, tls = settings.transports, settings.transports.http.tls
    found = []
    if transports.admin.enabled:
        found.append(Listening(ADMIN, Address(transports.admin.bind, transports.admin.port), admin.connection))
    if transports.http.enabled and not transports.envoy.enabled:
        context = server_context(filled(ServerTls, tls)) if tls.cert_file else None
        address = Address(transports.http.bind, transports.http.port)
        found.append(Listening(HTTP, address, http.connection, context))
    return found


def listeners(sockets: Sockets, wanted: Sequence[Listening], ext_proc: ExtProc, service: object) -> Sequence[Listener]:
    """For all addresses of the generation."""
    return (SocketsListener(sockets, wanted), *ext_proc.listeners(service))


def admin_listener(sockets: Sockets, wanted: Sequence[Listening]) -> Listener:
    """For the admin port alone."""
    return SocketsListener(sockets, [one for one in wanted if one.server == ADMIN], only=False)


def ext_proc_limits(settings: Settings) -> Limits:
    """Bounds on requests from proxies; those of the router if the proxy is an Envoy of our own."""
    transports = settings.transports
    return transports.http.limits if transports.envoy.enabled else transports.ext_proc.limits


def ext_proc_listen(settings: Settings, runtime: RuntimeDirectory) -> Address:
    """Where proxies call; an Envoy of our own does so at a socket that nobody else sees."""
    ext_proc = settings.transports.ext_proc
    return envoy_socket(runtime) if settings.transports.envoy.enabled else Address(ext_proc.bind, ext_proc.port)


def envoy_socket(runtime: RuntimeDirectory) -> Address:
    """Where an Envoy of our own calls."""
    return Address(f"{UNIX}{runtime.path / 'ext_proc.sock'}", 0)


def health_listen(settings: Settings) -> Address | None:
    """Where gRPC health is served; nowhere with an Envoy of our own."""
    ext_proc = settings.transports.ext_proc
    if settings.transports.envoy.enabled:
        return None
    return Address(ANYWHERE if ext_proc.bind.startswith(UNIX) else ext_proc.bind, ext_proc.health_port)


def ext_proc_speaks_tls(settings: Settings) -> bool:
    """Whether proxies connect with TLS."""
    ext_proc = settings.transports.ext_proc
    if settings.transports.envoy.enabled or not ext_proc.tls.enabled:
        return False
    return bool(ext_proc.tls.cert_file) or not ext_proc.bind.startswith(UNIX)


def logging_set_up(settings: Settings) -> partial[None]:
    """Sets up logging when it is called."""
    logging = settings.observability.logging
    return partial(set_up_logging, format=logging.format, level=logging.level)
