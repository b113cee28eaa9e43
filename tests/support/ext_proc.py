"""The proxy's side of external processing: builds the messages that it sends, and reads those that it receives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Never

import grpc
import grpc.aio
from envoy.config.core.v3.base_pb2 import HeaderMap
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import HttpHeaders, ProcessingRequest, ProcessingResponse

from app.transports.control_headers import DESTINATION, SERVED, SUBSET
from app.transports.ext_proc.reading import ATTRIBUTES, BALANCING_NAMESPACE, SUBSET_NAMESPACE

NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL, DUPLEX, GRPC = (
    ProcessingMode.NONE,
    ProcessingMode.STREAMED,
    ProcessingMode.BUFFERED,
    ProcessingMode.BUFFERED_PARTIAL,
    ProcessingMode.FULL_DUPLEX_STREAMED,
    ProcessingMode.GRPC,
)
REQUEST_HEADERS = {":method": "POST", ":path": "/v1/chat/completions", "content-type": "application/json"}
CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "hi"}]}).encode()

JSON = "application/json"
SSE = "text/event-stream"


# -- what the proxy sends


def request_headers(
    fields: Mapping[str, str] | None = None,
    *,
    ends: bool = False,
    mode: int | None = None,
    answer_mode: int = DUPLEX,
    watches: bool = False,
) -> ProcessingRequest:
    """The request headers: the default ones and `fields`. Without a `mode` there is no `protocol_config`."""
    head = _head({**REQUEST_HEADERS, **(fields or {})}, ends=ends)
    message = ProcessingRequest(request_headers=head, observability_mode=watches)
    if mode is not None:
        message.protocol_config.request_body_mode = mode
        message.protocol_config.response_body_mode = answer_mode
    return message


def request_body(data: bytes = b"", *, ends: bool = False) -> ProcessingRequest:
    """A chunk of the request body."""
    message = ProcessingRequest()
    message.request_body.body = data
    message.request_body.end_of_stream = ends
    return message


def request_trailers() -> ProcessingRequest:
    """The request trailers."""
    message = ProcessingRequest()
    message.request_trailers.SetInParent()
    return message


def request_pieces(pieces: Sequence[bytes], *, trailers: bool = False) -> list[ProcessingRequest]:
    """A body in chunks. The last chunk ends the stream, or the trailers do."""
    last = len(pieces) - 1
    sent = [request_body(piece, ends=row == last and not trailers) for row, piece in enumerate(pieces)]
    return [*sent, request_trailers()] if trailers else sent


def answer_headers(
    status: int | str = 200,
    kind: str = JSON,
    *,
    ends: bool = False,
    served: str = "",
    attributes: Mapping[str, str] | None = None,
    fields: Mapping[str, str] | None = None,
) -> ProcessingRequest:
    """The response headers; `served` is the endpoint from which the response is, according to the proxy."""
    head = _head({":status": str(status), "content-type": kind, **(fields or {})}, ends=ends)
    message = ProcessingRequest(response_headers=head)
    if served:
        message.metadata_context.filter_metadata[BALANCING_NAMESPACE].update({SERVED: served})
    if attributes:
        message.attributes[ATTRIBUTES].update(attributes)
    return message


def answer_body(data: bytes = b"", *, ends: bool = False) -> ProcessingRequest:
    """A chunk of the response body."""
    message = ProcessingRequest()
    message.response_body.body = data
    message.response_body.end_of_stream = ends
    return message


def answer_trailers() -> ProcessingRequest:
    """The response trailers."""
    message = ProcessingRequest()
    message.response_trailers.SetInParent()
    return message


def answer_pieces(pieces: Sequence[bytes], *, trailers: bool = False) -> list[ProcessingRequest]:
    """A body in chunks. The last chunk ends the stream, or the trailers do."""
    last = len(pieces) - 1
    sent = [answer_body(piece, ends=row == last and not trailers) for row, piece in enumerate(pieces)]
    return [*sent, answer_trailers()] if trailers else sent


def hinting(message: ProcessingRequest, subset: Any) -> ProcessingRequest:
    """`message`, with `subset` as the hint that limits the endpoints."""
    message.metadata_context.filter_metadata[SUBSET_NAMESPACE].update({SUBSET: subset})
    return message


def _head(fields: Mapping[str, str], *, ends: bool) -> HttpHeaders:
    headers = HeaderMap()
    for name, value in fields.items():
        headers.headers.add(key=name, raw_value=value.encode())
    return HttpHeaders(headers=headers, end_of_stream=ends)


# -- what it reads


class Chunk(NamedTuple):
    """A chunk of a body as it is forwarded."""

    data: bytes
    ends: bool


def kinds_of(messages: Iterable[ProcessingResponse]) -> list[str]:
    """The kind of each message."""
    return [str(message.WhichOneof("response")) for message in messages]


def chunks_of(messages: Iterable[ProcessingResponse], kind: str = "request_body") -> list[Chunk]:
    """The chunks that are forwarded in place of the received ones of that kind."""
    bodies = [getattr(message, kind) for message in messages if message.WhichOneof("response") == kind]
    streamed = [body.response.body_mutation.streamed_response for body in bodies]
    return [Chunk(piece.body, piece.end_of_stream) for piece in streamed]


def set_by(response: Any) -> dict[str, str]:
    """The headers that a `CommonResponse` or an immediate response sets."""
    change = response.headers if hasattr(response, "headers") else response.header_mutation
    return {option.header.key: option.header.raw_value.decode() for option in change.set_headers}


def removed_by(response: Any) -> list[str]:
    """The headers that a response removes."""
    return list(response.header_mutation.remove_headers)


def destination_of(message: ProcessingResponse) -> str:
    """The destination of a request. Asserts that the header and the metadata agree."""
    kind = str(message.WhichOneof("response"))
    destination: str = (
        message.dynamic_metadata.fields[BALANCING_NAMESPACE].struct_value.fields[DESTINATION].string_value
    )
    assert set_by(getattr(message, kind).response)[DESTINATION] == destination
    return destination


class FakeContext:
    """A stream that delivers `messages`, then ends, or if it `stalls` stays open and silent.

    The write with the index `stalls_at_write` blocks forever.
    """

    def __init__(self, *messages: ProcessingRequest, stalls: bool = False, stalls_at_write: int | None = None) -> None:
        self.written: list[ProcessingResponse] = []
        self.stalled = asyncio.Event()
        self.aborted: tuple[grpc.StatusCode, str] | None = None
        self.failure: Exception | None = None
        """The error that writes raise."""
        self._messages = list(messages)
        self._stalls = stalls
        self._stalls_at_write = stalls_at_write

    async def read(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        if self._stalls:
            await self._stall()
        return grpc.aio.EOF

    async def write(self, message: ProcessingResponse) -> None:
        if self.failure is not None:
            raise self.failure
        if len(self.written) == self._stalls_at_write:
            await self._stall()
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> Never:
        self.aborted = (code, details)
        raise grpc.aio.AbortError

    @property
    def left(self) -> int:
        """The number of unread messages."""
        return len(self._messages)

    async def _stall(self) -> Never:
        self.stalled.set()
        await asyncio.Event().wait()
        raise AssertionError
