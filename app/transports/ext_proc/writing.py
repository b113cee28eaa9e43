"""Builds the messages that are sent to a proxy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    ImmediateResponse,
    ProcessingResponse,
)
from google.protobuf.struct_pb2 import Struct

from app.transports.control_headers import DESTINATION, REQUEST_ID, SCORES
from app.transports.errors import REASON_HEADER, error_response_of, openai_body
from app.transports.ext_proc.reading import BALANCING_NAMESPACE

LARGEST_CHUNK = 62_000
"""Bytes of a body per message, so that the whole message stays below 64 KiB."""

_GRPC_STATUS = {400: 3, 404: 5, 408: 4, 413: 8, 429: 8, 431: 3, 501: 12, 503: 14, 504: 4}
_GRPC_INTERNAL = 13


@dataclass(frozen=True, slots=True)
class Forward:
    """How to forward a request."""

    destination: str
    """`ip:port`, or several separated by commas, best first."""
    body: bytes | None = None
    """Replaces the body; None keeps it."""
    set_headers: tuple[tuple[str, str], ...] = ()
    removed_headers: tuple[str, ...] = ()
    scores: Mapping[str, float] | None = None
    """Scores by address to send to the proxy; None sends none."""


def forwarding(forward: Forward) -> CommonResponse:
    """The changes to the request headers."""
    change = CommonResponse(clear_route_cache=True)
    mutate(change.header_mutation, ((DESTINATION, forward.destination), *forward.set_headers), forward.removed_headers)
    return change


def forwarding_headers(forward: Forward) -> ProcessingResponse:
    """The reply to the request headers. It must not be changed: one that only sets the destination is shared."""
    if forward.set_headers or forward.removed_headers or forward.scores is not None:
        return _forwarding_headers(forward)
    return _forwarding_to(forward.destination)


def _forwarding_headers(forward: Forward) -> ProcessingResponse:
    headers = HeadersResponse(response=forwarding(forward))
    return ProcessingResponse(request_headers=headers, dynamic_metadata=metadata(forward))


@lru_cache(maxsize=4096)
def _forwarding_to(destination: str) -> ProcessingResponse:
    return _forwarding_headers(Forward(destination))


def metadata(forward: Forward) -> Struct:
    """The dynamic metadata for the proxy's load balancer, with the same destination."""
    struct = Struct()
    balancing = struct.fields[BALANCING_NAMESPACE].struct_value.fields
    balancing[DESTINATION].string_value = forward.destination
    if forward.scores is not None:
        scores = balancing[SCORES].struct_value.fields
        for address, score in forward.scores.items():
            scores[address].number_value = score
    return struct


def mutate(change: HeaderMutation, sets: Iterable[tuple[str, str]], removed: Iterable[str] = ()) -> None:
    """Adds to `change` the headers to set, which replace all of the same name, and those to remove."""
    for name, value in sets:
        option = change.set_headers.add(append_action=_OVERWRITE)
        header = option.header
        header.key = name
        header.raw_value = value.encode()
    if removed:
        change.remove_headers.extend(removed)


_OVERWRITE = 2  # OVERWRITE_IF_EXISTS_OR_ADD


def streamed(body: bytes, *, ends: bool) -> Iterator[BodyResponse]:
    """A body, or a part of one, in chunks; at least one chunk, even if it is empty. `ends`: the body ends with it."""
    for at in range(0, len(body) or 1, LARGEST_CHUNK):
        response = BodyResponse()
        chunk = response.response.body_mutation.streamed_response
        chunk.body = body[at : at + LARGEST_CHUNK]
        chunk.end_of_stream = ends and at + LARGEST_CHUNK >= len(body)
        yield response


def immediate(error: Exception, request_id: str) -> ProcessingResponse:
    """The response to a request that can't be served because of `error`. An empty `request_id` is left out."""
    response = error_response_of(error)
    sets = [("content-type", "application/json"), (REASON_HEADER, response.reason)]
    if request_id:
        sets.append((REQUEST_ID, request_id))
    message = ImmediateResponse(body=openai_body(error), details=response.reason)
    mutate(message.headers, sets)
    message.status.code = response.status  # the enum's numbers are the HTTP statuses
    message.grpc_status.status = _GRPC_STATUS.get(response.status, _GRPC_INTERNAL)
    return ProcessingResponse(immediate_response=message)
