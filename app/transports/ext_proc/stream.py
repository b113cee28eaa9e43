"""One request as a proxy tells of it: messages in, events and messages out. No I/O.

A proxy is configured to send bodies in one of several modes, and says in which. In the one to be used, full duplex,
nothing is answered before the whole request has come, and every piece of a body is given back. The others are served as
far as they go: a buffered body is held by the proxy itself, and where it sends none before the headers are answered,
the headers alone must do.
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
"""Bytes of a JSON answer that are held back to be given on in one piece; a larger one is passed on as it comes."""

_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_BUFFERED = (ProcessingMode.BUFFERED, ProcessingMode.BUFFERED_PARTIAL)


class ProtocolError(Exception):
    """A message that must not come now."""


class Arrived(NamedTuple):
    """The request, as much of it as comes before it must go on."""

    headers: Headers
    body: bytes
    subset: frozenset[str] | None
    """Addresses that it may go to; None for any."""
    whole: bool = True
    """Whether the body is all there."""


class ResponseStarted(NamedTuple):
    """The head of the endpoint's answer, or of the proxy's own."""

    status: int
    headers: Headers
    served_by: str
    """Address of the endpoint; the empty string if the proxy does not say."""
    failure: str
    """Why the proxy answers itself, for want of an endpoint's answer; empty if it does not or does not say."""
    last: bool


class ResponseChunk(NamedTuple):
    """More of the answer's body."""

    data: bytes
    last: bool


Event = Arrived | ResponseStarted | ResponseChunk


class _State(Enum):
    HEADERS = auto()
    BODY = auto()
    ARRIVED = auto()
    ANSWER = auto()
    ANSWER_BODY = auto()
    ENDED = auto()


_GONE_ON = (_State.ANSWER, _State.ANSWER_BODY, _State.ENDED)
"""The request was sent on; an endpoint may answer before the rest of it has passed by."""


class Stream:
    """The state of one stream. `receive` what comes, and send what `take` gives after it.

    After `Arrived` comes `forward`, after `ResponseStarted` comes `begin_response`.
    """

    __slots__ = (
        "_answer_mode", "_body", "_collected", "_has_body", "_headers", "_limit", "_mode", "_out", "_size", "_state",
        "_subset", "_trailers",
    )  # fmt: skip

    def __init__(self, *, body_limit: int) -> None:
        """`body_limit`: bytes of the largest request body."""
        self._limit = body_limit
        self._state = _State.HEADERS
        self._mode: int = ProcessingMode.FULL_DUPLEX_STREAMED
        self._answer_mode: int = ProcessingMode.FULL_DUPLEX_STREAMED
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
        """The request's headers, once they have come."""
        return self._headers

    @property
    def ends_with_head(self) -> bool:
        """Whether nothing of the answer is to come but its head, which has come."""
        return self._state is _State.ANSWER_BODY and self._answer_mode == ProcessingMode.NONE

    def take(self) -> list[ProcessingResponse]:
        """What is to be sent now, in order."""
        out, self._out = self._out, []
        return out

    def receive(self, message: ProcessingRequest) -> Event | None:
        """What `message` means, if it means anything yet.

        Raises `BodyTooLargeError` for the request, `ProtocolError` for a message out of place.
        """
        kind = message.WhichOneof("request")
        if kind == "response_body":
            return self._answer_body(message.response_body)
        if kind == "request_body":
            self._note_subset(message)
            return self._request_body(message.request_body)
        if kind == "request_headers":
            self._note_subset(message)
            return self._request_headers(message.request_headers, message)
        if kind == "response_headers":
            return self._answer_headers(message.response_headers, message)
        if kind == "request_trailers":
            self._note_subset(message)
            return self._request_trailers(message.request_trailers)
        if kind == "response_trailers":
            return self._answer_trailers()
        raise ProtocolError("a message without content")

    # -- the request

    def forward(self, forward: Forward) -> None:
        """The request goes on."""
        self._expect(_State.ARRIVED)
        self._state = _State.ANSWER
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

    def _request_headers(self, head: HttpHeaders, message: ProcessingRequest) -> Arrived | None:
        self._expect(_State.HEADERS)
        if message.HasField("protocol_config"):
            self._mode = message.protocol_config.request_body_mode
            self._answer_mode = message.protocol_config.response_body_mode
            if ProcessingMode.GRPC in (self._mode, self._answer_mode):
                raise ProtocolError("the body mode GRPC is not served; use FULL_DUPLEX_STREAMED, also for gRPC")
        self._headers = headers_of(head)
        self._has_body = not head.end_of_stream
        if head.end_of_stream:
            return self._arrived()
        if self._mode == _DUPLEX or self._mode in _BUFFERED:
            self._state = _State.BODY
            if self._mode in _BUFFERED:  # the proxy holds the headers back until the body is answered
                self._out.append(ProcessingResponse(request_headers=HeadersResponse()))
            return None
        return self._arrived(whole=False)

    def _request_body(self, piece: HttpBody) -> Arrived | None:
        if self._mode == ProcessingMode.STREAMED and self._state in _GONE_ON:
            self._out.append(ProcessingResponse(request_body=BodyResponse()))
            return None
        self._expect(_State.BODY)
        self._size += len(piece.body)
        if self._size > self._limit:
            raise BodyTooLargeError(self._limit)
        self._body.append(piece.body)
        if self._mode in _BUFFERED:
            return self._arrived(whole=piece.end_of_stream or self._mode == ProcessingMode.BUFFERED)
        return self._arrived() if piece.end_of_stream else None

    def _request_trailers(self, _: HttpTrailers) -> Arrived | None:
        if self._state is _State.ANSWER or (self._mode != _DUPLEX and self._state in _GONE_ON):
            self._out.append(ProcessingResponse(request_trailers=TrailersResponse()))
            return None
        self._expect(_State.BODY)
        if self._mode in _BUFFERED:
            raise ProtocolError("trailers after headers that were answered, without a body")
        self._trailers = True
        return self._arrived()

    def _arrived(self, *, whole: bool = True) -> Arrived:
        self._state = _State.ARRIVED
        return Arrived(self._headers, self._whole_body(), self._subset, whole)

    def _whole_body(self) -> bytes:
        if len(self._body) > 1:
            self._body = [b"".join(self._body)]
        return self._body[0] if self._body else b""

    # -- the answer

    def begin_response(self, headers: dict[str, str], removed: tuple[str, ...] = ()) -> None:
        """The answer goes on, with `headers` set in it and those `removed` left out."""
        answer = ProcessingResponse(response_headers=HeadersResponse())
        if headers or removed:
            mutate(answer.response_headers.response.header_mutation, headers.items(), removed)
        self._out.append(answer)

    def _answer_headers(self, head: HttpHeaders, message: ProcessingRequest) -> ResponseStarted:
        if self._state not in (_State.HEADERS, _State.BODY, _State.ANSWER):
            raise ProtocolError("a second answer")
        last = head.end_of_stream
        self._state = _State.ENDED if last else _State.ANSWER_BODY
        headers = headers_of(head)
        if self._answer_mode == _DUPLEX and headers.get("content-type", "").startswith("application/json"):
            self._collected = []
            self._size = 0
        status = headers.get(":status", "")
        return ResponseStarted(
            int(status) if status.isascii() and status.isdigit() else 0,
            headers,
            served_by(message),
            failure_of(message),
            last,
        )

    def _answer_body(self, piece: HttpBody) -> ResponseChunk:
        self._expect(_State.ANSWER_BODY)
        last = piece.end_of_stream
        if last:
            self._state = _State.ENDED
        if self._answer_mode != _DUPLEX:
            self._out.append(ProcessingResponse(response_body=BodyResponse()))
        elif self._collected is None:
            self._pass_on(piece.body, ends=last)
        else:
            self._collect(self._collected, piece.body, last=last)
        return ResponseChunk(piece.body, last)

    def _answer_trailers(self) -> ResponseChunk:
        self._expect(_State.ANSWER_BODY)
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
            raise ProtocolError(f"a message that does not fit: {state.name.lower()} in {self._state.name.lower()}")
