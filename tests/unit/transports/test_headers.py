"""Headers that pass and headers that do not."""

from __future__ import annotations

import pytest

from app.transports.http.codec.events import Field
from app.transports.http.headers import lower_case, to_client, to_endpoint, trailing, value_of

Pairs = list[tuple[str, str]]


def of(*pairs: tuple[str, str]) -> list[Field]:
    """Headers as the decoders tell them: in lower case, without white space around."""
    return [(name.lower().encode("latin-1"), value.strip(" \t").encode("latin-1")) for name, value in pairs]


def text(fields: list[Field]) -> Pairs:
    return [(name.decode(), value.decode()) for name, value in fields]


def sent(*pairs: tuple[str, str]) -> Pairs:
    """What the endpoint gets besides the request's id."""
    return [pair for pair in text(to_endpoint(of(*pairs), b"r1")) if pair[0] != "x-request-id"]


def answered(*pairs: tuple[str, str]) -> Pairs:
    """What the client gets besides the two headers of the router."""
    ours = ("x-request-id", "x-gateway-destination-endpoint-served")
    return [pair for pair in text(to_client(of(*pairs), b"r1", b"10.0.0.1:80")) if pair[0] not in ours]


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
    assert (sent((name, "v")), answered((name, "v"))) == ([(name.lower(), "v")], [(name.lower(), "v")])


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_a_header_of_one_connection_passes_neither_way(name: str) -> None:
    assert (sent((name, "v")), answered((name, "v"))) == ([], [])


@pytest.mark.parametrize("name", ROUTER_S)
def test_a_header_for_the_router_is_not_sent_on(name: str) -> None:
    assert sent((name, "v")) == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Expect", "HTTP2-Settings"])
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
    assert text(to_endpoint(of(("Connection", "x-request-id")), b"r1")) == [("x-request-id", "r1")]


def test_connection_can_t_take_who_served_away() -> None:
    headers = text(to_client(of(("Connection", "x-gateway-destination-endpoint-served")), b"r1", b"a:1"))
    assert headers == [("x-request-id", "r1"), ("x-gateway-destination-endpoint-served", "a:1")]


def test_repeated_headers_stay_repeated_and_in_order() -> None:
    pairs = [("set-cookie", "a=1"), ("x", "1"), ("set-cookie", "b=2")]
    assert answered(*pairs) == pairs


@pytest.mark.parametrize("given", [[], [("X-Request-ID", "other")], [("x-request-id", "a"), ("X-Request-Id", "b")]])
def test_the_request_id_is_the_router_s_and_stands_once(given: Pairs) -> None:
    ways = [to_endpoint(of(*given), b"r1"), to_client(of(*given), b"r1", b"a:1")]
    assert [[value for name, value in way if name == b"x-request-id"] for way in ways] == [[b"r1"], [b"r1"]]


def test_an_endpoint_can_t_say_that_another_one_served() -> None:
    headers = text(to_client(of(("X-Gateway-Destination-Endpoint-Served", "other:1")), b"r1", b"10.0.0.1:80"))
    assert headers == [("x-request-id", "r1"), ("x-gateway-destination-endpoint-served", "10.0.0.1:80")]


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


def test_plugins_see_headers_as_they_would_see_any_mapping() -> None:
    headers = lower_case(of(("x-a", "1"), ("x-b", "2"), ("x-a", "3")))
    assert (list(headers), len(headers), headers["x-b"]) == (["x-a", "x-b"], 2, "2")
    assert (headers.get("x-c"), headers.get("x-c", ""), "x-c" in headers, "x-a" in headers) == (None, "", False, True)
    with pytest.raises(KeyError):
        headers["x-c"]


def test_plugins_see_what_is_no_text_with_its_bytes_replaced() -> None:
    assert lower_case([(b"x-a", b"caf\xc3\xa9"), (b"x-b", b"caf\xe9")]) == {"x-a": "caf\u00e9", "x-b": "caf\ufffd"}


@pytest.mark.parametrize(("name", "value"), [("x-a", "1"), ("x-b", ""), ("x-c", "")])
def test_the_first_value_of_a_header_counts(name: str, value: str) -> None:
    assert value_of(of(("x-a", "1"), ("x-a", "2"), ("x-b", "")), name.encode()) == value


FRAMING = ["content-length", "Transfer-Encoding", "host", "Trailer", "connection", "expect", "x-request-id"]


@pytest.mark.parametrize("name", [*FRAMING, *HOP_BY_HOP, *ROUTER_S])
def test_a_trailer_that_is_not_for_the_other_side_does_not_pass(name: str) -> None:
    assert trailing(of((name, "v"))) == []


def test_other_trailers_pass_in_order() -> None:
    pairs = [("x-sum", "1"), ("server-timing", "a"), ("x-sum", "2")]
    assert text(trailing(of(*pairs))) == pairs
    assert trailing(()) == []
