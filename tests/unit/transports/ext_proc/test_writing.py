"""Messages to a proxy: headers to set, bodies in chunks, and responses of the router's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from envoy.config.core.v3.base_pb2 import HeaderValueOption
from envoy.service.ext_proc.v3.external_processor_pb2 import HeaderMutation
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

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
from app.transports.control_headers import DESTINATION, SCORES
from app.transports.errors import REASON_HEADER
from app.transports.ext_proc.writing import (
    LARGEST_CHUNK,
    Forward,
    forwarding,
    forwarding_headers,
    immediate,
    metadata,
    mutate,
    streamed,
)
from tests.support.ext_proc import destination_of, removed_by, set_by

WHERE = "10.0.0.1:80,[fd00::1]:81"


def test_the_destination_is_the_first_header_of_a_forwarded_request() -> None:
    change = forwarding(Forward(WHERE, set_headers=(("x-a", "1"), ("x-b", "é")), removed_headers=("x-c", "x-d")))
    assert list(set_by(change).items()) == [(DESTINATION, WHERE), ("x-a", "1"), ("x-b", "é")]
    assert (removed_by(change), change.clear_route_cache) == (["x-c", "x-d"], True)
    assert not change.HasField("body_mutation")


def test_headers_replace_those_of_the_same_name() -> None:
    change = HeaderMutation()
    mutate(change, [("x-a", "1")])
    (option,) = change.set_headers
    assert option.append_action == HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    assert (option.header.key, option.header.raw_value, option.header.value) == ("x-a", b"1", "")


FORWARDS = {
    "only a destination": Forward(WHERE),
    "a replaced body": Forward(WHERE, b"new"),
    "headers": Forward(WHERE, set_headers=(("x-a", "1"),)),
    "removed headers": Forward(WHERE, removed_headers=("x-b",)),
    "scores": Forward(WHERE, scores={"10.0.0.1:80": 1.5}),
}


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_forwarded_headers_have_all_changes_and_metadata(forward: Forward) -> None:
    for message in (forwarding_headers(forward), forwarding_headers(forward)):
        assert message.request_headers.response == forwarding(forward)
        assert message.dynamic_metadata == metadata(forward)
        assert destination_of(message) == WHERE


def test_forwarded_headers_have_their_own_destination() -> None:
    assert [destination_of(forwarding_headers(Forward(where))) for where in (WHERE, "10.0.0.2:80")] == [
        WHERE,
        "10.0.0.2:80",
    ]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [(None, {}), ({"10.0.0.1:80": 1.5}, {SCORES: {"10.0.0.1:80": 1.5}})],
    ids=["without scores", "with scores"],
)
def test_the_metadata_has_the_same_destination(scores: Any, expected: Any) -> None:
    fields = MessageToDict(metadata(Forward(WHERE, scores=scores)))
    assert fields == {"envoy.lb": {DESTINATION: WHERE, **expected}}


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(0, 3) .flatmap(lambda n: st.integers(max(0, n * LARGEST_CHUNK - 2), n * LARGEST_CHUNK + 2)),
    ends=st.booleans(),
)  # fmt: skip
def test_a_body_is_cut_into_chunks_that_are_not_too_large(size: int, ends: bool) -> None:
    body = (b"0123456789" * (size // 10 + 1))[:size]
    chunks = [response.response.body_mutation.streamed_response for response in streamed(body, ends=ends)]
    assert b"".join(chunk.body for chunk in chunks) == body
    assert len(chunks) == max(1, -(-size // LARGEST_CHUNK))
    assert [chunk.end_of_stream for chunk in chunks] == [False] * (len(chunks) - 1) + [ends]
    assert max(response.ByteSize() for response in streamed(body, ends=ends)) < 64 * 1024


ERRORS: list[tuple[Exception, int, str, int]] = [
    (BadRequestError("no"), 400, "rejected-bad-request", 3),
    (ModelNotFoundError("m"), 404, "rejected-unknown-model", 5),
    (ClientTimeoutError("late"), 408, "rejected-timeout", 4),
    (BodyTooLargeError(1), 413, "rejected-too-large", 8),
    (SaturatedError(), 429, "rejected-saturated", 8),
    (HeadersTooLargeError(1), 431, "rejected-too-large", 3),
    (UnsupportedError("no"), 501, "rejected-unsupported", 12),
    (NoEndpointsError(), 503, "rejected-no-endpoints", 14),
    (ShuttingDownError(), 503, "rejected-shutting-down", 14),
    (UpstreamError("e", "refused"), 503, "upstream-failed", 14),
    (UpstreamTimeoutError("e", "late"), 504, "upstream-timeout", 4),
    (PluginError("p", "secret"), 500, "internal-error", 13),
    (RoutingError("secret"), 500, "internal-error", 13),
    (LookupError("secret"), 500, "internal-error", 13),
]


@pytest.mark.parametrize(
    ("error", "status", "reason", "grpc_status"), ERRORS, ids=[type(error).__name__ for error, *_ in ERRORS]
)
def test_an_error_is_an_immediate_response(error: Exception, status: int, reason: str, grpc_status: int) -> None:
    response = immediate(error, "r1").immediate_response
    assert (response.status.code, response.grpc_status.status, response.details) == (status, grpc_status, reason)
    assert set_by(response) == {"content-type": "application/json", REASON_HEADER: reason, "x-request-id": "r1"}
    body = json.loads(response.body)["error"]
    assert (body["message"] == "internal error") is (status == 500)
    assert "secret" not in str(response)


def test_an_error_without_a_request_has_no_id() -> None:
    assert "x-request-id" not in set_by(immediate(SaturatedError(), "").immediate_response)
