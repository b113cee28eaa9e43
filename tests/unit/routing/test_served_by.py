"""A proxy that tries another endpoint by itself: the request counts where it is, and each attempt is reported once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.domain.named import Named
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest
from app.routing.router import Route
from app.scheduling.scheduler import Scheduler
from pointsman.testing import make_request
from tests.unit.routing.given import ENDPOINTS, Broken, Setup, respond
from tests.unit.scheduling.given import FakeProfilePicker, make_profile

A, B, C = (endpoint.authority for endpoint in ENDPOINTS)
FAILED, COMPLETED = (Ending.UPSTREAM_FAILED, False), (Ending.COMPLETED, True)


class Given(Setup):
    """A router whose failures are recorded."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.failures: list[tuple[str, UpstreamError]] = []
        self.router.on_failure = self._record

    def _record(self, request: InferenceRequest, endpoint: Endpoint, failure: UpstreamError) -> None:
        assert request.id == "test"
        self.failures.append((endpoint.name, failure))

    async def serve(self, *addresses: str) -> Route:
        """A request that the proxy reports at these addresses, one after the other."""
        async with self.router.route(make_request()) as route:
            for address in addresses:
                route.served_by(address)
            respond(route)
        assert self.in_flight.total == 0
        return route

    @property
    def failed(self) -> list[str]:
        return [name for name, _ in self.failures]

    @property
    def endings(self) -> list[tuple[Ending, bool]]:
        return [(outcome.ending, outcome.final) for outcome in self.diary.outcomes]


@pytest.mark.parametrize(
    ("address", "names", "failed"),
    [
        pytest.param(A, "a", [], id="the first"),
        pytest.param(B, "ab", ["a"], id="the second"),
        pytest.param(C, "abc", ["a", "b"], id="the third"),
        pytest.param("10.9.9.9:80", "a", [], id="unknown"),
        pytest.param("", "a", [], id="empty"),
        pytest.param("b", "a", [], id="a name"),
    ],
)
async def test_endpoints_before_the_one_that_served_have_failed(address: str, names: str, failed: list[str]) -> None:
    setup = Given()
    route = await setup.serve(address)
    *before, last = names
    failures = [entry for name in before for entry in (f"scheduled {name}", f"finished {name}")]
    assert setup.entries == [*failures, f"scheduled {last}", f"first token {last}", f"finished {last}"]
    assert (setup.failed, setup.endings) == (failed, [*[FAILED] * len(before), COMPLETED])
    assert (route.endpoint.name, route.attempts) == (last, len(names))


async def test_the_request_is_in_flight_where_the_proxy_sent_it() -> None:
    setup, seen = Given(), []
    async with setup.router.route(make_request()) as route:
        for address in (A, B, B, C):
            route.served_by(address)
            seen.append(setup.counts)
    assert seen == [{"a": 1}, {"b": 1}, {"b": 1}, {"c": 1}]


async def test_the_proxy_may_report_again() -> None:
    setup = Given()
    await setup.serve(B, B, C)
    assert setup.endings == [FAILED, FAILED, COMPLETED]


async def test_the_rest_of_the_list_stays() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        route.served_by(B)
        assert route.decision.endpoints == ENDPOINTS[1:]
        assert route.decision.results[route.decision.primary].scored.candidates.names == ("a", "b", "c")


async def test_an_endpoint_outside_the_list_may_have_served() -> None:
    setup = Given(profile=make_profile(picker=lambda scored: scored.candidates[:2]))
    await setup.serve(C)
    assert setup.entries == ["scheduled a", "finished a", "scheduled c", "first token c", "finished c"]
    assert setup.failed == ["a"]


async def test_an_endpoint_outside_the_list_replaces_the_whole_list() -> None:
    setup = Given(profile=make_profile(picker=lambda scored: scored.candidates[1:]))
    route = await setup.serve(A)
    assert (setup.failed, route.decision.endpoints) == (["b"], ENDPOINTS[:1])


async def test_an_endpoint_on_the_list_may_have_left_the_pool() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        setup.pool.replace_all(ENDPOINTS[:1])
        route.served_by(B)
        assert route.endpoint.name == "b"
    assert setup.in_flight.total == 0


async def test_an_endpoint_outside_the_list_that_is_down_is_unknown() -> None:
    setup = Given(profile=make_profile(picker=lambda scored: scored.candidates[:1]))
    setup.pool.mark_down(ENDPOINTS[2], "gone")
    await setup.serve(C)
    assert setup.failed == []


async def test_the_failure_says_that_the_proxy_tried_another_endpoint() -> None:
    setup = Given()
    await setup.serve(B)
    ((name, failure),) = setup.failures
    assert (name, failure.endpoint, failure.cause) == ("a", "a", "the proxy tried another endpoint")
    assert type(failure) is UpstreamError


async def test_observers_that_raise_leave_nothing_in_flight() -> None:
    setup = Given(observers=[Broken()])
    await setup.serve(C)
    assert [fault.extension_point for fault in setup.faults].count("OnFinished") == 3


async def test_all_attempts_have_the_same_arrival() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        setup.clock.advance(2)
        route.served_by(B)
        respond(route)
        setup.clock.advance(3)
    assert [(outcome.duration, outcome.first_token) for outcome in setup.diary.outcomes] == [(2, None), (5, 2)]


async def test_a_plugin_fault_is_reported_once() -> None:
    setup = Given(profile=make_profile(scorers=[LookupError("oh")]))
    await setup.serve(C)
    assert [fault.plugin for fault in setup.faults] == ["scorer-0"]


# -- failures


async def test_a_failure_after_the_response_began_ends_the_request() -> None:
    setup, failure = Given(), UpstreamError("a", "connection reset")
    async with setup.router.route(make_request()) as route:
        respond(route)
        route.broken_off(failure)
    assert setup.failures == [("a", failure)]
    assert setup.endings == [(Ending.UPSTREAM_FAILED, True)]


async def test_a_failure_that_is_also_raised_is_a_refusal() -> None:
    setup, failure = Given(), UpstreamError("a", "reset")
    with suppress(UpstreamError):
        async with setup.router.route(make_request()) as route:
            route.broken_off(failure)
            raise failure
    assert (setup.failures, setup.endings) == ([("a", failure)], [FAILED])
    assert setup.diary.refusals == [failure]


async def test_each_failure_before_a_retry_is_reported() -> None:
    setup = Given()
    failures = [UnreachableError("a", "refused"), UpstreamError("b", "reset")]
    async with setup.router.route(make_request()) as route:
        for failure in failures:
            route.retry(failure)
    assert setup.failures == list(zip("ab", failures, strict=True))


async def test_the_last_failure_is_reported_too() -> None:
    setup, failure = Given(retries=0), UpstreamError("a", "reset")
    with pytest.raises(UpstreamError):
        async with setup.router.route(make_request()) as route:
            route.retry(failure)
    assert setup.failures == [("a", failure)]


async def test_failures_need_not_be_reported_to_anything() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.served_by(B)
        route.broken_off(UpstreamError("b", "reset"))
    assert setup.entries[-1] == "finished b"


# -- several profiles


async def test_the_results_of_other_profiles_stay() -> None:
    setup = Given()
    profiles = {name: make_profile(name) for name in ("other", "default")}
    scheduler = Scheduler(Named("handler", FakeProfilePicker(["other", "default"])), profiles)
    setup.router.pipeline = replace(setup.router.pipeline, scheduler=scheduler)
    async with setup.router.route(make_request()) as route:
        before = route.decision.results["other"]
        route.served_by(B)
        assert (list(route.decision.results), route.endpoint) == (["other", "default"], ENDPOINTS[1])
        assert route.decision.results["other"] is before
    assert setup.in_flight.total == 0
