"""One HTTP request: parsed, routed, forwarded, its response streamed back."""

from __future__ import annotations

import structlog
from structlog.contextvars import bind_contextvars

from app.domain.errors import BadRequestError, RoutingError, UpstreamError
from app.domain.request import InferenceRequest, RawRequest
from app.routing.router import Route, Router
from app.transports.http.codec.events import RequestHead
from app.transports.http.error_responses import id_of, refuse
from app.transports.http.headers import lower_case, model_rewrite_of, to_client, to_endpoint, trailing, value_of
from app.transports.http.incoming import IncomingRequest
from app.transports.http.response_writer import ResponseWriter
from app.transports.http.upstream import DroppedError, OutgoingRequest, Response, Upstream
from app.transports.receiving import ReceivedRequest, Receiver, path_of

log = structlog.get_logger("pointsman.http")

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class Handler:
    """Serves every path but the ones that the server handles itself."""

    def __init__(self, *, router: Router, receiver: Receiver, upstream: Upstream, body_bytes: int) -> None:
        """`body_bytes` bounds a body after decompression."""
        self._router = router
        self._receiver = receiver
        self._upstream = upstream
        self._body_bytes = body_bytes

    async def __call__(self, incoming: IncomingRequest, writer: ResponseWriter) -> None:
        """Routes the request. What fails before the response began becomes an error response in OpenAI's shape."""
        head = incoming.head
        request_id = id_of(head)
        bind_contextvars(id=request_id)
        try:
            await self._serve(incoming, request_id, writer)
        except RoutingError as error:
            refuse(writer, error, request_id, head)
        except ConnectionError:
            raise
        except Exception as error:  # a bug of ours, which must not end in a bare connection
            log.exception("request failed", path=head.target if head else "")
            if writer.begun:
                writer.break_off()
            else:
                refuse(writer, error, request_id, head)

    async def _serve(self, incoming: IncomingRequest, request_id: str, writer: ResponseWriter) -> None:
        head = incoming.head
        if incoming.error is not None or head is None:
            error = incoming.error or BadRequestError("there is no request")
            self._router.refuse(_unparsed(head, request_id), error)
            raise error
        body = incoming.take_body()
        received = self._receive(head, request_id, body)
        headers = to_endpoint(head.headers, request_id.encode())
        if received.body is not None:
            body = received.body
            headers = [field for field in headers if field[0] != b"content-encoding"]
        says_length = head.content_length is not None or head.method in _WITH_BODY
        outgoing = OutgoingRequest(head.method, head.target, headers, body, trailing(incoming.trailers), says_length)
        async with self._router.route(received.request) as route:
            response = await self._forward(route, outgoing)
            try:
                served_by = route.endpoint.authority.encode()
                fields = response.head.headers
                route.responds(value_of(fields, b"content-type"), value_of(fields, b"content-encoding"))
                writer.relay = route.relay
                writer.begin(response.head, to_client(fields, request_id.encode(), served_by))
                rest = response.pass_on(writer)
                if rest is not None:
                    await rest
            except UpstreamError as failure:
                route.broken_off(failure)
                writer.break_off()
            finally:
                response.close()

    def _receive(self, head: RequestHead, request_id: str, body: bytes) -> ReceivedRequest:
        headers = head.headers
        raw = RawRequest(request_id, path_of(head.target), body, head.method, lower_case(headers), len(body))
        return self._receiver.receive(
            raw,
            encoding=value_of(headers, b"content-encoding"),
            model=model_rewrite_of(headers),
            limit=self._body_bytes,
        )

    async def _forward(self, route: Route, outgoing: OutgoingRequest) -> Response:
        """A response that can be relayed, from the first endpoint that sends one."""
        again = False
        while True:
            try:
                response = await self._upstream.send(route.endpoint, outgoing, fresh=again, on_head=route.head)
            except DroppedError as failure:
                if failure.reused and not again:
                    again = True  # the endpoint had closed an idle connection; a new one shows whether it works
                    continue
                route.retry(failure)
            except UpstreamError as failure:
                route.retry(failure)
            else:
                return response
            again = False


def _unparsed(head: RequestHead | None, request_id: str) -> InferenceRequest:
    return (
        InferenceRequest(request_id, path_of(head.target), head.method)
        if head
        else InferenceRequest(request_id, "", "")
    )
