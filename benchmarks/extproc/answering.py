"""What a picker answers to a proxy, without deciding anything: there is one endpoint.

Both servers of this benchmark use it, so that they differ only in how messages get in and out.
"""

from __future__ import annotations

from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest, ProcessingResponse

DESTINATION = "x-gateway-destination-endpoint"
PIECE = 62_000
"""Bytes of a body in one answer, at most."""


class Answers:
    """One request: nothing is answered before its body has come, then all that comes is given back."""

    __slots__ = ("_body", "_destination", "_join", "_length", "ended")

    def __init__(self, destination: str, *, join: bool = False) -> None:
        """With `join` an answer that is no stream of events is given back at its end, in one piece."""
        self._destination = destination
        self._join = join
        self._body: list[bytes] = []
        self._length = 0
        self.ended = False
        """Whether the proxy has got all it waits for."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse]:
        """What is to be sent now."""
        kind = message.WhichOneof("request")
        if kind == "response_body":
            return self._answer_piece(message.response_body)
        if kind == "request_body":
            return self._request_piece(message.request_body)
        if kind == "response_headers":
            return self._answer_begins(message.response_headers)
        if kind == "request_headers":
            return [self._routed()] if message.request_headers.end_of_stream else []
        if kind == "request_trailers":
            response = ProcessingResponse()
            response.request_trailers.SetInParent()
            return [*self._forward(last=False), response]
        response = ProcessingResponse()
        response.response_trailers.SetInParent()
        self.ended = True
        return [*self._give_back(last=False), response] if self._body else [response]

    def _request_piece(self, piece) -> list[ProcessingResponse]:  # noqa: ANN001 - an `HttpBody`
        if piece.body:
            self._body.append(piece.body)
            self._length += len(piece.body)
        return self._forward(last=True) if piece.end_of_stream else []

    def _forward(self, *, last: bool) -> list[ProcessingResponse]:
        responses = [self._routed()]
        whole = b"".join(self._body)
        self._body.clear()
        for start in range(0, max(len(whole), 1), PIECE):
            response = ProcessingResponse()
            streamed = response.request_body.response.body_mutation.streamed_response
            streamed.body = whole[start : start + PIECE]
            streamed.end_of_stream = last and start + PIECE >= len(whole)
            responses.append(response)
        return responses

    def _routed(self) -> ProcessingResponse:
        """The answer to the headers: header and metadata that say where to, and the length of the body."""
        response = ProcessingResponse()
        common = response.request_headers.response
        common.clear_route_cache = True
        mutation = common.header_mutation
        header = mutation.set_headers.add().header
        header.key, header.raw_value = DESTINATION, self._destination.encode()
        header = mutation.set_headers.add().header
        header.key, header.raw_value = "content-length", b"%d" % self._length
        response.dynamic_metadata.get_or_create_struct("envoy.lb")[DESTINATION] = self._destination
        return response

    def _answer_begins(self, head) -> list[ProcessingResponse]:  # noqa: ANN001 - an `HttpHeaders`
        if self._join:
            kinds = [header.raw_value for header in head.headers.headers if header.key == "content-type"]
            self._join = not any(kind.startswith(b"text/event-stream") for kind in kinds)
        response = ProcessingResponse()
        header = response.response_headers.response.header_mutation.set_headers.add().header
        header.key, header.raw_value = "x-went-into-resp-headers", b"true"
        self.ended = head.end_of_stream
        return [response]

    def _answer_piece(self, piece) -> list[ProcessingResponse]:  # noqa: ANN001 - an `HttpBody`
        self.ended = last = piece.end_of_stream
        if piece.body:
            self._body.append(piece.body)
        return [] if self._join and not last else self._give_back(last=last)

    def _give_back(self, *, last: bool) -> list[ProcessingResponse]:
        whole = b"".join(self._body)
        self._body.clear()
        responses = []
        for start in range(0, max(len(whole), 1), PIECE):
            response = ProcessingResponse()
            streamed = response.response_body.response.body_mutation.streamed_response
            streamed.body = whole[start : start + PIECE]
            streamed.end_of_stream = last and start + PIECE >= len(whole)
            responses.append(response)
        return responses
