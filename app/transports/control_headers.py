"""Names of the headers that clients, proxies and routers tell each other; all transports share them."""

from __future__ import annotations

from app.transports.errors import REASON_HEADER

REQUEST_ID = "x-request-id"
DESTINATION = "x-gateway-destination-endpoint"
"""Where a proxy is to send the request: `ip:port`, or a list of these, best first."""
SUBSET = "x-gateway-destination-endpoint-subset"
SERVED = "x-gateway-destination-endpoint-served"
"""Who answered."""
ONLY_ONCE = "x-pointsman-only-once"
"""Marks a request that a proxy must not try again: Envoy 1.40, where it keeps a body for that, sends the body twice if
trailers follow it."""
SCORES = "x-gateway-destination-endpoint-scores"
MODEL_REWRITE = ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")
"""The model to be served instead of the one that the body names; the first name goes before the second."""

FOR_THE_ROUTER = frozenset(
    {
        DESTINATION,
        SUBSET,
        SERVED,
        SCORES,
        ONLY_ONCE,
        *MODEL_REWRITE,
        "x-gateway-inference-fairness-id",
        "x-gateway-inference-objective",
        "x-llm-d-inference-fairness-id",
        "x-llm-d-inference-objective",
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
