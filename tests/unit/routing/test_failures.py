"""What follows from a failure: it is logged, the endpoint is checked, and one that accepts no connection is down."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import UnreachableError, UpstreamError, UpstreamTimeoutError
from app.routing.failures import Failures
from app.transports.http.upstream import DroppedError
from pointsman.testing import make_endpoint, make_request
from tests.unit.routing.given import ENDPOINTS, Setup


class Recorded(Failures):
    """Records what is to be done about failures."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        super().__init__(
            mark_down=lambda endpoint, cause: self.done.append(("down", endpoint, cause)),
            suspect=lambda endpoint: self.done.append(("suspect", endpoint)),
            log=lambda request, failure: self.done.append(("log", request, failure)),
        )


REQUEST, ENDPOINT = make_request(), make_endpoint()


def test_an_endpoint_that_accepts_no_connection_is_down() -> None:
    failures, failure = Recorded(), UnreachableError("a", "refused")
    failures(REQUEST, ENDPOINT, failure)
    assert failures.done == [("log", REQUEST, failure), ("down", ENDPOINT, "refused"), ("suspect", ENDPOINT)]


@pytest.mark.parametrize(
    "failure",
    [UpstreamError("a", "reset"), UpstreamTimeoutError("a", "late"), DroppedError("a", "reset", reused=False)],
    ids=["failed", "late", "dropped"],
)
def test_an_endpoint_that_fails_otherwise_is_only_checked(failure: UpstreamError) -> None:
    failures = Recorded()
    failures(REQUEST, ENDPOINT, failure)
    assert failures.done == [("log", REQUEST, failure), ("suspect", ENDPOINT)]


async def test_a_router_reports_each_endpoint_that_failed() -> None:
    setup, failures = Setup(), Recorded()
    setup.router.on_failure = failures
    async with setup.router.route(REQUEST) as route:
        route.retry(UnreachableError("a", "refused"))
        route.served_by(ENDPOINTS[2].authority)
        route.broken_off(UpstreamError("c", "connection reset"))
    assert [(what, endpoint) for what, endpoint, *_ in failures.done if what != "log"] == [
        ("down", ENDPOINTS[0]),
        *(("suspect", endpoint) for endpoint in ENDPOINTS),
    ]
