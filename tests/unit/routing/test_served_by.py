"""A request that a proxy went on with by itself: counted where it is, and each endpoint's end told once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest
from app.domain.usage import Usage
from app.routing.router import Route
from pointsman.testing import make_request
from tests.unit.routing.given import ENDPOINTS, Broken, Setup
from tests.unit.scheduling.given import make_profile

A, B, C = (endpoint.authority for endpoint in ENDPOINTS)
FAILED, COMPLETED = (Ending.UPSTREAM_FAILED, False), (Ending.COMPLETED, True)


class Given(Setup):
    """A router that writes down the failures that it is told of."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.failures: list[tuple[str, UpstreamError]] = []
        self.router.on_failure = self._note

    def _note(self, request: InferenceRequest, endpoint: Endpoint, failure: UpstreamError) -> None:
        assert request.id == "test"
        self.failures.append((endpoint.name, failure))

    async def serve(self, *addresses: str) -> Route:
        """A request that is said to be served at these addresses, one after the other."""
        async with self.router.route(make_request()) as route:
            for address in addresses:
                route.served_by(address)
            route.first_byte(200)
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
        pytest.param("10.9.9.9:80", "a", [], id="nobody"),
        pytest.param("", "a", [], id="nothing"),
        pytest.param("b", "a", [], id="a name"),
    ],
)
async def test_a_request_goes_down_the_list_to_who_served_it(address: str, names: str, failed: list[str]) -> None:
    setup = Given()
    route = await setup.serve(address)
    *before, last = names
    told = [entry for name in before for entry in (f"scheduled {name}", f"finished {name}")]
    assert setup.entries == [*told, f"scheduled {last}", f"first byte {last}", f"finished {last}"]
    assert (setup.failed, setup.endings) == (failed, [*[FAILED] * len(before), COMPLETED])
    assert (route.endpoint.name, route.attempts) == (last, len(names))


async def test_it_is_in_flight_where_it_is() -> None:
    setup, seen = Given(), []
    async with setup.router.route(make_request()) as route:
        for address in (A, B, B, C):
            route.served_by(address)
            seen.append(setup.counts)
    assert seen == [{"a": 1}, {"b": 1}, {"b": 1}, {"c": 1}]


async def test_it_may_be_told_again_and_again() -> None:
    setup = Given()
    await setup.serve(B, B, C)
    assert setup.endings == [FAILED, FAILED, COMPLETED]


async def test_what_is_left_of_the_list_stays() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        route.served_by(B)
        assert route.decision.endpoints == ENDPOINTS[1:]
        assert route.decision.results[route.decision.primary].scored.candidates.names == ("a", "b", "c")


async def test_an_endpoint_that_is_not_on_the_list_may_have_served() -> None:
    setup = Given(profile=make_profile(picker=lambda scored: scored.candidates[:2]))
    await setup.serve(C)
    assert setup.entries == ["scheduled a", "finished a", "scheduled c", "first byte c", "finished c"]
    assert setup.failed == ["a"]


async def test_who_comes_before_it_may_be_told_of_late() -> None:
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


async def test_an_endpoint_that_is_down_and_not_on_the_list_is_nobody() -> None:
    setup = Given(profile=make_profile(picker=lambda scored: scored.candidates[:1]))
    setup.pool.mark_down(ENDPOINTS[2], "gone")
    await setup.serve(C)
    assert setup.failed == []


async def test_the_failure_says_that_the_proxy_went_on() -> None:
    setup = Given()
    await setup.serve(B)
    ((name, failure),) = setup.failures
    assert (name, failure.endpoint, failure.cause) == ("a", "a", "the proxy went on to another one")
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
        route.first_byte(200)
        setup.clock.advance(3)
    assert [(outcome.duration, outcome.first_byte) for outcome in setup.diary.outcomes] == [(2, None), (5, 2)]


async def test_a_plugin_s_fault_is_reported_once() -> None:
    setup = Given(profile=make_profile(scorers=[LookupError("oh")]))
    await setup.serve(C)
    assert [fault.plugin for fault in setup.faults] == ["scorer-0"]


# -- failures


async def test_a_failure_too_late_for_another_endpoint_ends_the_request() -> None:
    setup, failure = Given(), UpstreamError("a", "broke off")
    async with setup.router.route(make_request()) as route:
        route.first_byte(200)
        route.broken_off(failure)
    assert setup.failures == [("a", failure)]
    assert setup.endings == [(Ending.UPSTREAM_FAILED, True)]


async def test_a_failure_that_is_raised_as_well_is_a_refusal() -> None:
    setup, failure = Given(), UpstreamError("a", "reset")
    with suppress(UpstreamError):
        async with setup.router.route(make_request()) as route:
            route.broken_off(failure)
            raise failure
    assert (setup.failures, setup.endings) == ([("a", failure)], [FAILED])
    assert setup.diary.refusals == [failure]


async def test_each_endpoint_that_fails_before_a_retry_is_told() -> None:
    setup = Given()
    failures = [UnreachableError("a", "refused"), UpstreamError("b", "reset")]
    async with setup.router.route(make_request()) as route:
        for failure in failures:
            route.retry(failure)
    assert setup.failures == list(zip("ab", failures, strict=True))


async def test_the_last_failure_is_told_as_well() -> None:
    setup, failure = Given(retries=0), UpstreamError("a", "reset")
    with pytest.raises(UpstreamError):
        async with setup.router.route(make_request()) as route:
            route.retry(failure)
    assert setup.failures == [("a", failure)]


async def test_a_router_need_not_be_told_what_to_do_with_failures() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.served_by(B)
        route.broken_off(UpstreamError("b", "reset"))
    assert setup.entries[-1] == "finished b"


# -- what it cost


async def test_an_outcome_says_what_the_answer_cost() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        route.used(Usage(7))
        route.used(Usage(7, 3))
    assert [outcome.usage for outcome in setup.diary.outcomes] == [Usage(7, 3)]


async def test_what_is_not_known_is_none() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        route.used(None)
    await setup.serve()
    assert [outcome.usage for outcome in setup.diary.outcomes] == [None, None]


async def test_a_decision_s_other_profiles_stay_as_they_are() -> None:
    setup = Given()
    async with setup.router.route(make_request()) as route:
        decision = route.decision
        other = replace(decision.results["default"], profile="other")
        route.decision = replace(decision, results={"other": other, **decision.results})
        route.served_by(B)
        assert list(route.decision.results) == ["other", "default"]
        assert route.decision.results["other"] is other
