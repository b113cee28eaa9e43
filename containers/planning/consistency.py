"""Values that are right each, and wrong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.domain.addresses import UNIX, parse_authority
from app.settings.sections import EndpointSpec
from app.settings.tree import exists
from app.transports.envoy.binary import find_binary
from containers import options
from containers.planning.draft import Draft


def check_consistency(draft: Draft) -> None:
    """Tells what would never work as it is set."""
    _metrics_live_longer_than_the_interval(draft)
    _ports_differ(draft)
    _simulated_servers_have_names_of_their_own(draft)
    _certificates_can_be_used(draft)
    _proxies_can_be_told_of_endpoints(draft)
    _envoy_can_serve(draft)


def _metrics_live_longer_than_the_interval(draft: Draft) -> None:
    scrape = draft.settings.pool.scrape
    if scrape.stale_after <= scrape.interval:
        draft.faults.error(
            draft.configuration.origin("pool", "scrape", "staleAfter"),
            f"metrics read every {scrape.interval:g} s would be stale after {scrape.stale_after:g} s",
            "make staleAfter longer than the interval",
        )


def _ports_differ(draft: Draft) -> None:
    taken: dict[int, _Port] = {}
    for port in _ports(draft):
        other = taken.setdefault(port.number, port)
        if other is port or port.number == 0:
            continue
        written = [path for path in (port.path, other.path) if exists(draft.configuration.tree, path)]
        draft.faults.error(
            draft.configuration.origin(*(written or [port.path])[0]),
            f"{other.of} and {port.of} both listen on port {port.number}",
        )


class _Port(NamedTuple):
    number: int
    of: str
    path: tuple[str, ...]


def _ports(draft: Draft) -> Iterator[_Port]:
    """The ports that are listened on."""
    transports = draft.settings.transports
    if transports.http.enabled and not transports.http.bind.startswith(UNIX):
        yield _Port(transports.http.port, "the router", ("transports", "http", "port"))
    if transports.ext_proc.enabled:
        if not transports.ext_proc.bind.startswith(UNIX):
            yield _Port(transports.ext_proc.port, "the endpoint picker", ("transports", "extProc", "port"))
        yield _Port(transports.ext_proc.health_port, "its health service", ("transports", "extProc", "healthPort"))
    if transports.admin.enabled:
        yield _Port(transports.admin.port, "the admin pages", ("transports", "admin", "port"))


def _proxies_can_be_told_of_endpoints(draft: Draft) -> None:
    """Envoy takes no host names, and no Unix sockets, for a destination."""
    transports = draft.settings.transports
    if not (transports.ext_proc.enabled or transports.envoy.enabled):
        return
    alone = transports.envoy.enabled or not transports.http.enabled
    tell = draft.faults.error if alone else draft.faults.warn
    for index, endpoint in enumerate(draft.settings.pool.endpoints):
        if endpoint.enabled and parse_authority(_authority(endpoint)) is None:
            tell(
                draft.configuration.origin("pool", "endpoints", index, "address"),
                f"a proxy can't be told to go to {endpoint.address!r}, which is no IP address",
                "write its IP address, such as 127.0.0.1 for localhost",
            )


def _authority(endpoint: EndpointSpec) -> str:
    host = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"{host}:{endpoint.port}"


def _envoy_can_serve(draft: Draft) -> None:
    transports = draft.settings.transports
    if not transports.envoy.enabled:
        return
    origin = draft.configuration.origin("transports", "envoy", "enabled")
    if transports.ext_proc.enabled:
        draft.faults.error(
            origin,
            "transports.envoy and transports.extProc are both enabled",
            "an Envoy of our own needs no port of extProc; enable one of the two",
        )
    if not transports.http.enabled:
        draft.faults.error(
            origin,
            "transports.envoy serves in the place of transports.http, which is not enabled",
            "enable transports.http, whose address it takes",
        )
    bind = transports.http.bind
    if not bind.startswith(UNIX) and parse_authority(f"[{bind}]:1" if ":" in bind else f"{bind}:1") is None:
        draft.faults.error(
            draft.configuration.origin("transports", "http", "bind"),
            f"Envoy can't listen on {bind!r}, which is no IP address",
            "write 127.0.0.1 for localhost, 0.0.0.0 for every address of this machine",
        )
    if transports.http.limits.endpoint_connections:
        draft.faults.warn(
            draft.configuration.origin("transports", "http", "limits", "endpointConnections"),
            "endpointConnections has no effect with transports.envoy",
        )
    try:
        find_binary(transports.envoy.binary)
    except OSError as error:
        draft.faults.error(draft.configuration.origin("transports", "envoy", "binary"), str(error))


def _simulated_servers_have_names_of_their_own(draft: Draft) -> None:
    simulated = {f"sim-{number}" for number in range(draft.settings.simulation.servers)}
    for index, endpoint in enumerate(draft.settings.pool.endpoints):
        if endpoint.name in simulated:
            draft.faults.error(
                draft.configuration.origin("pool", "endpoints", index, "name"),
                f"{endpoint.name!r} is the name of a simulated server",
                "choose another name",
            )


def _certificates_can_be_used(draft: Draft) -> None:
    uses = (
        (("transports", "http", "tls"), options.server_tls),
        (("transports", "extProc", "tls"), options.ext_proc_tls),
        (("pool", "tls"), options.client_tls),
    )
    for path, use in uses:
        try:
            use(draft.settings)
        except OSError as error:
            draft.faults.error(
                draft.configuration.origin(*path),
                error.strerror or str(error),
                "name PEM files that this process may read",
            )
