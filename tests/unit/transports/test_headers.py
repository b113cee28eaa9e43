"""Headers that pass and headers that do not."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from app.transports.http.headers import lower_case, to_client, to_endpoint

Pairs = list[tuple[str, str]]


def of(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def sent(*pairs: tuple[str, str]) -> Pairs:
    """What the endpoint gets besides the request's id."""
    return [(name, value) for name, value in to_endpoint(of(*pairs), "r1").items() if name != "x-request-id"]


def answered(*pairs: tuple[str, str]) -> Pairs:
    """What the client gets besides the two headers of the router."""
    ours = ("x-request-id", "x-gateway-destination-endpoint-served")
    return [(name, value) for name, value in to_client(of(*pairs), "r1", "10.0.0.1:80").items() if name not in ours]


HOP_BY_HOP = [
    "connection", "Keep-Alive", "proxy-authenticate", "Proxy-Authorization", "proxy-connection", "TE", "Trailer",
    "Transfer-Encoding", "Upgrade",
]  # fmt: skip
PASSING = [
    "authorization", "Content-Type", "accept", "user-agent", "cookie", "x-custom", "content-encoding", "traceparent",
    "x-session-token", "prefer", "epp-profile",
]  # fmt: skip
ROUTER_S = [
    "x-gateway-destination-endpoint",
    "X-Gateway-Destination-Endpoint-Subset",
    "x-gateway-destination-endpoint-served",
    "x-gateway-inference-fairness-id",
    "x-gateway-inference-objective",
    "x-gateway-model-name-rewrite",
    "x-llm-d-inference-fairness-id",
    "x-llm-d-inference-objective",
    "x-llm-d-model-name-rewrite",
    "x-llm-d-slo-ttft-ms",
    "x-llm-d-slo-tpot-ms",
    "x-slo-ttft-ms",
    "x-slo-tpot-ms",
    "x-llm-d-request-dropped-reason",
    "x-llm-d-video-fps",
    "x-llm-d-video-duration-seconds",
    "x-llm-d-video-resolution",
    "X-Prefiller-Host-Port",
    "x-encoder-hosts-ports",
    "x-data-parallel-host-port",
    "x-kv-cache-source-host-port",
]


@pytest.mark.parametrize("name", PASSING)
def test_a_header_for_the_other_side_passes_both_ways(name: str) -> None:
    assert (sent((name, "v")), answered((name, "v"))) == ([(name, "v")], [(name, "v")])


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_a_header_of_one_connection_passes_neither_way(name: str) -> None:
    assert (sent((name, "v")), answered((name, "v"))) == ([], [])


@pytest.mark.parametrize("name", ROUTER_S)
def test_a_header_for_the_router_is_not_sent_on(name: str) -> None:
    assert sent((name, "v")) == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Expect"])
def test_what_the_router_sets_anew_is_not_sent_on(name: str) -> None:
    assert sent((name, "v")) == []


@pytest.mark.parametrize(
    "connection",
    [
        pytest.param([("Connection", "x-hop")], id="one"),
        pytest.param([("connection", "keep-alive, X-Hop")], id="among others"),
        pytest.param([("Connection", " x-hop ,,close")], id="with spaces and empty ones"),
        pytest.param([("Connection", "close"), ("Connection", "X-HOP")], id="in a second header"),
    ],
)
def test_what_connection_names_passes_neither_way(connection: Pairs) -> None:
    pairs = [("x-hop", "1"), *connection, ("x-kept", "2")]
    assert (sent(*pairs), answered(*pairs)) == ([("x-kept", "2")], [("x-kept", "2")])


def test_connection_can_t_take_the_request_id_away() -> None:
    assert to_endpoint(of(("Connection", "x-request-id")), "r1")["x-request-id"] == "r1"


def test_repeated_headers_stay_repeated_and_in_order() -> None:
    pairs = [("set-cookie", "a=1"), ("x", "1"), ("set-cookie", "b=2")]
    assert answered(*pairs) == pairs


@pytest.mark.parametrize("given", [[], [("X-Request-ID", "other")], [("x-request-id", "a"), ("X-Request-Id", "b")]])
def test_the_request_id_is_the_router_s_and_stands_once(given: Pairs) -> None:
    ways = [to_endpoint(of(*given), "r1"), to_client(of(*given), "r1", "a:1")]
    assert [headers.getall("x-request-id") for headers in ways] == [["r1"], ["r1"]]


def test_an_endpoint_can_t_say_that_another_one_served() -> None:
    headers = to_client(of(("X-Gateway-Destination-Endpoint-Served", "other:1")), "r1", "10.0.0.1:80")
    assert headers.getall("x-gateway-destination-endpoint-served") == ["10.0.0.1:80"]


def test_an_endpoint_can_t_give_the_router_s_reason() -> None:
    assert answered(("x-llm-d-request-dropped-reason", "rejected-saturated")) == []


def test_the_length_of_an_answer_passes() -> None:
    assert answered(("content-length", "5")) == [("content-length", "5")]


@pytest.mark.parametrize(
    ("pairs", "seen"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([("X-A", "1")], {"x-a": "1"}, id="capitals"),
        pytest.param([("x-a", "1"), ("X-A", "2"), ("x-a", "3")], {"x-a": "1, 2, 3"}, id="repeated"),
        pytest.param([("x-a", "")], {"x-a": ""}, id="empty"),
    ],
)
def test_plugins_see_names_in_lower_case_and_repeated_ones_joined(pairs: Pairs, seen: dict[str, str]) -> None:
    assert lower_case(of(*pairs)) == seen
