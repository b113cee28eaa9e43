"""From settings to the plain values that parts take."""

from __future__ import annotations

from functools import partial
from ssl import SSLContext

from app.domain.addresses import UNIX
from app.domain.endpoint import ENGINE_LABEL, Endpoint
from app.fleet.monitor import MonitorOptions
from app.generation import Shutdown
from app.observability.logging import set_up_logging
from app.runtime import RuntimeDirectory
from app.settings.schema import Settings
from app.settings.sections import EndpointSpec, PoolTls
from app.simulation.engine import EngineOptions
from app.simulation.server import ServerOptions
from app.transports.admission import Limits
from app.transports.envoy.config import EnvoyConfig
from app.transports.http.upstream import ConnectionLimits, Timeouts
from app.transports.listening import Address
from app.transports.tls import ClientTls, ServerTls, server_context
from app.transports.tls_contexts import ClientContexts

ANYWHERE = "0.0.0.0"  # noqa: S104 - probes come from outside


# -- read by the process: a change needs a restart


def simulated_servers(settings: Settings) -> tuple[ServerOptions, ...]:
    """The embedded fleet."""
    simulation = settings.simulation
    engine = EngineOptions(
        max_num_seqs=simulation.max_num_seqs,
        num_gpu_blocks=simulation.num_gpu_blocks,
        prefill_tokens_per_second=simulation.prefill_tokens_per_second,
        decode_tokens_per_second=simulation.decode_tokens_per_second,
    )
    return tuple(
        ServerOptions(
            name=f"sim-{number}",
            model=simulation.model,
            adapters=simulation.adapters,
            seed=simulation.seed,
            engine=engine,
        )
        for number in range(simulation.servers)
    )


def envoy_config(settings: Settings) -> EnvoyConfig | None:
    """How an Envoy of our own serves, but for where it calls this process; None without one."""
    http, envoy, tls = settings.transports.http, settings.transports.envoy, settings.pool.tls
    if not envoy.enabled:
        return None
    times, limits = http.timeouts, http.limits
    return EnvoyConfig(
        listen=Address(http.bind, http.port),
        ext_proc=Address("", 0),
        tls=bool(http.tls.cert_file),
        client_ca_file=http.tls.client_ca_file,
        endpoint_tls=ClientTls(tls.ca_file, tls.cert_file, tls.key_file, tls.insecure_skip_verify),
        https=https_addresses(settings.pool.endpoints),
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


def envoy_files(settings: Settings) -> tuple[str, str, str]:
    """Envoy's binary, and the certificate and key that it shows; empty without one."""
    transports = settings.transports
    if not transports.envoy.enabled:
        return "", "", ""
    return transports.envoy.binary, transports.http.tls.cert_file, transports.http.tls.key_file


def https_addresses(endpoints: tuple[EndpointSpec, ...]) -> tuple[str, ...]:
    """IP addresses of the endpoints of `scheme: https`."""
    return tuple(sorted({one.address for one in endpoints if one.enabled and one.scheme == "https"}))


# -- read by one generation


def static_endpoints(specs: tuple[EndpointSpec, ...]) -> tuple[Endpoint, ...]:
    """The configured endpoints that are enabled."""
    return tuple(_endpoint(spec) for spec in specs if spec.enabled)


def _endpoint(spec: EndpointSpec) -> Endpoint:
    labels = spec.labels if spec.engine == "auto" else {ENGINE_LABEL: spec.engine, **spec.labels}
    port = 0 if spec.address.startswith(UNIX) else spec.port
    return Endpoint(spec.name, spec.address, port, labels, spec.metrics_port, spec.scheme == "https")


def monitor_options(settings: Settings) -> MonitorOptions:
    """How the fleet is watched."""
    scrape, models = settings.pool.scrape, settings.pool.models
    return MonitorOptions(interval=scrape.interval, timeout=scrape.timeout, models_interval=models.interval)


def timeouts(settings: Settings) -> Timeouts:
    """Timeouts for endpoints."""
    times = settings.transports.http.timeouts
    return Timeouts(times.connect, times.response, times.idle)


def connection_limits(settings: Settings) -> ConnectionLimits:
    """Connections to endpoints."""
    http = settings.transports.http
    return ConnectionLimits(http.limits.endpoint_connections, http.timeouts.endpoint_keep_alive)


def server_tls(settings: Settings) -> SSLContext | None:
    """The router's own TLS, if it has a certificate. Raises `OSError`."""
    tls = settings.transports.http.tls
    return server_context(ServerTls(tls.cert_file, tls.key_file, tls.client_ca_file)) if tls.cert_file else None


def client_tls(settings: Settings, contexts: ClientContexts) -> SSLContext | None:
    """TLS to endpoints, unless it is the usual one. Raises `OSError`."""
    tls = settings.pool.tls
    if tls == PoolTls() and not any(endpoint.scheme == "https" for endpoint in settings.pool.endpoints):
        return None
    return contexts.of(ClientTls(tls.ca_file, tls.cert_file, tls.key_file, tls.insecure_skip_verify))


def ext_proc_limits(settings: Settings) -> Limits:
    """Bounds on requests from proxies; those of the router if the proxy is an Envoy of our own."""
    transports = settings.transports
    return transports.http.limits if transports.envoy.enabled else transports.ext_proc.limits


def ext_proc_listen(settings: Settings, runtime: RuntimeDirectory) -> Address:
    """Where proxies call; an Envoy of our own does so at a socket that nobody else sees."""
    ext_proc = settings.transports.ext_proc
    if settings.transports.envoy.enabled:
        return envoy_socket(runtime)
    return Address(ext_proc.bind, ext_proc.port)


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


def shutdown(settings: Settings) -> Shutdown:
    """The times of stopping."""
    return Shutdown(settings.shutdown.delay, settings.shutdown.timeout)


def logging_set_up(settings: Settings) -> partial[None]:
    """Sets up logging when it is called."""
    logging = settings.observability.logging
    return partial(set_up_logging, format=logging.format, level=logging.level)


def tls_files(settings: Settings) -> tuple[str, ...]:
    """The files of certificates and keys, which may be renewed in place."""
    http, ext_proc, pool = settings.transports.http.tls, settings.transports.ext_proc.tls, settings.pool.tls
    files = (
        *(http.cert_file, http.key_file, http.client_ca_file),
        *(ext_proc.cert_file, ext_proc.key_file, ext_proc.client_ca_file),
        *(pool.ca_file, pool.cert_file, pool.key_file),
    )
    return tuple(file for file in files if file)
