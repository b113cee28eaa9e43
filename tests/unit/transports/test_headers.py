"""Headers that are forwarded, and headers that are not."""

from __future__ import annotations

import pytest

from app.transports.http.codec.events import Field
from app.transports.http.headers import lower_case, to_client, to_endpoint, trailing, value_of

Pairs = list[tuple[str, str]]


def of(*pairs: tuple[str, str]) -> list[Field]:
    """Headers as decoded: in lower case, without surrounding whitespace."""
    return [(name.lower().encode("latin-1"), value.strip(" \t").encode("latin-1")) for name, value in pairs]


def text(fields: list[Field]) -> Pairs:
    return [(name.decode(), value.decode()) for name, value in fields]


def forwarded(*pairs: tuple[str, str]) -> Pairs:
    """The headers that the endpoint gets, without the request id."""
    return [pair for pair in text(to_endpoint(of(*pairs), b"r1")) if pair[0] != "x-request-id"]


def returned(*pairs: tuple[str, str]) -> Pairs:
    """The headers that the client gets, without the two of the router."""
    ours = ("x-request-id", "x-gateway-destination-endpoint-served")
    return [pair for pair in text(to_client(of(*pairs), b"r1", b"10.0.0.1:80")) if pair[0] not in ours]


HOP_BY_HOP = [
    "connection", "Keep-Alive", "proxy-authenticate", "Proxy-Authorization", "proxy-connection", "TE", "Trailer",
    "Transfer-Encoding", "Upgrade",
]  # fmt: skip
END_TO_END = [
    "authorization", "Content-Type", "accept", "user-agent", "cookie", "x-custom", "content-encoding", "traceparent",
    "x-session-token", "prefer", "epp-profile",
]  # fmt: skip
FOR_THE_ROUTER = [
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


@pytest.mark.parametrize("name", END_TO_END)
def test_an_end_to_end_header_is_forwarded_both_ways(name: str) -> None:
    assert (forwarded((name, "v")), returned((name, "v"))) == ([(name.lower(), "v")], [(name.lower(), "v")])


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_a_hop_by_hop_header_is_forwarded_neither_way(name: str) -> None:
    assert (forwarded((name, "v")), returned((name, "v"))) == ([], [])


@pytest.mark.parametrize("name", FOR_THE_ROUTER)
def test_a_header_for_the_router_is_not_forwarded(name: str) -> None:
    assert forwarded((name, "v")) == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Expect", "HTTP2-Settings"])
def test_headers_that_the_router_sets_itself_are_not_forwarded(name: str) -> None:
    assert forwarded((name, "v")) == []


@pytest.mark.parametrize(
    "connection",
    [
        pytest.param([("Connection", "x-hop")], id="one"),
        pytest.param([("connection", "keep-alive, X-Hop")], id="among others"),
        pytest.param([("Connection", " x-hop ,,close")], id="with spaces and empty ones"),
        pytest.param([("Connection", "close"), ("Connection", "X-HOP")], id="in a second header"),
    ],
)
def test_headers_named_by_connection_are_forwarded_neither_way(connection: Pairs) -> None:
    pairs = [("x-hop", "1"), *connection, ("x-kept", "2")]
    assert (forwarded(*pairs), returned(*pairs)) == ([("x-kept", "2")], [("x-kept", "2")])


def test_connection_can_not_remove_the_request_id() -> None:
    assert text(to_endpoint(of(("Connection", "x-request-id")), b"r1")) == [("x-request-id", "r1")]


def test_connection_can_not_remove_the_serving_endpoint() -> None:
    headers = text(to_client(of(("Connection", "x-gateway-destination-endpoint-served")), b"r1", b"a:1"))
    assert headers == [("x-request-id", "r1"), ("x-gateway-destination-endpoint-served", "a:1")]


def test_repeated_headers_stay_repeated_and_in_order() -> None:
    pairs = [("set-cookie", "a=1"), ("x", "1"), ("set-cookie", "b=2")]
    assert returned(*pairs) == pairs


@pytest.mark.parametrize("given", [[], [("X-Request-ID", "other")], [("x-request-id", "a"), ("X-Request-Id", "b")]])
def test_the_request_id_is_the_router_s_and_occurs_once(given: Pairs) -> None:
    ways = [to_endpoint(of(*given), b"r1"), to_client(of(*given), b"r1", b"a:1")]
    assert [[value for name, value in way if name == b"x-request-id"] for way in ways] == [[b"r1"], [b"r1"]]


def test_an_endpoint_can_not_name_another_as_the_serving_one() -> None:
    headers = text(to_client(of(("X-Gateway-Destination-Endpoint-Served", "other:1")), b"r1", b"10.0.0.1:80"))
    assert headers == [("x-request-id", "r1"), ("x-gateway-destination-endpoint-served", "10.0.0.1:80")]


def test_an_endpoint_can_not_set_the_router_s_reason() -> None:
    assert returned(("x-llm-d-request-dropped-reason", "rejected-saturated")) == []


def test_the_length_of_a_response_is_forwarded() -> None:
    assert returned(("content-length", "5")) == [("content-length", "5")]


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


def test_plugins_see_headers_as_they_would_see_any_mapping() -> None:
    headers = lower_case(of(("x-a", "1"), ("x-b", "2"), ("x-a", "3")))
    assert (list(headers), len(headers), headers["x-b"]) == (["x-a", "x-b"], 2, "2")
    assert (headers.get("x-c"), headers.get("x-c", ""), "x-c" in headers, "x-a" in headers) == (None, "", False, True)
    with pytest.raises(KeyError):
        headers["x-c"]


def test_plugins_see_replacement_characters_for_invalid_utf_8() -> None:
    assert lower_case([(b"x-a", b"caf\xc3\xa9"), (b"x-b", b"caf\xe9")]) == {"x-a": "caf\u00e9", "x-b": "caf\ufffd"}


@pytest.mark.parametrize(("name", "value"), [("x-a", "1"), ("x-b", ""), ("x-c", "")])
def test_the_first_value_of_a_header_is_used(name: str, value: str) -> None:
    assert value_of(of(("x-a", "1"), ("x-a", "2"), ("x-b", "")), name.encode()) == value


FRAMING = ["content-length", "Transfer-Encoding", "host", "Trailer", "connection", "expect", "x-request-id"]


@pytest.mark.parametrize("name", [*FRAMING, *HOP_BY_HOP, *FOR_THE_ROUTER])
def test_a_trailer_that_is_not_end_to_end_is_not_forwarded(name: str) -> None:
    assert trailing(of((name, "v"))) == []


def test_other_trailers_are_forwarded_in_order() -> None:
    pairs = [("x-sum", "1"), ("server-timing", "a"), ("x-sum", "2")]
    assert text(trailing(of(*pairs))) == pairs
    assert trailing(()) == []
