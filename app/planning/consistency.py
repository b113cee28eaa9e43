"""Values that are right each, and wrong together."""

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
    """Tells what would never work as it is set."""
    _metrics_live_longer_than_the_interval(builder)
    _ports_differ(builder)
    _simulated_servers_have_names_of_their_own(builder)
    _certificates_can_be_used(builder)
    _proxies_can_be_told_of_endpoints(builder)
    _envoy_can_serve(builder)


def _metrics_live_longer_than_the_interval(builder: PlanBuilder) -> None:
    scrape = builder.settings.pool.scrape
    if scrape.stale_after <= scrape.interval:
        builder.faults.error(
            builder.configuration.origin("pool", "scrape", "staleAfter"),
            f"metrics read every {scrape.interval:g} s would be stale after {scrape.stale_after:g} s",
            "make staleAfter longer than the interval",
        )


def _ports_differ(builder: PlanBuilder) -> None:
    taken: dict[int, _Port] = {}
    for port in _ports(builder):
        other = taken.setdefault(port.number, port)
        if other is port or port.number == 0:
            continue
        written = [path for path in (port.path, other.path) if exists(builder.configuration.tree, path)]
        builder.faults.error(
            builder.configuration.origin(*(written or [port.path])[0]),
            f"{other.of} and {port.of} both listen on port {port.number}",
        )


class _Port(NamedTuple):
    number: int
    of: str
    path: tuple[str, ...]


def _ports(builder: PlanBuilder) -> Iterator[_Port]:
    """The ports that are listened on."""
    transports = builder.settings.transports
    if transports.http.enabled and not transports.http.bind.startswith(UNIX):
        yield _Port(transports.http.port, "the router", ("transports", "http", "port"))
    if transports.ext_proc.enabled:
        if not transports.ext_proc.bind.startswith(UNIX):
            yield _Port(transports.ext_proc.port, "the endpoint picker", ("transports", "extProc", "port"))
        yield _Port(transports.ext_proc.health_port, "its health service", ("transports", "extProc", "healthPort"))
    if transports.admin.enabled:
        yield _Port(transports.admin.port, "the admin pages", ("transports", "admin", "port"))


def _proxies_can_be_told_of_endpoints(builder: PlanBuilder) -> None:
    """Envoy takes no host names, and no Unix sockets, for a destination."""
    transports = builder.settings.transports
    if not (transports.ext_proc.enabled or transports.envoy.enabled):
        return
    alone = transports.envoy.enabled or not transports.http.enabled
    tell = builder.faults.error if alone else builder.faults.warn
    for index, endpoint in enumerate(builder.settings.pool.endpoints):
        if endpoint.enabled and parse_authority(_authority(endpoint)) is None:
            tell(
                builder.configuration.origin("pool", "endpoints", index, "address"),
                f"a proxy can't be told to go to {endpoint.address!r}, which is no IP address",
                "write its IP address, such as 127.0.0.1 for localhost",
            )


def _authority(endpoint: EndpointSpec) -> str:
    host = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"{host}:{endpoint.port}"


def _envoy_can_serve(builder: PlanBuilder) -> None:
    transports = builder.settings.transports
    if not transports.envoy.enabled:
        return
    origin = builder.configuration.origin("transports", "envoy", "enabled")
    if transports.ext_proc.enabled:
        builder.faults.error(
            origin,
            "transports.envoy and transports.extProc are both enabled",
            "an Envoy of our own needs no port of extProc; enable one of the two",
        )
    if not transports.http.enabled:
        builder.faults.error(
            origin,
            "transports.envoy serves in the place of transports.http, which is not enabled",
            "enable transports.http, whose address it takes",
        )
    bind = transports.http.bind
    if not bind.startswith(UNIX) and parse_authority(f"[{bind}]:1" if ":" in bind else f"{bind}:1") is None:
        builder.faults.error(
            builder.configuration.origin("transports", "http", "bind"),
            f"Envoy can't listen on {bind!r}, which is no IP address",
            "write 127.0.0.1 for localhost, 0.0.0.0 for every address of this machine",
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


def _simulated_servers_have_names_of_their_own(builder: PlanBuilder) -> None:
    simulated = {f"sim-{number}" for number in range(builder.settings.simulation.servers)}
    for index, endpoint in enumerate(builder.settings.pool.endpoints):
        if endpoint.name in simulated:
            builder.faults.error(
                builder.configuration.origin("pool", "endpoints", index, "name"),
                f"{endpoint.name!r} is the name of a simulated server",
                "choose another name",
            )


def _certificates_can_be_used(builder: PlanBuilder) -> None:
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
                "name PEM files that this process may read",
            )


def _load_server(tls: HttpTls) -> None:
    if tls.cert_file:
        server_context(ServerTls(tls.cert_file, tls.key_file, tls.client_ca_file))


def _load_client(pool: PoolSettings) -> None:
    tls = pool.tls
    if tls != PoolTls() or any(endpoint.scheme == "https" for endpoint in pool.endpoints):
        client_context(ClientTls(tls.ca_file, tls.cert_file, tls.key_file, tls.insecure_skip_verify))
