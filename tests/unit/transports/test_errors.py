"""The table from errors to error responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain import errors
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
    UnreachableError,
    UnsupportedError,
    UpstreamError,
    UpstreamTimeoutError,
)
from app.transports.errors import error_response_of, openai_body
from app.transports.http.upstream import DroppedError

TABLE: list[tuple[Exception, int, str, str, str | None]] = [
    (BadRequestError("no JSON"), 400, "rejected-bad-request", "invalid_request_error", None),
    (ModelNotFoundError("m"), 404, "rejected-unknown-model", "invalid_request_error", "model_not_found"),
    (BodyTooLargeError(10), 413, "rejected-too-large", "invalid_request_error", None),
    (ClientTimeoutError("slow"), 408, "rejected-timeout", "invalid_request_error", None),
    (HeadersTooLargeError(10), 431, "rejected-too-large", "invalid_request_error", None),
    (UnsupportedError("upgrade"), 501, "rejected-unsupported", "invalid_request_error", None),
    (SaturatedError(), 429, "rejected-saturated", "rate_limit_error", "rate_limit_exceeded"),
    (NoEndpointsError(), 503, "rejected-no-endpoints", "service_unavailable_error", None),
    (ShuttingDownError(), 503, "rejected-shutting-down", "service_unavailable_error", None),
    (UpstreamError("a", "broken"), 503, "upstream-failed", "service_unavailable_error", None),
    (UnreachableError("a", "gone"), 503, "upstream-failed", "service_unavailable_error", None),
    (DroppedError("a", "gone", reused=True), 503, "upstream-failed", "service_unavailable_error", None),
    (UpstreamTimeoutError("a", "slow"), 504, "upstream-timeout", "server_error", None),
    (PluginError("queue", "it failed"), 500, "internal-error", "server_error", None),
    (RoutingError("new kind"), 500, "internal-error", "server_error", None),
    (LookupError("a bug"), 500, "internal-error", "server_error", None),
]


@pytest.mark.parametrize(
    ("error", "status", "reason", "kind", "code"), [pytest.param(*row, id=type(row[0]).__name__) for row in TABLE]
)
def test_each_error_has_a_status_and_a_reason(
    error: Exception, status: int, reason: str, kind: str, code: str | None
) -> None:
    response = error_response_of(error)
    assert (response.status, response.reason, response.type, response.code) == (status, reason, kind, code)


def test_the_table_has_every_error_of_the_domain() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RoutingError)}
    assert kinds <= {type(row[0]) for row in TABLE}


def error_in_body(error: Exception) -> Any:
    return json.loads(openai_body(error))["error"]


def test_a_body_has_the_four_fields_of_the_openai_api() -> None:
    assert error_in_body(ModelNotFoundError("demo")) == {
        "message": "the model 'demo' does not exist: no endpoint of the pool serves it",
        "type": "invalid_request_error",
        "param": None,
        "code": "model_not_found",
    }


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(BadRequestError("no JSON"), "no JSON", id="bad request"),
        pytest.param(BodyTooLargeError(1048576), "1048576 bytes", id="too large"),
        pytest.param(UpstreamError("a", "it closed the connection"), "it closed the connection", id="upstream"),
        pytest.param(SaturatedError("too many"), "too many", id="saturated"),
    ],
)
def test_the_message_is_shown(error: Exception, text: str) -> None:
    assert text in error_in_body(error)["message"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(PluginError("secret-plugin", LookupError("secret")), id="plugin"),
        pytest.param(LookupError("secret"), id="bug"),
    ],
)
def test_the_message_of_an_internal_error_is_hidden(error: Exception) -> None:
    assert error_in_body(error)["message"] == "internal error"


def test_the_name_of_an_endpoint_is_hidden() -> None:
    assert "gpu-7" not in str(error_in_body(UpstreamError("gpu-7", "it closed the connection")))


def test_a_model_name_that_is_not_valid_unicode_can_be_shown() -> None:
    assert "does not exist" in error_in_body(ModelNotFoundError("\ud800"))["message"]
