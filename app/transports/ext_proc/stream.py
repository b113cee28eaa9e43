"""One request as external processing sees it: messages in, events and messages out. No I/O.

A proxy is configured to send bodies in one of several modes, and announces the mode. In the recommended one, full
duplex, nothing is sent back before the whole request has arrived, and every chunk of a body is returned. The other
modes are served as far as they allow: a buffered body stays with the proxy, and where the proxy wants a reply to the
headers before it sends the body, the headers alone decide.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyResponse,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)

from app.domain.errors import BodyTooLargeError
from app.transports.control_headers import ONLY_ONCE
from app.transports.ext_proc.reading import Headers, failure_of, headers_of, served_by, subset_of
from app.transports.ext_proc.writing import Forward, forwarding, forwarding_headers, metadata, mutate, streamed

COLLECTED = 1024 * 1024
"""Bytes of a JSON response that are held back to return it in one go. A larger response is returned as it arrives."""

_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_BUFFERED = (ProcessingMode.BUFFERED, ProcessingMode.BUFFERED_PARTIAL)


class ProtocolError(Exception):
    """A message is not allowed in the current state."""


class Arrived(NamedTuple):
    """The request, or as much of it as arrives before it must be forwarded."""

    headers: Headers
    body: bytes
    subset: frozenset[str] | None
    """Addresses of the endpoints that the request may go to; None for any."""
    whole: bool = True
    """Whether the body is complete."""


class ResponseStarted(NamedTuple):
    """The head of the response, which is the endpoint's or the proxy's own."""

    status: int
    headers: Headers
    served_by: str
    """Address of the endpoint; empty if the proxy does not report it."""
    failure: str
    """How the endpoint failed, if the proxy responds in its place; empty if it does not, or does not report it."""
    last: bool
    body_as_it_arrives: bool = True
    """False if the proxy keeps the body, or buffers it. JSON is sent as a whole, so buffering it takes no time."""


class ResponseChunk(NamedTuple):
    """A chunk of the response body."""

    data: bytes
    last: bool


Event = Arrived | ResponseStarted | ResponseChunk


class _State(Enum):
    HEADERS = auto()
    BODY = auto()
    ARRIVED = auto()
    RESPONSE = auto()
    RESPONSE_BODY = auto()
    ENDED = auto()


_FORWARDED = (_State.RESPONSE, _State.RESPONSE_BODY, _State.ENDED)
"""The request was forwarded. The response may begin before the rest of the request has passed."""


class Stream:
    """The state of one stream: `receive` each message, then send those that `take` returns.

    `Arrived` must be followed by `forward`, `ResponseStarted` by `begin_response`.
    """

    __slots__ = (
        "_body", "_collected", "_has_body", "_headers", "_limit", "_mode", "_out", "_response_mode", "_size", "_state",
        "_subset", "_trailers",
    )  # fmt: skip

    def __init__(self, *, body_limit: int) -> None:
        """`body_limit`: bytes of the largest request body."""
        self._limit = body_limit
        self._state = _State.HEADERS
        self._mode: int = ProcessingMode.FULL_DUPLEX_STREAMED
        self._response_mode: int = ProcessingMode.FULL_DUPLEX_STREAMED
        self._headers: Headers = {}
        self._subset: frozenset[str] | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._has_body = False
        self._trailers = False
        self._collected: list[bytes] | None = None
        self._out: list[ProcessingResponse] = []

    @property
    def headers(self) -> Headers:
        """The request headers; empty until they arrive."""
        return self._headers

    @property
    def ends_with_head(self) -> bool:
        """Whether the head of the response has arrived, and the proxy sends nothing after it."""
        return self._state is _State.RESPONSE_BODY and self._response_mode == ProcessingMode.NONE

    def take(self) -> list[ProcessingResponse]:
        """The messages to send now, in order. They are returned once."""
        out, self._out = self._out, []
        return out

    def receive(self, message: ProcessingRequest) -> Event | None:
        """The event that `message` completes, if any.

        Raises `BodyTooLargeError` for the request body, `ProtocolError` for a message that is not allowed now.
        """
        kind = message.WhichOneof("request")
        if kind == "response_body":
            return self._receive_response_body(message.response_body)
        if kind == "request_body":
            self._note_subset(message)
            return self._receive_request_body(message.request_body)
        if kind == "request_headers":
            self._note_subset(message)
            return self._receive_request_headers(message.request_headers, message)
        if kind == "response_headers":
            return self._receive_response_headers(message.response_headers, message)
        if kind == "request_trailers":
            self._note_subset(message)
            return self._receive_request_trailers(message.request_trailers)
        if kind == "response_trailers":
            return self._receive_response_trailers()
        raise ProtocolError("empty message: expected headers, a body or trailers")

    # -- the request

    def forward(self, forward: Forward) -> None:
        """Forwards the request."""
        self._expect(_State.ARRIVED)
        self._state = _State.RESPONSE
        if self._trailers:
            forward = replace(forward, set_headers=(*forward.set_headers, (ONLY_ONCE, "true")))
        if self._mode in _BUFFERED and self._has_body:
            change = forwarding(forward)
            if forward.body is not None:
                change.body_mutation.body = forward.body
            body = BodyResponse(response=change)
            self._out.append(ProcessingResponse(request_body=body, dynamic_metadata=metadata(forward)))
            return
        self._out.append(forwarding_headers(forward))
        if not self._has_body or self._mode != _DUPLEX:
            return
        whole = self._whole_body() if forward.body is None else forward.body
        if whole or not self._trailers:
            chunks = streamed(whole, ends=not self._trailers)
            self._out += [ProcessingResponse(request_body=chunk) for chunk in chunks]
        if self._trailers:
            self._out.append(ProcessingResponse(request_trailers=TrailersResponse()))
        self._body.clear()

    def _note_subset(self, message: ProcessingRequest) -> None:
        subset = subset_of(message)
        if subset is not None:
            self._subset = subset

    def _receive_request_headers(self, head: HttpHeaders, message: ProcessingRequest) -> Arrived | None:
        self._expect(_State.HEADERS)
        if message.HasField("protocol_config"):
            self._mode = message.protocol_config.request_body_mode
            self._response_mode = message.protocol_config.response_body_mode
            if ProcessingMode.GRPC in (self._mode, self._response_mode):
                raise ProtocolError("body mode GRPC is not supported; use FULL_DUPLEX_STREAMED, for gRPC too")
        self._headers = headers_of(head)
        self._has_body = not head.end_of_stream
        if head.end_of_stream:
            return self._arrived()
        if self._mode == _DUPLEX or self._mode in _BUFFERED:
            self._state = _State.BODY
            if self._mode in _BUFFERED:  # the proxy sends the body after this reply, and holds the headers until then
                self._out.append(ProcessingResponse(request_headers=HeadersResponse()))
            return None
        return self._arrived(whole=False)

    def _receive_request_body(self, chunk: HttpBody) -> Arrived | None:
        if self._mode == ProcessingMode.STREAMED and self._state in _FORWARDED:
            self._out.append(ProcessingResponse(request_body=BodyResponse()))
            return None
        self._expect(_State.BODY)
        self._size += len(chunk.body)
        if self._size > self._limit:
            raise BodyTooLargeError(self._limit)
        self._body.append(chunk.body)
        if self._mode in _BUFFERED:
            return self._arrived(whole=chunk.end_of_stream or self._mode == ProcessingMode.BUFFERED)
        return self._arrived() if chunk.end_of_stream else None

    def _receive_request_trailers(self, _: HttpTrailers) -> Arrived | None:
        if self._state is _State.RESPONSE or (self._mode != _DUPLEX and self._state in _FORWARDED):
            self._out.append(ProcessingResponse(request_trailers=TrailersResponse()))
            return None
        self._expect(_State.BODY)
        if self._mode in _BUFFERED:
            raise ProtocolError("request trailers without a body, which a buffered mode does not allow")
        self._trailers = True
        return self._arrived()

    def _arrived(self, *, whole: bool = True) -> Arrived:
        self._state = _State.ARRIVED
        return Arrived(self._headers, self._whole_body(), self._subset, whole)

    def _whole_body(self) -> bytes:
        if len(self._body) > 1:
            self._body = [b"".join(self._body)]
        return self._body[0] if self._body else b""

    # -- the response

    def begin_response(self, headers: dict[str, str], removed: tuple[str, ...] = ()) -> None:
        """Returns the head of the response, with `headers` set and those named in `removed` removed."""
        response = ProcessingResponse(response_headers=HeadersResponse())
        if headers or removed:
            mutate(response.response_headers.response.header_mutation, headers.items(), removed)
        self._out.append(response)

    def _receive_response_headers(self, head: HttpHeaders, message: ProcessingRequest) -> ResponseStarted:
        if self._state not in (_State.HEADERS, _State.BODY, _State.RESPONSE):
            raise ProtocolError(f"unexpected response headers in state {self._state.name.lower()!r}")
        last, mode = head.end_of_stream, self._response_mode
        self._state = _State.ENDED if last else _State.RESPONSE_BODY
        headers = headers_of(head)
        is_json = headers.get("content-type", "").startswith("application/json")
        if mode == _DUPLEX and is_json:
            self._collected, self._size = [], 0
        status = headers.get(":status", "")
        in_time = mode != ProcessingMode.NONE and (is_json or mode not in _BUFFERED)
        return ResponseStarted(
            int(status) if status.isascii() and status.isdigit() else 0,
            headers,
            served_by(message),
            failure_of(message),
            last,
            last or in_time,
        )

    def _receive_response_body(self, chunk: HttpBody) -> ResponseChunk:
        self._expect(_State.RESPONSE_BODY)
        last = chunk.end_of_stream
        if last:
            self._state = _State.ENDED
        if self._response_mode != _DUPLEX:
            self._out.append(ProcessingResponse(response_body=BodyResponse()))
        elif self._collected is None:
            self._pass_on(chunk.body, ends=last)
        else:
            self._collect(self._collected, chunk.body, last=last)
        return ResponseChunk(chunk.body, last)

    def _receive_response_trailers(self) -> ResponseChunk:
        self._expect(_State.RESPONSE_BODY)
        self._state = _State.ENDED
        if self._collected:
            self._pass_on(b"".join(self._collected), ends=False)
        self._out.append(ProcessingResponse(response_trailers=TrailersResponse()))
        return ResponseChunk(b"", last=True)

    def _collect(self, collected: list[bytes], data: bytes, *, last: bool) -> None:
        collected.append(data)
        self._size += len(data)
        if last or self._size > COLLECTED:
            self._collected = None
            self._pass_on(b"".join(collected), ends=last)

    def _pass_on(self, data: bytes, *, ends: bool) -> None:
        self._out += [ProcessingResponse(response_body=chunk) for chunk in streamed(data, ends=ends)]

    def _expect(self, state: _State) -> None:
        if self._state is not state:
            expected, found = state.name.lower(), self._state.name.lower()
            raise ProtocolError(f"unexpected message: it needs the state {expected!r}, the stream is in {found!r}")
