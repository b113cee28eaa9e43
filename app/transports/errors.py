"""Maps errors to error responses, for all transports."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from app.domain.errors import (
    BadRequestError,
    BodyTooLargeError,
    ClientTimeoutError,
    HeadersTooLargeError,
    ModelNotFoundError,
    NoEndpointsError,
    PluginError,
    RoutingError,
    SaturatedError,
    ShuttingDownError,
    UnsupportedError,
    UpstreamError,
    UpstreamTimeoutError,
)

REASON_HEADER = "x-llm-d-request-dropped-reason"


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The response to a request that failed with an error."""

    status: int
    reason: str
    """Value of the reason header."""
    type: str
    """`error.type` of the OpenAI API."""
    code: str | None = None
    """`error.code` of the OpenAI API."""


_ERROR_RESPONSES: tuple[tuple[type[RoutingError], ErrorResponse], ...] = (
    (BadRequestError, ErrorResponse(400, "rejected-bad-request", "invalid_request_error")),
    (ModelNotFoundError, ErrorResponse(404, "rejected-unknown-model", "invalid_request_error", "model_not_found")),
    (ClientTimeoutError, ErrorResponse(408, "rejected-timeout", "invalid_request_error")),
    (BodyTooLargeError, ErrorResponse(413, "rejected-too-large", "invalid_request_error")),
    (HeadersTooLargeError, ErrorResponse(431, "rejected-too-large", "invalid_request_error")),
    (UnsupportedError, ErrorResponse(501, "rejected-unsupported", "invalid_request_error")),
    (SaturatedError, ErrorResponse(429, "rejected-saturated", "rate_limit_error", "rate_limit_exceeded")),
    (NoEndpointsError, ErrorResponse(503, "rejected-no-endpoints", "service_unavailable_error")),
    (ShuttingDownError, ErrorResponse(503, "rejected-shutting-down", "service_unavailable_error")),
    (UpstreamTimeoutError, ErrorResponse(504, "upstream-timeout", "server_error")),
    (UpstreamError, ErrorResponse(503, "upstream-failed", "service_unavailable_error")),
    (PluginError, ErrorResponse(500, "internal-error", "server_error")),
)

_INTERNAL = ErrorResponse(500, "internal-error", "server_error")


def error_response_of(error: Exception) -> ErrorResponse:
    """The response for `error`; an internal error if its class is not in the table."""
    return next((response for kind, response in _ERROR_RESPONSES if isinstance(error, kind)), _INTERNAL)


def openai_body(error: Exception) -> bytes:
    """The error body of the OpenAI API. It hides the text of internal errors."""
    response = error_response_of(error)
    message = "internal error" if response.status == 500 else str(error)  # noqa: PLR2004
    body = {"error": {"message": message, "type": response.type, "param": None, "code": response.code}}
    return orjson.dumps(body)
