"""Checks settings against each other, and against the files and programs that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from app.domain.addresses import UNIX, parse_authority
from app.planning.builder import PlanBuilder
from app.settings.sections import EndpointSpec, PoolSettings, PoolTls
from app.settings.transports import HttpTls
from app.settings.tree import exists
from app.transports.envoy.binary import find_binary
from app.transports.tls import ClientTls, ServerTls, client_context, server_context


def check_consistency(builder: PlanBuilder) -> None:
    """Reports settings that can't work together or on this machine."""
    _check_staleness(builder)
    _check_ports(builder)
    _check_simulated_names(builder)
    _check_certificates(builder)
    _check_endpoint_addresses(builder)
    _check_envoy(builder)


def _check_staleness(builder: PlanBuilder) -> None:
    scrape = builder.settings.pool.scrape
    if scrape.stale_after <= scrape.interval:
        builder.faults.error(
            builder.configuration.origin("pool", "scrape", "staleAfter"),
            f"metrics read every {scrape.interval:g} s would be stale after {scrape.stale_after:g} s",
            "make staleAfter longer than the interval",
        )


def _check_ports(builder: PlanBuilder) -> None:
    seen: dict[int, _Port] = {}
    for port in _ports(builder):
        other = seen.setdefault(port.number, port)
        if other is port or port.number == 0:
            continue
        configured = [path for path in (port.path, other.path) if exists(builder.configuration.tree, path)]
        builder.faults.error(
            builder.configuration.origin(*(configured or [port.path])[0]),
            f"{other.owner} and {port.owner} both listen on port {port.number}",
        )


class _Port(NamedTuple):
    number: int
    owner: str
    path: tuple[str, ...]


def _ports(builder: PlanBuilder) -> Iterator[_Port]:
    """The ports that the configuration listens on."""
    transports = builder.settings.transports
    if transports.http.enabled and not transports.http.bind.startswith(UNIX):
        yield _Port(transports.http.port, "the router", ("transports", "http", "port"))
    if transports.ext_proc.enabled:
        if not transports.ext_proc.bind.startswith(UNIX):
            yield _Port(transports.ext_proc.port, "the endpoint picker", ("transports", "extProc", "port"))
        yield _Port(transports.ext_proc.health_port, "its health service", ("transports", "extProc", "healthPort"))
    if transports.admin.enabled:
        yield _Port(transports.admin.port, "the admin server", ("transports", "admin", "port"))


def _check_endpoint_addresses(builder: PlanBuilder) -> None:
    """Envoy takes neither host names nor Unix sockets as destinations."""
    transports = builder.settings.transports
    if not (transports.ext_proc.enabled or transports.envoy.enabled):
        return
    alone = transports.envoy.enabled or not transports.http.enabled
    report = builder.faults.error if alone else builder.faults.warn
    for index, endpoint in enumerate(builder.settings.pool.endpoints):
        if endpoint.enabled and parse_authority(_authority(endpoint)) is None:
            report(
                builder.configuration.origin("pool", "endpoints", index, "address"),
                f"a proxy can't route to {endpoint.address!r}, which is not an IP address",
                "use the IP address, such as 127.0.0.1 for localhost",
            )


def _authority(endpoint: EndpointSpec) -> str:
    host = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"{host}:{endpoint.port}"


def _check_envoy(builder: PlanBuilder) -> None:
    transports = builder.settings.transports
    if not transports.envoy.enabled:
        return
    origin = builder.configuration.origin("transports", "envoy", "enabled")
    if transports.ext_proc.enabled:
        builder.faults.error(
            origin,
            "transports.envoy and transports.extProc are both enabled",
            "the Envoy that Pointsman starts does not need extProc; enable only one of the two",
        )
    if not transports.http.enabled:
        builder.faults.error(
            origin,
            "transports.envoy listens at the address of transports.http, which is not enabled",
            "enable transports.http",
        )
    bind = transports.http.bind
    if not bind.startswith(UNIX) and parse_authority(f"[{bind}]:1" if ":" in bind else f"{bind}:1") is None:
        builder.faults.error(
            builder.configuration.origin("transports", "http", "bind"),
            f"Envoy can't listen on {bind!r}, which is not an IP address",
            "use 127.0.0.1 for localhost, 0.0.0.0 for all addresses of this machine",
        )
    if transports.http.limits.endpoint_connections:
        builder.faults.warn(
            builder.configuration.origin("transports", "http", "limits", "endpointConnections"),
            "endpointConnections has no effect with transports.envoy",
        )
    try:
        find_binary(transports.envoy.binary)
    except OSError as error:
        builder.faults.error(builder.configuration.origin("transports", "envoy", "binary"), str(error))


def _check_simulated_names(builder: PlanBuilder) -> None:
    simulated = {f"sim-{number}" for number in range(builder.settings.simulation.servers)}
    for index, endpoint in enumerate(builder.settings.pool.endpoints):
        if endpoint.name in simulated:
            builder.faults.error(
                builder.configuration.origin("pool", "endpoints", index, "name"),
                f"{endpoint.name!r} is the name of a simulated server",
                "choose another name",
            )


def _check_certificates(builder: PlanBuilder) -> None:
    transports = builder.settings.transports
    uses: tuple[tuple[tuple[str, ...], Callable[[], object]], ...] = (
        (("transports", "http", "tls"), lambda: _load_server(transports.http.tls)),
        (("transports", "extProc", "tls"), lambda: _load_server(transports.ext_proc.tls)),
        (("pool", "tls"), lambda: _load_client(builder.settings.pool)),
    )
    for path, load in uses:
        try:
            load()
        except OSError as error:
            builder.faults.error(
                builder.configuration.origin(*path),
                error.strerror or str(error),
                "expected PEM files that this process can read",
            )


def _load_server(tls: HttpTls) -> None:
    if tls.cert_file:
        server_context(ServerTls(tls.cert_file, tls.key_file, tls.client_ca_file))


def _load_client(pool: PoolSettings) -> None:
    tls = pool.tls
    if tls != PoolTls() or any(endpoint.scheme == "https" for endpoint in pool.endpoints):
        client_context(ClientTls(tls.ca_file, tls.cert_file, tls.key_file, tls.insecure_skip_verify))
