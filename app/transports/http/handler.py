"""One HTTP request: parsed, routed, forwarded, its answer streamed back."""

from __future__ import annotations

import structlog

from app.domain.errors import BadRequestError, RoutingError, UpstreamError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.usage import usage_reader
from app.routing.router import Route, Router
from app.transports.admission import Admission
from app.transports.http.codec.events import RequestHead
from app.transports.http.error_responses import id_of, refuse
from app.transports.http.headers import lower_case, model_rewrite_of, to_client, to_endpoint, trailing, value_of
from app.transports.http.incoming import IncomingRequest
from app.transports.http.limits import HttpLimits
from app.transports.http.response_writer import ResponseWriter
from app.transports.http.upstream import DroppedError, OutgoingRequest, Response, Upstream
from app.transports.receiving import ReceivedRequest, path_of, receive

log = structlog.get_logger("pointsman.http")

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class Handler:
    """Serves every path but the ones that the server answers itself."""

    def __init__(self, *, router: Router, upstream: Upstream, admission: Admission[HttpLimits]) -> None:
        self._router = router
        self._upstream = upstream
        self._admission = admission

    async def __call__(self, incoming: IncomingRequest, writer: ResponseWriter) -> None:
        """Routes the request; whatever goes wrong before the answer began is told as an OpenAI error."""
        head = incoming.head
        request_id = id_of(head)
        try:
            await self._serve(incoming, request_id, writer)
        except RoutingError as error:
            refuse(writer, error, request_id, head)
        except ConnectionError:
            raise
        except Exception as error:  # a fault of ours, which must not end in a bare connection
            log.exception("request failed", id=request_id, path=head.target if head else "")
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
        taken = self._take_in(head, request_id, body)
        headers = to_endpoint(head.headers, request_id.encode())
        if taken.body is not None:
            body = taken.body
            headers = [field for field in headers if field[0] != b"content-encoding"]
        says_length = head.content_length is not None or head.method in _WITH_BODY
        outgoing = OutgoingRequest(head.method, head.target, headers, body, trailing(incoming.trailers), says_length)
        async with self._router.route(taken.request) as route:
            answer = await self._answer(route, outgoing)
            try:
                served_by = route.endpoint.authority.encode()
                answered = answer.head.headers
                writer.usage = usage_reader(
                    value_of(answered, b"content-type"), value_of(answered, b"content-encoding")
                )
                writer.begin(answer.head, to_client(answered, request_id.encode(), served_by))
                rest = answer.pass_on(writer)
                if rest is not None:
                    await rest
            except UpstreamError as failure:
                route.broken_off(failure)
                writer.break_off()
            finally:
                route.relayed(writer.sent)
                if writer.usage is not None:
                    route.used(writer.usage.end())
                answer.close()

    def _take_in(self, head: RequestHead, request_id: str, body: bytes) -> ReceivedRequest:
        headers = head.headers
        raw = RawRequest(request_id, path_of(head.target), body, head.method, lower_case(headers), len(body))
        return receive(
            self._router,
            raw,
            encoding=value_of(headers, b"content-encoding"),
            model=model_rewrite_of(headers),
            limit=self._admission.limits.body_bytes,
        )

    async def _answer(self, route: Route, outgoing: OutgoingRequest) -> Response:
        """An answer that has begun, from the first endpoint that gives one."""
        again = False
        while True:
            try:
                answer = await self._upstream.send(route.endpoint, outgoing, fresh=again)
            except DroppedError as failure:
                if failure.reused and not again:
                    again = True  # an idle connection that the endpoint had closed; a new one tells whether it is well
                    continue
                route.retry(failure)
            except UpstreamError as failure:
                route.retry(failure)
            else:
                route.first_byte(answer.head.status)
                return answer
            again = False


def _unparsed(head: RequestHead | None, request_id: str) -> InferenceRequest:
    return (
        InferenceRequest(request_id, path_of(head.target), head.method)
        if head
        else InferenceRequest(request_id, "", "")
    )
