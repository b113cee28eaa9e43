"""What follows from a failure: it is told, the endpoint is looked at, and one that takes no connection is down."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import UnreachableError, UpstreamError, UpstreamTimeoutError
from app.routing.failures import Failures
from app.transports.http.upstream import DroppedError
from pointsman.testing import make_endpoint, make_request
from tests.unit.routing.given import ENDPOINTS, Setup


class Notes:
    """Writes down what is to be done."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.failures = Failures(
            mark_down=lambda endpoint, cause: self.taken.append(("down", endpoint, cause)),
            suspect=lambda endpoint: self.taken.append(("suspect", endpoint)),
            tell=lambda request, failure: self.taken.append(("tell", request, failure)),
        )


REQUEST, ENDPOINT = make_request(), make_endpoint()


def test_an_endpoint_that_takes_no_connection_is_down() -> None:
    notes, failure = Notes(), UnreachableError("a", "refused")
    notes.failures(REQUEST, ENDPOINT, failure)
    assert notes.taken == [("tell", REQUEST, failure), ("down", ENDPOINT, "refused"), ("suspect", ENDPOINT)]


@pytest.mark.parametrize(
    "failure",
    [UpstreamError("a", "reset"), UpstreamTimeoutError("a", "late"), DroppedError("a", "reset", reused=False)],
    ids=["failed", "late", "dropped"],
)
def test_an_endpoint_that_fails_otherwise_is_looked_at(failure: UpstreamError) -> None:
    notes = Notes()
    notes.failures(REQUEST, ENDPOINT, failure)
    assert notes.taken == [("tell", REQUEST, failure), ("suspect", ENDPOINT)]


async def test_a_router_tells_of_the_endpoint_that_failed() -> None:
    setup, notes = Setup(), Notes()
    setup.router.on_failure = notes.failures
    async with setup.router.route(REQUEST) as route:
        route.retry(UnreachableError("a", "refused"))
        route.served_by(ENDPOINTS[2].authority)
        route.broken_off(UpstreamError("c", "broke off"))
    assert [(what, given) for what, given, *_ in notes.taken if what != "tell"] == [
        ("down", ENDPOINTS[0]),
        *(("suspect", endpoint) for endpoint in ENDPOINTS),
    ]
