"""From settings to the plain options that each part takes."""

from __future__ import annotations

from ssl import SSLContext

from app.domain.addresses import UNIX
from app.fleet.monitor import MonitorOptions
from app.runtime import RuntimeDirectory
from app.settings.schema import Settings
from app.settings.sections import PoolTls
from app.settings.transports import HttpTls
from app.transports.admin.server import AdminListen
from app.transports.admission import Limits
from app.transports.envoy.config import EnvoyConfig
from app.transports.http.limits import HttpLimits
from app.transports.http.upstream import ConnectionLimits, Timeouts
from app.transports.listening import Address
from app.transports.tls import ClientTls, ServerTls, client_context, server_context

ANYWHERE = "0.0.0.0"  # noqa: S104 - probes come from outside


def monitor_options(settings: Settings) -> MonitorOptions:
    """How the fleet is watched."""
    scrape, models = settings.pool.scrape, settings.pool.models
    return MonitorOptions(interval=scrape.interval, timeout=scrape.timeout, models_interval=models.interval)


def limits(settings: Settings) -> HttpLimits:
    """What clients may send."""
    http = settings.transports.http
    return HttpLimits(
        body_bytes=http.limits.body_bytes,
        header_bytes=http.limits.header_bytes,
        in_flight=http.limits.in_flight,
        header_timeout=http.timeouts.header,
        body_timeout=http.timeouts.body,
        keep_alive=http.timeouts.keep_alive,
        stall=http.timeouts.idle,
    )


def patience(settings: Settings) -> Timeouts:
    """How long is waited for endpoints."""
    times = settings.transports.http.timeouts
    return Timeouts(times.connect, times.response, times.idle)


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Connections to endpoints."""
    http = settings.transports.http
    return ConnectionLimits(http.limits.endpoint_connections, http.timeouts.endpoint_keep_alive)


def server_tls(settings: Settings) -> SSLContext | None:
    """The router's own TLS, if it has a certificate. Raises `OSError`."""
    return _server_context(settings.transports.http.tls)


def ext_proc_tls(settings: Settings) -> SSLContext | None:
    """The same for the endpoint picker, to see whether its files can be used. Raises `OSError`."""
    return _server_context(settings.transports.ext_proc.tls)


def _server_context(tls: HttpTls) -> SSLContext | None:
    if not tls.cert_file:
        return None
    return server_context(ServerTls(tls.cert_file, tls.key_file, tls.client_ca_file))


def client_tls(settings: Settings) -> SSLContext | None:
    """TLS to endpoints, if that is anything but the usual. Raises `OSError`."""
    tls = settings.pool.tls
    if tls == PoolTls() and not any(endpoint.scheme == "https" for endpoint in settings.pool.endpoints):
        return None
    return client_context(_client_tls_files(settings))


def http_listen(settings: Settings) -> Address:
    """Where the router listens."""
    http = settings.transports.http
    return Address(http.bind, http.port)


def ext_proc_limits(settings: Settings) -> Limits:
    """What may come by a proxy."""
    transports = settings.transports
    limits = transports.http.limits if transports.envoy.enabled else transports.ext_proc.limits
    return Limits(limits.body_bytes, limits.in_flight)


def ext_proc_listen(settings: Settings, runtime: RuntimeDirectory) -> Address:
    """Where proxies call; the Envoy of our own does so at a socket that nobody else sees."""
    ext_proc = settings.transports.ext_proc
    if settings.transports.envoy.enabled:
        return Address(f"{UNIX}{runtime.path / 'ext_proc.sock'}", 0)
    return Address(ext_proc.bind, ext_proc.port)


def health_listen(settings: Settings) -> Address | None:
    """Where gRPC health is asked for; with an Envoy of our own nobody asks."""
    ext_proc = settings.transports.ext_proc
    if settings.transports.envoy.enabled:
        return None
    return Address(ANYWHERE if ext_proc.bind.startswith(UNIX) else ext_proc.bind, ext_proc.health_port)


def ext_proc_speaks_tls(settings: Settings) -> bool:
    """Whether proxies are spoken to by TLS."""
    ext_proc = settings.transports.ext_proc
    if settings.transports.envoy.enabled or not ext_proc.tls.enabled:
        return False
    return bool(ext_proc.tls.cert_file) or not ext_proc.bind.startswith(UNIX)


def envoy_behaviour(settings: Settings, ext_proc: Address) -> EnvoyConfig:
    """How an Envoy of our own serves: as the standalone router would."""
    http, envoy = settings.transports.http, settings.transports.envoy
    times, limits = http.timeouts, http.limits
    return EnvoyConfig(
        listen=http_listen(settings),
        ext_proc=ext_proc,
        tls=bool(http.tls.cert_file),
        client_ca_file=http.tls.client_ca_file,
        endpoint_tls=_client_tls_files(settings),
        https=https_addresses(settings),
        body_bytes=limits.body_bytes,
        header_bytes=limits.header_bytes,
        retries=http.retries,
        connect=times.connect,
        response=times.response,
        idle=times.idle,
        header=times.header,
        body=times.body,
        keep_alive=times.keep_alive,
        endpoint_keep_alive=times.endpoint_keep_alive,
        concurrency=envoy.concurrency,
        log_level=envoy.log_level,
    )


def https_addresses(settings: Settings) -> tuple[str, ...]:
    """Addresses of the endpoints of `scheme: https`."""
    endpoints = settings.pool.endpoints
    addresses = {endpoint.address for endpoint in endpoints if endpoint.enabled and endpoint.scheme == "https"}
    return tuple(sorted(addresses))


def _client_tls_files(settings: Settings) -> ClientTls:
    tls = settings.pool.tls
    return ClientTls(tls.ca_file, tls.cert_file, tls.key_file, tls.insecure_skip_verify)


def admin_listen(settings: Settings) -> AdminListen:
    """Where the admin pages listen."""
    admin = settings.transports.admin
    return AdminListen(admin.bind, admin.port, admin.allow_from)
