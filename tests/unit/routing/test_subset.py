"""A proxy may restrict a request to some addresses, which also holds for retries."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.candidates import Roster
from app.domain.errors import ModelNotFoundError, NoEndpointsError, RoutingError, SaturatedError, UpstreamError
from pointsman.testing import make_endpoint, make_request
from tests.unit.routing.given import ENDPOINTS, Setup
from tests.unit.scheduling.given import keep, make_profile

A, B, C = (endpoint.authority for endpoint in ENDPOINTS)
UNKNOWN = "10.9.9.9:80"
FAILURE = UpstreamError("x", "reset")


async def picked(setup: Setup, *subset: str, failures: int = 0, model: str = "demo") -> list[str]:
    """Names of the endpoints of each decision, for a request with this number of failures."""
    names = []
    async with setup.router.route(make_request(model=model), frozenset(subset)) as route:
        names.append("".join(endpoint.name for endpoint in route.decision.endpoints))
        for _ in range(failures):
            route.retry(FAILURE)
            names.append("".join(endpoint.name for endpoint in route.decision.endpoints))
    return names


async def refusal(setup: Setup, *subset: str, failures: int = 0) -> RoutingError:
    with pytest.raises(RoutingError) as caught:
        await picked(setup, *subset, failures=failures)
    assert (setup.in_flight.total, setup.diary.refusals) == (0, [caught.value])
    return caught.value


@pytest.mark.parametrize(
    ("subset", "names"), [((A, B, C), "abc"), ((C, A), "ac"), ((B,), "b"), ((B, UNKNOWN), "b"), ((B, "", "x"), "b")]
)
async def test_a_request_goes_only_to_the_subset(subset: tuple[str, ...], names: str) -> None:
    assert await picked(Setup(), *subset) == [names]


async def test_without_a_subset_a_request_goes_anywhere() -> None:
    async with Setup().router.route(make_request()) as route:
        assert route.decision.endpoints == ENDPOINTS


@pytest.mark.parametrize(
    "subset", [(), (UNKNOWN,), ("127.0.0.1",), ("a",)], ids=["empty", "unknown", "no port", "a name"]
)
async def test_a_subset_without_endpoints_is_refused(subset: tuple[str, ...]) -> None:
    error = await refusal(Setup(), *subset)
    assert isinstance(error, NoEndpointsError)
    assert "that the proxy asks for" in str(error)


async def test_a_subset_whose_endpoints_are_down_is_refused() -> None:
    setup = Setup()
    setup.pool.mark_down(ENDPOINTS[1], "gone")
    assert isinstance(await refusal(setup, B), NoEndpointsError)
    setup.pool.mark_up(ENDPOINTS[1])
    assert await picked(setup, B) == ["b"]


async def test_with_an_empty_pool_the_subset_is_not_mentioned() -> None:
    setup = Setup()
    setup.pool.replace_all([])
    assert str(await refusal(setup, A)) == "no endpoint is available for this request"


async def test_filters_that_rule_out_the_whole_subset_saturate_it() -> None:
    assert isinstance(await refusal(Setup(profile=make_profile(filters=[keep("a")])), B), SaturatedError)


async def test_a_retry_stays_within_the_subset() -> None:
    assert await picked(Setup(), A, C, failures=1) == ["ac", "c"]


async def test_a_request_that_failed_in_the_whole_subset_ends_with_its_failure() -> None:
    assert await refusal(Setup(), A, C, failures=2) is FAILURE


async def test_only_endpoints_of_the_subset_that_serve_the_model_count() -> None:
    setup = Setup()
    setup.pool.record_models(ENDPOINTS[0], frozenset({"other"}))
    assert await picked(setup, A, B) == ["b"]
    assert isinstance(await refusal(setup, A), NoEndpointsError)


async def test_a_model_that_no_endpoint_has_is_not_found() -> None:
    setup = Setup()
    for endpoint in ENDPOINTS:
        setup.pool.record_models(endpoint, frozenset({"other"}))
    assert isinstance(await refusal(setup, A), ModelNotFoundError)


async def test_a_subset_does_not_affect_other_requests() -> None:
    setup = Setup()
    assert await picked(setup, A) == ["a"]
    async with setup.router.route(make_request()) as route:
        assert route.decision.endpoints == ENDPOINTS


# -- the pool


def candidates(setup: Setup, subset: set[str] | None, **given: object) -> tuple[str, ...]:
    only = None if subset is None else frozenset(subset)
    return setup.pool.candidates(subset=only, **given).names  # type: ignore[arg-type]


def test_candidates_are_in_the_pool_s_order_with_their_own_columns() -> None:
    setup = Setup()
    setup.in_flight.enter("c")
    found = setup.pool.candidates(subset=frozenset({C, A}))
    assert (found.names, found.in_flight.tolist()) == (("a", "c"), [0.0, 1.0])


def test_model_subset_and_exclusion_combine() -> None:
    setup = Setup()
    setup.pool.record_models(ENDPOINTS[0], frozenset({"other"}))
    assert candidates(setup, {A, B, C}, model="demo") == ("b", "c")
    assert candidates(setup, {A, B}, model="demo", excluding=frozenset({"c"})) == ("b",)
    assert candidates(setup, {A, B}, excluding=frozenset({"b"})) == ("a",)
    assert candidates(setup, {A}, model="demo") == ()
    assert candidates(setup, None, model="demo") == ("b", "c")


@settings(max_examples=100, deadline=None)
@given(
    subset=st.none() | st.frozensets(st.sampled_from([A, B, C, UNKNOWN])),
    excluded=st.frozensets(st.sampled_from("abc")),
    lacking=st.frozensets(st.sampled_from("abc")),
)
def test_candidates_are_those_that_no_condition_rules_out(
    subset: frozenset[str] | None, excluded: frozenset[str], lacking: frozenset[str]
) -> None:
    setup = Setup()
    for endpoint in ENDPOINTS:
        setup.pool.record_models(endpoint, frozenset({"other"}) if endpoint.name in lacking else None)
    found = setup.pool.candidates(model="demo", subset=subset, excluding=excluded)
    assert list(found) == [
        endpoint
        for endpoint in ENDPOINTS
        if endpoint.name not in excluded | lacking and (subset is None or endpoint.authority in subset)
    ]


def test_an_endpoint_is_found_at_its_address_while_it_is_up() -> None:
    setup = Setup()
    assert setup.pool.at(B) is ENDPOINTS[1]
    setup.pool.mark_down(ENDPOINTS[1], "gone")
    assert (setup.pool.at(B), setup.pool.at(A), setup.pool.at(UNKNOWN)) == (None, ENDPOINTS[0], None)
    setup.pool.replace_all([make_endpoint("new", port=8001)])
    found = setup.pool.at(B)
    assert (found and found.name, setup.pool.at(A)) == ("new", None)


def test_of_two_endpoints_at_one_address_the_first_is_found() -> None:
    setup = Setup(make_endpoint("a"), make_endpoint("b"))
    found = setup.pool.at("127.0.0.1:8000")
    assert found is not None
    assert (found.name, candidates(setup, {"127.0.0.1:8000"})) == ("a", ("a", "b"))


# -- the roster


@pytest.mark.parametrize(
    ("addresses", "rows"),
    [((), []), ((A,), [0]), ((C, A), [0, 2]), ((UNKNOWN, B), [1]), (("127.0.0.1", "a", ""), [])],
)
def test_rows_at_addresses_are_in_order(addresses: tuple[str, ...], rows: list[int]) -> None:
    roster = Roster(ENDPOINTS)
    assert [roster.at_addresses(addresses) for _ in range(2)] == [rows, rows]


def test_ipv6_and_sockets_have_addresses() -> None:
    roster = Roster([make_endpoint(address="fd00::1"), make_endpoint("s", address="unix:/run/s", port=0)])
    assert roster.at_addresses(["unix:/run/s", "[fd00::1]:8000", "fd00::1:8000"]) == [0, 1]


async def test_a_refused_request_is_no_longer_open() -> None:
    setup = Setup()
    with suppress(NoEndpointsError):
        await picked(setup, UNKNOWN)
    assert setup.router.pipeline.open._count == 0
