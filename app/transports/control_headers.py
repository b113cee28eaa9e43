"""Names of the headers that clients, proxies and routers use among themselves, for all transports."""

from __future__ import annotations

from app.transports.errors import REASON_HEADER

REQUEST_ID = "x-request-id"
DESTINATION = "x-gateway-destination-endpoint"
"""The endpoint that a proxy must send the request to: `ip:port`, or several separated by commas, best first."""
SUBSET = "x-gateway-destination-endpoint-subset"
SERVED = "x-gateway-destination-endpoint-served"
"""The endpoint that responded."""
ONLY_ONCE = "x-pointsman-only-once"
"""Marks a request that a proxy must not retry: Envoy 1.40 sends a body that it buffers for retries twice if trailers
follow it."""
SCORES = "x-gateway-destination-endpoint-scores"
MODEL_REWRITE = ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")
"""The model to serve instead of the one in the body. The first name takes precedence over the second."""

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
"""Headers that are not forwarded to a model server: they are for the router, or may be set only by it."""
