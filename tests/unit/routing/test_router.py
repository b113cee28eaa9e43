"""The life of one request: counted in flight from the decision to the end, and observed exactly once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from app.domain.candidates import Candidates
from app.domain.errors import (
    BadRequestError,
    BodyTooLargeError,
    ModelNotFoundError,
    NoEndpointsError,
    PluginError,
    RoutingError,
    SaturatedError,
    UpstreamError,
)
from app.domain.outcome import Ending
from app.routing.router import Route
from pointsman.testing import make_request
from tests.unit.routing.given import ENDPOINTS, Broken, Diary, Setup, respond
from tests.unit.scheduling.given import keep, make_profile

DOWN = UpstreamError("a", "connection refused")

LEAVING: list[Any] = [
    pytest.param(asyncio.CancelledError(), Ending.CLIENT_LEFT, id="cancelled"),
    pytest.param(ConnectionResetError(), Ending.CLIENT_LEFT, id="client gone"),
    pytest.param(LookupError("a bug"), Ending.UPSTREAM_FAILED, id="bug"),
    pytest.param(TimeoutError(), Ending.UPSTREAM_FAILED, id="timeout"),
]


async def relay(setup: Setup, *, leaving_by: BaseException | None = None) -> Route:
    """Routes a request and leaves the block, by an error if one is given."""
    route = setup.router.route(make_request())
    with suppress(*[type(leaving_by)] if leaving_by else []):
        async with route:
            if leaving_by is not None:
                raise leaving_by
    return route


async def refusal(setup: Setup, *, failures: int = 0) -> RoutingError:
    """The error with which a request ends after this number of failed attempts."""
    with pytest.raises(RoutingError) as caught:
        async with setup.router.route(make_request()) as route:
            for _ in range(failures):
                route.retry(UpstreamError(route.endpoint.name, "refused"))
    return caught.value


# -- in flight


async def test_a_request_is_in_flight_within_the_block() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        assert (route.endpoint, setup.counts) == (ENDPOINTS[0], {"a": 1})
    assert setup.in_flight.total == 0


async def test_a_request_is_in_flight_when_observers_see_its_decision() -> None:
    setup, seen = Setup(), []
    setup.diary.on_scheduled = lambda *_: seen.append(setup.counts)  # type: ignore[method-assign]
    await relay(setup)
    assert seen == [{"a": 1}]


async def test_a_request_is_not_in_flight_while_it_is_decided() -> None:
    seen: list[float] = []

    def keep_all(candidates: Candidates) -> list[bool]:
        seen.append(candidates.in_flight.sum())
        return [True] * len(candidates)

    await relay(Setup(profile=make_profile(filters=[keep_all])))
    assert seen == [0.0]


async def test_a_request_is_no_longer_in_flight_when_observers_see_its_end() -> None:
    setup, seen = Setup(), []
    setup.diary.on_finished = lambda *_: seen.append(setup.counts)  # type: ignore[method-assign]
    await relay(setup)
    assert seen == [{}]


@pytest.mark.parametrize(("error", "ending"), LEAVING)
async def test_no_way_out_of_the_block_leaves_a_request_in_flight(error: BaseException, ending: Ending) -> None:
    setup = Setup()
    await relay(setup, leaving_by=error)
    assert (setup.in_flight.total, [outcome.ending for outcome in setup.diary.outcomes]) == (0, [ending])


async def test_a_cancelled_task_leaves_nothing_in_flight() -> None:
    setup, inside = Setup(), asyncio.Event()

    async def serve() -> None:
        async with setup.router.route(make_request()):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    await inside.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), setup.in_flight.total, setup.entries) == (True, 0, ["scheduled a", "finished a"])


async def test_a_request_cancelled_while_a_producer_waits_was_never_in_flight() -> None:
    producer = Waiting()
    setup = Setup(producers=[producer])
    task = asyncio.create_task(relay(setup))
    await producer.began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), setup.in_flight.total, setup.entries) == (True, 0, [])


async def test_a_retry_moves_the_count() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.retry(DOWN)
        assert setup.counts == {"b": 1}
    assert setup.in_flight.total == 0


async def test_a_picker_that_picks_a_tried_endpoint_leaks_no_count() -> None:
    setup = Setup(profile=make_profile(picker=lambda _: [ENDPOINTS[0]]))
    with suppress(RoutingError):
        async with setup.router.route(make_request()) as route:
            route.retry(DOWN)
    assert setup.in_flight.total == 0


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(make_profile(filters=[keep()]), id="saturated"),
        pytest.param(make_profile(picker=LookupError()), id="failing plugin"),
    ],
)
async def test_a_refused_decision_leaves_nothing_in_flight(profile: Any) -> None:
    setup = Setup(profile=profile)
    await refusal(setup)
    assert setup.in_flight.total == 0


async def test_a_bug_right_after_the_decision_leaves_nothing_in_flight() -> None:
    setup = Setup(profile=make_profile(scorers=[LookupError("oh")]))

    def report(_: Any) -> None:
        raise OSError("disk full")

    setup.router.pipeline.observers.report = report
    with pytest.raises(OSError):
        await relay(setup)
    assert (setup.in_flight.total, setup.entries) == (0, ["scheduled a", "finished a"])


# -- observers


async def test_observers_see_events_in_order() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        respond(route)
    assert setup.entries == ["scheduled a", "first token a", "finished a"]


async def test_the_transport_may_know_the_ending_better() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.ending = Ending.UPSTREAM_FAILED
    assert [outcome.ending for outcome in setup.diary.outcomes] == [Ending.UPSTREAM_FAILED]


async def test_a_block_that_is_left_without_an_error_is_complete() -> None:
    setup = Setup()
    await relay(setup)
    assert [(o.ending, o.first_token, o.status) for o in setup.diary.outcomes] == [(Ending.COMPLETED, None, None)]


async def test_observers_see_the_end_of_each_attempt_and_the_last_one_is_final() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.retry(DOWN)
        route.retry(DOWN)
    outcomes = [(outcome.ending, outcome.final, outcome.attempts) for outcome in setup.diary.outcomes]
    failed, completed = Ending.UPSTREAM_FAILED, Ending.COMPLETED
    assert outcomes == [(failed, False, 1), (failed, False, 2), (completed, True, 3)]


async def test_observers_see_an_attempt_s_end_before_the_next_decision() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.retry(DOWN)
    assert setup.entries == ["scheduled a", "finished a", "scheduled b", "finished b"]


async def test_a_request_that_failed_everywhere_is_refused_once() -> None:
    setup = Setup(ENDPOINTS[0])
    await refusal(setup, failures=1)
    assert setup.entries == ["scheduled a", "finished a", "refused UpstreamError"]
    assert [outcome.final for outcome in setup.diary.outcomes] == [False]


async def test_an_attempt_that_ends_in_a_refusal_is_not_final() -> None:
    setup = Setup()
    await relay(setup, leaving_by=BodyTooLargeError(10))
    assert setup.entries == ["scheduled a", "finished a", "refused BodyTooLargeError"]
    assert [outcome.final for outcome in setup.diary.outcomes] == [False]


async def test_of_a_refused_request_observers_see_only_the_refusal() -> None:
    setup = Setup(profile=make_profile(filters=[keep()]))
    await refusal(setup)
    assert setup.entries == ["refused SaturatedError"]


async def test_a_failing_observer_is_reported_and_breaks_no_request() -> None:
    setup = Setup(observers=[Broken()])
    async with setup.router.route(make_request()) as route:
        respond(route)
    assert setup.entries == ["scheduled a", "first token a", "finished a"]
    points = [(fault.plugin, fault.extension_point) for fault in setup.faults]
    assert points == [("observer-0", point) for point in ("OnScheduled", "OnFirstToken", "OnFinished")]


async def test_an_observer_that_fails_at_a_refusal_is_reported() -> None:
    setup = Setup(observers=[Broken()], profile=make_profile(filters=[keep()]))
    error = await refusal(setup)
    assert (type(error), setup.entries) == (SaturatedError, ["refused SaturatedError"])
    assert [fault.extension_point for fault in setup.faults] == ["OnRefused"]


async def test_a_failing_scorer_is_reported() -> None:
    setup = Setup(profile=make_profile(scorers=[LookupError("oh")]))
    await relay(setup)
    assert [(fault.plugin, fault.extension_point) for fault in setup.faults] == [("scorer-0", "Scorer")]


async def test_a_failing_picker_is_reported_and_the_request_is_refused() -> None:
    setup = Setup(profile=make_profile(picker=LookupError("oh")))
    error = await refusal(setup)
    assert isinstance(error, PluginError)
    assert [fault.plugin for fault in setup.faults] == ["picker"]


# -- retries


async def test_a_retry_goes_to_an_endpoint_that_was_not_tried() -> None:
    setup, tried = Setup(), []
    async with setup.router.route(make_request()) as route:
        for _ in range(2):
            tried.append(route.endpoint.name)
            route.retry(DOWN)
        tried.append(route.endpoint.name)
    assert (tried, route.attempts) == (["a", "b", "c"], 3)


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (2, 3)])
async def test_retries_are_bounded(retries: int, attempts: int) -> None:
    setup = Setup(retries=retries)
    await refusal(setup, failures=9)
    assert len(setup.diary.outcomes) == attempts


@pytest.mark.parametrize(
    ("retries", "last"),
    [pytest.param(1, "b", id="no attempt is left"), pytest.param(9, "c", id="no endpoint is left")],
)
async def test_the_last_failure_is_raised_when_nothing_is_left(retries: int, last: str) -> None:
    error = await refusal(Setup(retries=retries), failures=9)
    assert isinstance(error, UpstreamError)
    assert (error.endpoint, error.__cause__) == (last, None)


async def test_the_last_failure_is_raised_when_filters_rule_out_the_rest() -> None:
    error = await refusal(Setup(profile=make_profile(filters=[keep("a")])), failures=1)
    assert isinstance(error, UpstreamError)


async def test_a_plugin_that_fails_at_a_retry_leaves_nothing_in_flight() -> None:
    setup = Setup(profile=make_profile(filters=[lambda c: [True] * 3 if len(c) == 3 else 1 / 0]))
    error = await refusal(setup, failures=1)
    assert (type(error), setup.in_flight.total, len(setup.diary.outcomes)) == (PluginError, 0, 1)


async def test_facts_are_kept_for_a_retry() -> None:
    producer = Finding({"fact": 1})
    setup = Setup(producers=[producer])
    async with setup.router.route(make_request()) as route:
        route.retry(DOWN)
    assert (producer.asked, ["fact" in request.facts for request in setup.diary.requests]) == (1, [True, True])


async def test_a_retry_sees_the_pool_as_it_is_now() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        setup.pool.mark_down(ENDPOINTS[1], "gone")
        route.retry(DOWN)
        assert route.endpoint.name == "c"


# -- producers


class Finding:
    """A producer that returns or raises `result`, and remembers how many facts it was given."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.asked = 0
        self.given: list[int] = []

    async def produce(self, request: Any, pool: Any) -> Any:
        self.asked += 1
        self.given.append(len(request.facts))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Waiting:
    """A producer that never ends."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def produce(self, request: Any, pool: Any) -> Any:
        self.began.set()
        await asyncio.Event().wait()


async def facts_of(setup: Setup) -> list[str]:
    return sorted(str(key) for key in (await relay(setup)).request.facts._values)


async def test_a_producer_has_the_facts_of_those_before_it() -> None:
    first, second = Finding({"one": 1}), Finding({"two": 2})
    assert await facts_of(Setup(producers=[first, second])) == ["one", "two"]
    assert (first.given, second.given) == ([0], [1])


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(LookupError("oh"), id="exception"),
        pytest.param(TimeoutError(), id="a timeout of its own"),
        pytest.param([1, 2], id="not a mapping"),
    ],
)
async def test_a_producer_s_failure_costs_only_its_facts(result: Any) -> None:
    setup = Setup(producers=[Finding({"one": 1}), Finding(result), Finding({"three": 3})])
    assert await facts_of(setup) == ["one", "three"]
    assert [(fault.plugin, fault.extension_point) for fault in setup.faults] == [("producer-1", "Producer")]


async def test_a_producer_that_returns_none_is_reported_with_a_hint() -> None:
    setup = Setup(producers=[Finding(None)])
    assert await facts_of(setup) == []
    assert "it returned None" in str(setup.faults[0].cause)


async def test_the_deadline_costs_only_the_facts_not_found_yet() -> None:
    setup = Setup(producers=[Finding({"one": 1}), Waiting(), Finding({"three": 3})], producer_deadline=0.001)
    assert await facts_of(setup) == ["one", "three"]
    assert [fault.plugin for fault in setup.faults] == ["producer-1"]


class Pausing(Finding):
    """A producer that waits `pauses` times before it returns."""

    def __init__(self, result: Any, pauses: int = 1) -> None:
        super().__init__(result)
        self.pauses = pauses

    async def produce(self, request: Any, pool: Any) -> Any:
        for _ in range(self.pauses):
            done = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(done.set_result, None)
            await done
        return await super().produce(request, pool)


@pytest.mark.parametrize("pauses", [0, 1, 3])
async def test_producers_that_wait_and_others_run_in_order(pauses: int) -> None:
    last = Finding({"three": 3})
    setup = Setup(producers=[Finding({"one": 1}), Pausing({"two": 2}, pauses), last])
    assert (await facts_of(setup), last.given, setup.faults) == (["one", "three", "two"], [2], [])


async def test_several_producers_may_wait() -> None:
    setup = Setup(producers=[Pausing({name: 1}, 2) for name in ("a", "b", "c")])
    assert (await facts_of(setup), setup.faults) == (["a", "b", "c"], [])


@pytest.mark.parametrize(
    "result", [pytest.param(LookupError("oh"), id="exception"), pytest.param([1], id="not a mapping")]
)
async def test_a_failure_after_waiting_costs_only_its_facts(result: Any) -> None:
    setup = Setup(producers=[Pausing(result), Pausing({"two": 2})])
    assert (await facts_of(setup), [fault.plugin for fault in setup.faults]) == (["two"], ["producer-0"])


class Stubborn(Waiting):
    """A producer that ignores cancellation."""

    async def produce(self, request: Any, pool: Any) -> Any:
        with suppress(asyncio.CancelledError):
            await super().produce(request, pool)


async def test_a_producer_that_ignores_the_deadline_does_not_extend_it_for_others() -> None:
    setup = Setup(producers=[Stubborn(), Waiting()], producer_deadline=0.001)
    async with asyncio.timeout(1):
        assert await facts_of(setup) == []


# -- requests that no endpoint can serve


async def test_with_an_empty_pool_a_request_is_refused() -> None:
    setup = Setup()
    setup.pool.replace_all([])
    assert isinstance(await refusal(setup), NoEndpointsError)


async def test_if_all_endpoints_are_down_a_request_is_refused() -> None:
    setup = Setup(ENDPOINTS[0])
    setup.pool.mark_down(ENDPOINTS[0], "gone")
    assert isinstance(await refusal(setup), NoEndpointsError)


async def test_if_all_endpoints_go_down_while_a_producer_runs_the_request_is_refused() -> None:
    setup = Setup(ENDPOINTS[0], producers=[Finding({})])
    producer = setup.router.pipeline.producers[0].plugin
    producer.produce = lambda *_: takes_down(setup)  # type: ignore[method-assign]
    assert isinstance(await refusal(setup), NoEndpointsError)
    assert setup.entries == ["refused NoEndpointsError"]


async def takes_down(setup: Setup) -> dict[Any, Any]:
    setup.pool.mark_down(ENDPOINTS[0], "gone")
    return {}


@pytest.mark.parametrize(
    ("lists", "kind"),
    [
        pytest.param([{"other"}, {"more"}], ModelNotFoundError, id="all known"),
        pytest.param([set(), set()], ModelNotFoundError, id="all known and empty"),
    ],
)
async def test_a_model_that_no_endpoint_lists_is_not_found(lists: list[set[str]], kind: type) -> None:
    setup = Setup(*ENDPOINTS[:2])
    for endpoint, models in zip(ENDPOINTS, lists, strict=False):
        setup.pool.record_models(endpoint, frozenset(models))
    assert isinstance(await refusal(setup), kind)


async def test_an_endpoint_whose_list_is_unknown_may_serve_any_model() -> None:
    setup = Setup(*ENDPOINTS[:2])
    setup.pool.record_models(ENDPOINTS[0], frozenset({"other"}))
    assert (await relay(setup)).endpoint.name == "b"


async def test_while_one_list_is_unknown_a_model_is_not_reported_as_missing() -> None:
    setup = Setup(*ENDPOINTS[:2])
    setup.pool.record_models(ENDPOINTS[0], frozenset({"other"}))
    setup.pool.mark_down(ENDPOINTS[1], "gone")
    assert isinstance(await refusal(setup), NoEndpointsError)


@pytest.mark.parametrize(
    ("models", "refreshed", "error"),
    [
        pytest.param({"other"}, {"other", "demo"}, None, id="it has it now"),
        pytest.param({"other"}, {"more"}, ModelNotFoundError, id="it still lacks it"),
    ],
)
async def test_lists_are_refreshed_before_a_model_is_reported_as_missing(
    models: set[str], refreshed: set[str], error: type[RoutingError] | None
) -> None:
    setup = Setup(ENDPOINTS[0])
    setup.pool.record_models(ENDPOINTS[0], frozenset(models))

    async def refresh() -> None:
        setup.pool.record_models(ENDPOINTS[0], frozenset(refreshed))

    setup.router.refresh_models = refresh
    if error is None:
        assert (await relay(setup)).endpoint.name == "a"
    else:
        assert isinstance(await refusal(setup), error)


@pytest.mark.parametrize(
    ("models", "down"),
    [
        pytest.param(frozenset({"demo"}), False, id="an endpoint serves the model"),
        pytest.param(None, False, id="the list is unknown"),
        pytest.param(frozenset({"demo"}), True, id="the endpoint that has the model is down"),
    ],
)
async def test_lists_are_not_refreshed_if_a_model_is_not_missing(models: frozenset[str] | None, down: bool) -> None:
    setup, refreshed = Setup(ENDPOINTS[0]), []

    async def refresh() -> None:
        refreshed.append("lists")

    setup.router.refresh_models = refresh
    setup.pool.record_models(ENDPOINTS[0], models)
    if down:
        setup.pool.mark_down(ENDPOINTS[0], "gone")
        assert isinstance(await refusal(setup), NoEndpointsError)
    else:
        await relay(setup)
    assert refreshed == []


async def test_a_request_without_a_model_goes_anywhere() -> None:
    setup = Setup(ENDPOINTS[0])
    setup.pool.record_models(ENDPOINTS[0], frozenset({"other"}))
    async with setup.router.route(make_request(model="")) as route:
        assert route.endpoint.name == "a"


async def test_producers_do_not_run_for_a_request_that_no_endpoint_can_serve() -> None:
    producer = Finding({})
    setup = Setup(producers=[producer])
    setup.pool.replace_all([])
    await refusal(setup)
    assert (producer.asked, setup.entries) == (0, ["refused NoEndpointsError"])


async def test_a_profile_picker_may_refuse_a_request() -> None:
    setup = Setup()
    setup.router.pipeline.scheduler._picker.conclusion = BadRequestError("no such profile")  # type: ignore[attr-defined]
    assert isinstance(await refusal(setup), BadRequestError)


# -- two configurations


async def test_a_request_counts_as_in_flight_for_the_router_of_another_configuration() -> None:
    setup, diary = Setup(), Diary()
    following, seen = setup.next_router(diary), []
    async with setup.router.route(make_request()) as route:
        seen.append(following.pool.candidates().in_flight.tolist())
        async with following.route(make_request()):
            seen.append(setup.pool.candidates().in_flight.tolist())
            route.retry(DOWN)
        seen.append(following.pool.candidates().in_flight.tolist())
    assert (seen, setup.in_flight.total) == ([[1, 0, 0], [2, 0, 0], [0, 1, 0]], 0)
    assert (len(setup.entries), diary.entries) == (4, ["scheduled a", "finished a"])


async def test_an_endpoint_that_one_router_marks_down_is_no_candidate_for_the_other() -> None:
    setup = Setup()
    setup.pool.mark_down(ENDPOINTS[0], "refused")
    async with setup.next_router().route(make_request()) as route:
        assert route.endpoint.name == "b"


async def test_one_decision_object_for_two_requests_at_once_counts_twice() -> None:
    setup = Setup()
    decided = setup.router.pipeline.scheduler.schedule(make_request(), setup.pool.candidates())
    setup.router.pipeline.scheduler._picker.conclusion = decided  # type: ignore[attr-defined]
    async with setup.router.route(make_request()) as one, setup.router.route(make_request()) as other:
        assert (setup.in_flight.total, one.decision == other.decision, one.decision is other.decision) == (
            2,
            True,
            False,
        )
    assert setup.in_flight.total == 0
