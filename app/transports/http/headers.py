"""Which headers pass from one side to the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multidict import CIMultiDict, CIMultiDictProxy

from app.transports.errors import REASON_HEADER

REQUEST_ID = "x-request-id"
SERVED = "x-gateway-destination-endpoint-served"

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
     "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Meant for one connection only (RFC 9110, section 7.6.1)."""

FOR_THE_ROUTER = frozenset(
    {
        "x-gateway-destination-endpoint",
        "x-gateway-destination-endpoint-subset",
        SERVED,
        "x-gateway-inference-fairness-id",
        "x-gateway-inference-objective",
        "x-gateway-model-name-rewrite",
        "x-llm-d-inference-fairness-id",
        "x-llm-d-inference-objective",
        "x-llm-d-model-name-rewrite",
        "x-llm-d-slo-tpot-ms",
        "x-llm-d-slo-ttft-ms",
        "x-slo-tpot-ms",
        "x-slo-ttft-ms",
        "x-llm-d-video-duration-seconds",
        "x-llm-d-video-fps",
        "x-llm-d-video-resolution",
        REASON_HEADER,
        "x-prefiller-host-port",
        "x-encoder-hosts-ports",
        "x-data-parallel-host-port",
        "x-kv-cache-source-host-port",
    }
)
"""What clients tell the router, and what only the router may tell a model server."""


def to_endpoint(headers: Mapping[str, str], request_id: str) -> CIMultiDict[str]:
    """The request headers for the endpoint: all but the connection's own and the router's."""
    passed = _passing(headers, FOR_THE_ROUTER | {"host", "content-length", "expect"})
    passed[REQUEST_ID] = request_id
    return passed


def to_client(headers: CIMultiDictProxy[str], request_id: str, served_by: str) -> CIMultiDict[str]:
    """The answer's headers for the client, with who served it."""
    passed = _passing(headers, {SERVED, REASON_HEADER})
    passed[REQUEST_ID] = request_id
    passed[SERVED] = served_by
    return passed


def lower_case(headers: CIMultiDictProxy[str]) -> Mapping[str, str]:
    """The headers as plugins see them: lower-case names, repeated ones joined by a comma."""
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _passing(headers: Mapping[str, str], dropped: Iterable[str]) -> CIMultiDict[str]:
    named = ",".join(value for name, value in headers.items() if name.lower() == "connection")
    gone = HOP_BY_HOP | frozenset(dropped) | {name.strip().lower() for name in named.split(",")}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in gone)
