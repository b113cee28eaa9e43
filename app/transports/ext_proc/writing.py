"""The messages that a proxy gets."""

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
"""Bytes of a body that go into one message: with the rest of it that stays below 64 KiB."""

_GRPC_STATUS = {400: 3, 404: 5, 408: 4, 413: 8, 429: 8, 431: 3, 501: 12, 503: 14, 504: 4}
_GRPC_INTERNAL = 13


@dataclass(frozen=True, slots=True)
class Forward:
    """What becomes of a request."""

    destination: str
    """`ip:port`, or several with commas between, best first."""
    body: bytes | None = None
    """Goes on instead of the body that came."""
    set_headers: tuple[tuple[str, str], ...] = ()
    removed_headers: tuple[str, ...] = ()
    scores: Mapping[str, float] | None = None
    """Score by address, to be told to the proxy."""


def forwarding(forward: Forward) -> CommonResponse:
    """The request's headers as they go on."""
    change = CommonResponse(clear_route_cache=True)
    mutate(change.header_mutation, ((DESTINATION, forward.destination), *forward.set_headers), forward.removed_headers)
    return change


def forwarding_headers(forward: Forward) -> ProcessingResponse:
    """The answer to the request's headers. Not to be changed: where it says no more than where to go, it is shared."""
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
    """What the proxy's load balancing is told: the same destination."""
    told = Struct()
    balancing = told.fields[BALANCING_NAMESPACE].struct_value.fields
    balancing[DESTINATION].string_value = forward.destination
    if forward.scores is not None:
        scores = balancing[SCORES].struct_value.fields
        for address, score in forward.scores.items():
            scores[address].number_value = score
    return told


def mutate(change: HeaderMutation, sets: Iterable[tuple[str, str]], removed: Iterable[str] = ()) -> None:
    """Adds headers to be set, each in the place of what there is of that name, and to be removed."""
    for name, value in sets:
        option = change.set_headers.add(append_action=_OVERWRITE)
        header = option.header
        header.key = name
        header.raw_value = value.encode()
    if removed:
        change.remove_headers.extend(removed)


_OVERWRITE = 2  # OVERWRITE_IF_EXISTS_OR_ADD


def streamed(body: bytes, *, ends: bool) -> Iterator[BodyResponse]:
    """A body, or a piece of it, in chunks; an empty one in one."""
    for at in range(0, len(body) or 1, LARGEST_CHUNK):
        chunk = body[at : at + LARGEST_CHUNK]
        response = BodyResponse()
        whole = response.response.body_mutation.streamed_response
        whole.body = chunk
        whole.end_of_stream = ends and at + LARGEST_CHUNK >= len(body)
        yield response


def immediate(error: Exception, request_id: str) -> ProcessingResponse:
    """The answer to a request that the router can't serve."""
    refusal = error_response_of(error)
    sets = [("content-type", "application/json"), (REASON_HEADER, refusal.reason)]
    if request_id:
        sets.append((REQUEST_ID, request_id))
    answer = ImmediateResponse(body=openai_body(error), details=refusal.reason)
    mutate(answer.headers, sets)
    answer.status.code = refusal.status  # the numbers are those of HTTP
    answer.grpc_status.status = _GRPC_STATUS.get(refusal.status, _GRPC_INTERNAL)
    return ProcessingResponse(immediate_response=answer)
