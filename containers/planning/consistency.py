"""Values that are right each, and wrong together."""

from __future__ import annotations

from app.settings.tree import exists
from containers import options
from containers.planning.draft import Draft


def check_consistency(draft: Draft) -> None:
    """Tells what would never work as it is set."""
    _metrics_live_longer_than_the_interval(draft)
    _ports_differ(draft)
    _simulated_servers_have_names_of_their_own(draft)
    _certificates_can_be_used(draft)


def _metrics_live_longer_than_the_interval(draft: Draft) -> None:
    scrape = draft.settings.pool.scrape
    if scrape.stale_after <= scrape.interval:
        draft.faults.error(
            draft.configuration.origin("pool", "scrape", "staleAfter"),
            f"metrics read every {scrape.interval:g} s would be stale after {scrape.stale_after:g} s",
            "make staleAfter longer than the interval",
        )


def _ports_differ(draft: Draft) -> None:
    http, admin = draft.settings.transports.http, draft.settings.transports.admin
    if http.enabled and admin.enabled and http.port == admin.port != 0:
        written = [kind for kind in ("admin", "http") if exists(draft.configuration.tree, ("transports", kind, "port"))]
        draft.faults.error(
            draft.configuration.origin("transports", *written[:1], "port"),
            f"the router and the admin pages both listen on port {admin.port}",
        )


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
    for path, use in ((("transports", "http", "tls"), options.server_tls), (("pool", "tls"), options.client_tls)):
        try:
            use(draft.settings)
        except OSError as error:
            draft.faults.error(
                draft.configuration.origin(*path),
                error.strerror or str(error),
                "name PEM files that this process may read",
            )
