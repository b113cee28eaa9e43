"""Requests in flight: counted from the decision to the end, and followed by plugins that may join at any time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.decision import Decision, PluginFault
from app.domain.errors import UpstreamError
from app.domain.request import InferenceRequest
from app.routing.in_flight import InFlightRequests
from pointsman.testing import make_decision, make_request
from tests.unit.routing.given import ENDPOINTS, Setup, respond

REQUEST = make_request()


class Follower:
    """Records what it sees, and what it takes to be in flight."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.open: dict[int, tuple[InferenceRequest, Decision, bool | None]] = {}

    def on_entered(self, request: InferenceRequest, decision: Decision) -> None:
        assert id(decision) not in self.open
        self.seen.append(f"entered {decision.endpoint.name}")
        self.open[id(decision)] = (request, decision, None)

    def on_prefilled(self, decision: Decision, exact: bool) -> None:
        request, _, before = self.open[id(decision)]
        assert before is None
        self.seen.append(f"{'first token' if exact else 'head'} {decision.endpoint.name}")
        self.open[id(decision)] = (request, decision, exact)

    def on_left(self, decision: Decision) -> None:
        self.seen.append(f"left {decision.endpoint.name}")
        del self.open[id(decision)]


class Failing:
    """A follower that raises every time."""

    def on_entered(self, *_: Any) -> None:
        raise LookupError("entered")

    def on_prefilled(self, *_: Any) -> None:
        raise LookupError("first token")

    def on_left(self, *_: Any) -> None:
        raise LookupError("left")


def run(in_flight: InFlightRequests, *names: str) -> None:
    """A request to each endpoint, one after the other, from the decision to the end."""
    for name in names:
        decision = make_decision(name)
        in_flight.begin(REQUEST, decision)
        in_flight.first_token(decision, exact=True)
        in_flight.end(decision)


# -- counts


def test_an_unknown_endpoint_has_no_requests() -> None:
    assert InFlightRequests().count("a") == 0


def test_requests_are_counted_per_endpoint_and_in_total() -> None:
    in_flight = InFlightRequests()
    decisions = [make_decision(name) for name in ("a", "b", "a")]
    seen = []
    for decision in decisions:
        in_flight.begin(REQUEST, decision)
    for decision in decisions:
        seen.append((in_flight.count("a"), in_flight.count("b"), in_flight.total))
        in_flight.end(decision)
    assert seen == [(2, 1, 3), (1, 1, 2), (1, 0, 1)]
    assert in_flight.total == 0


def test_entering_and_leaving_counts_without_a_decision() -> None:
    in_flight = InFlightRequests()
    for name in ("a", "b", "a"):
        in_flight.enter(name)
    in_flight.leave("a")
    assert (in_flight.count("a"), in_flight.count("b"), in_flight.total) == (1, 1, 2)


def test_a_request_that_ended_leaves_nothing_behind() -> None:
    in_flight = InFlightRequests()
    decision = make_decision("a")
    in_flight.begin(REQUEST, decision)
    in_flight.end(decision)
    assert (in_flight._counts, in_flight._open, in_flight.total) == ({}, {}, 0)


def test_leaving_without_entering_is_an_error() -> None:
    with pytest.raises(KeyError):
        InFlightRequests().leave("a")


# -- followers


def test_followers_see_requests_come_their_first_token_and_their_end_until_they_unfollow() -> None:
    in_flight, follower = InFlightRequests(), Follower()
    run(in_flight, "a")
    in_flight.follow(follower, "plugin")
    run(in_flight, "b", "c")
    in_flight.unfollow(follower)
    run(in_flight, "a")
    assert follower.seen == [f"{what} {name}" for name in "bc" for what in ("entered", "first token", "left")]


def test_a_follower_that_joins_sees_the_requests_in_flight() -> None:
    in_flight, follower = InFlightRequests(), Follower()
    decisions = [make_decision(name) for name in "abcd"]
    for decision in decisions:
        in_flight.begin(make_request(id=f"to {decision.endpoint.name}"), decision)
    in_flight.first_token(decisions[0], exact=False)
    in_flight.first_token(decisions[1], exact=True)
    in_flight.first_token(decisions[2], exact=True)
    in_flight.end(decisions[2])
    in_flight.follow(follower, "plugin")
    assert follower.seen == ["entered a", "head a", "entered b", "first token b", "entered d"]
    assert [(request.id, decision) for request, decision, _ in follower.open.values()] == [
        (f"to {decision.endpoint.name}", decision) for decision in decisions if decision is not decisions[2]
    ]


def test_followers_join_and_leave_independently() -> None:
    in_flight, first, second = InFlightRequests(), Follower(), Follower()
    in_flight.follow(first, "first")
    run(in_flight, "a")
    in_flight.follow(second, "second")
    in_flight.unfollow(first)
    run(in_flight, "b")
    assert (first.seen[-1], second.seen[0], len(first.seen), len(second.seen)) == ("left a", "entered b", 3, 3)


def test_unfollowing_without_following_does_nothing() -> None:
    in_flight = InFlightRequests()
    in_flight.unfollow(Follower())
    run(in_flight, "a")


def test_a_follower_may_unfollow_when_it_is_called() -> None:
    in_flight, last = InFlightRequests(), Follower()

    class Once(Follower):
        def on_entered(self, request: InferenceRequest, decision: Decision) -> None:
            super().on_entered(request, decision)
            in_flight.unfollow(self)

    once = Once()
    in_flight.follow(once, "once")
    in_flight.follow(last, "last")
    run(in_flight, "a", "b")
    assert (once.seen, len(last.seen)) == (["entered a"], 6)


def test_a_follower_s_failures_are_reported_and_affect_nothing_else() -> None:
    faults: list[PluginFault] = []
    in_flight, follower = InFlightRequests(faults.append), Follower()
    in_flight.follow(Failing(), "failing")
    in_flight.follow(follower, "working")
    run(in_flight, "a")
    assert [(fault.plugin, fault.extension_point, str(fault.cause)) for fault in faults] == [
        ("failing", "InFlightListener", what) for what in ("entered", "first token", "left")
    ]
    assert (len(follower.seen), in_flight.total) == (3, 0)


def test_failures_need_not_be_reported_to_anything() -> None:
    in_flight = InFlightRequests()
    in_flight.follow(Failing(), "failing")
    run(in_flight, "a")
    assert in_flight.total == 0


@given(st.data())
def test_a_follower_knows_what_is_in_flight_whenever_it_joins(data: st.DataObject) -> None:
    faults: list[PluginFault] = []
    in_flight, followers = InFlightRequests(faults.append), list[Follower]()
    begun: list[tuple[InferenceRequest, Decision, bool | None]] = []
    for action in data.draw(st.lists(st.sampled_from(["begin", "respond", "end", "follow"]), max_size=20)):
        row = data.draw(st.integers(0, len(begun) - 1)) if begun else None
        if action == "begin":
            begun.append((REQUEST, make_decision(data.draw(st.sampled_from("ab"))), None))
            in_flight.begin(*begun[-1][:2])
        elif action == "follow":
            followers.append(Follower())
            in_flight.follow(followers[-1], "plugin")
        elif row is not None and action == "end":
            in_flight.end(begun.pop(row)[1])
        elif row is not None and begun[row][2] is None:
            request, decision, _ = begun[row]
            begun[row] = (request, decision, data.draw(st.booleans()))
            in_flight.first_token(decision, exact=begun[row][2])
        counts = Counter(decision.endpoint.name for _, decision, _ in begun)
        assert (in_flight.count("a"), in_flight.count("b"), in_flight.total) == (counts["a"], counts["b"], len(begun))
        expected = {id(decision): (decision, exact) for _, decision, exact in begun}
        for follower in followers:
            assert {key: one[1:] for key, one in follower.open.items()} == expected
    assert faults == []


# -- the router's requests


async def test_followers_see_each_attempt_of_a_request() -> None:
    setup, follower = Setup(), Follower()
    setup.in_flight.follow(follower, "plugin")
    async with setup.router.route(make_request()) as route:
        route.retry(UpstreamError("a", "refused"))
        route.served_by(ENDPOINTS[2].authority)
        respond(route)
    assert follower.seen == ["entered a", "left a", "entered b", "left b", "entered c", "first token c", "left c"]


async def test_a_follower_that_joins_later_sees_the_current_attempt() -> None:
    setup, follower = Setup(), Follower()
    async with setup.router.route(make_request()) as route:
        route.retry(UpstreamError("a", "refused"))
        setup.in_flight.follow(follower, "plugin")
        ((request, decision, _),) = follower.open.values()
        assert (request, decision) == (route.request, route.decision)
    assert follower.seen == ["entered b", "left b"]


async def test_a_failing_follower_breaks_no_request() -> None:
    setup = Setup()
    setup.in_flight.follow(Failing(), "failing")
    async with setup.router.route(make_request()) as route:
        respond(route)
    assert setup.entries == ["scheduled a", "first token a", "finished a"]
    assert [fault.plugin for fault in setup.faults] == ["failing"] * 3
