"""`header-based-testing-filter`: keeps the endpoints that a request header lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.filters.header_based_testing import HEADER, HeaderBasedTestingFilter
from pointsman.testing import make_candidates, make_endpoint, make_request

ENDPOINTS = (
    make_endpoint("a", address="10.0.0.1", port=8000),
    make_endpoint("b", address="10.0.0.1", port=8001),
    make_endpoint("c", address="10.0.0.2", port=8000),
    make_endpoint("d", address="fd00::1", port=8000),
)


def kept(header: str | None) -> str:
    """The names of the endpoints that are kept."""
    request = make_request(headers={} if header is None else {HEADER: header})
    candidates = make_candidates(*ENDPOINTS)
    kept = list(HeaderBasedTestingFilter().filter(request, candidates))
    return "".join(name for name, keep in zip(candidates.names, kept, strict=True) if keep)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        pytest.param(None, "", id="no header"),
        pytest.param("", "", id="an empty header"),
        pytest.param(",", "", id="a comma"),
        pytest.param("10.0.0.1:8000", "a", id="an address"),
        pytest.param("10.0.0.1", "ab", id="an address without a port"),
        pytest.param("10.0.0.1:8001,10.0.0.2:8000", "bc", id="two"),
        pytest.param(" 10.0.0.1:8001 , 10.0.0.2 ", "bc", id="spaces"),
        pytest.param("10.0.0.1, 10.0.0.1:8000", "ab", id="twice"),
        pytest.param("10.0.0.9,10.0.0.2", "c", id="an unknown address"),
        pytest.param("10.0.0.1:9", "", id="another port"),
        pytest.param("10.0.0", "", id="a part of an address"),
        pytest.param("[fd00::1]:8000", "d", id="IPv6"),
        pytest.param("[FD00:0::1]:8000", "d", id="IPv6 in another form"),
        pytest.param("[fd00::1]", "d", id="IPv6 without a port"),
        pytest.param("[fd00::1]:8001", "", id="IPv6 with another port"),
        pytest.param("a", "", id="a name"),
    ],
)
def test_the_endpoints_in_the_header_are_kept(header: str | None, names: str) -> None:
    assert kept(header) == names


@settings(max_examples=100, deadline=None)
@given(
    header=st.text(max_size=20) | st.lists(st.sampled_from(["10.0.0.1", ":8000", ",", "[fd00::1]", " "])).map("".join)
)
def test_any_header_is_accepted(header: str) -> None:
    assert set(kept(header)) <= set("abcd")


def test_a_very_long_number_is_accepted() -> None:
    assert kept("10.0.0.1:" + "1" * 5000) == ""


def test_an_ipv6_address_without_a_port_is_normalised() -> None:
    assert kept("[FD00:0::1]") == "d"
