"""Messages of errors."""

from __future__ import annotations

import pytest

from app.domain.errors import (
    BadRequestError,
    BodyTooLargeError,
    ModelNotFoundError,
    NoEndpointsError,
    PluginError,
    RoutingError,
    SaturatedError,
    ShuttingDownError,
    UpstreamError,
    UpstreamTimeoutError,
)

MESSAGES = [
    (BadRequestError("no JSON"), "no JSON"),
    (BodyTooLargeError(1024), "the request body is larger than the limit of 1024 bytes"),
    (ModelNotFoundError("llama"), "the model 'llama' does not exist: no endpoint of the pool serves it"),
    (NoEndpointsError(), "no endpoint is available for this request"),
    (SaturatedError(), "every endpoint was ruled out for this request"),
    (SaturatedError("the queue is full"), "the queue is full"),
    (UpstreamError("a", "refused"), "the model server failed before it responded: refused"),
    (UpstreamTimeoutError("a", "60 s"), "the model server did not respond in time: 60 s"),
    (ShuttingDownError(), "the router is shutting down"),
    (PluginError("queue", "it picked none"), "plugin 'queue' failed: it picked none"),
    (PluginError("queue", KeyError("x")), "plugin 'queue' failed: KeyError: 'x'"),
]


@pytest.mark.parametrize(
    ("error", "message"), [pytest.param(*row, id=f"{type(row[0]).__name__} {row[0].args}") for row in MESSAGES]
)
def test_the_message_of_an_error(error: RoutingError, message: str) -> None:
    assert str(error) == message


def test_every_error_is_a_routing_error() -> None:
    assert all(isinstance(error, RoutingError) for error, _ in MESSAGES)


def test_an_error_keeps_its_arguments() -> None:
    error = UpstreamTimeoutError("gpu-7", "60 s")
    assert (error.endpoint, error.cause, BodyTooLargeError(7).limit) == ("gpu-7", "60 s", 7)


def test_a_plugin_error_keeps_its_cause() -> None:
    cause = KeyError("x")
    assert (PluginError("queue", cause).plugin, PluginError("queue", cause).cause) == ("queue", cause)


def test_a_model_not_found_error_keeps_the_model() -> None:
    assert ModelNotFoundError("llama").model == "llama"
