"""One HTTP request: parsed, routed, forwarded, its answer streamed back."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

import structlog

from app.domain.endpoint import Endpoint
from app.domain.errors import BadRequestError, RoutingError, UpstreamError
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest, RawRequest
from app.routing.router import Route, Router
from app.transports.http.admission import Admission
from app.transports.http.answering import AnswerWriter
from app.transports.http.bodies import decompressed
from app.transports.http.codec.events import RequestHead
from app.transports.http.headers import lower_case, to_client, to_endpoint, trailing, value_of
from app.transports.http.incoming import Incoming
from app.transports.http.refusing import id_of, refuse
from app.transports.http.upstream import Answer, DroppedError, Outgoing, UnreachableError, Upstream

log = structlog.get_logger("pointsman.http")

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


class Handler:
    """Serves every path but the ones that the server answers itself."""

    def __init__(
        self,
        *,
        router: Router,
        upstream: Upstream,
        admission: Admission,
        suspect: Callable[[Endpoint], None],
        on_failure: Callable[[InferenceRequest, UpstreamError], None],
    ) -> None:
        """`suspect` is told of an endpoint that failed, to have it looked at; `on_failure` of each failed attempt."""
        self._router = router
        self._upstream = upstream
        self._admission = admission
        self._suspect = suspect
        self._on_failure = on_failure

    async def __call__(self, incoming: Incoming, writer: AnswerWriter) -> None:
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

    async def _serve(self, incoming: Incoming, request_id: str, writer: AnswerWriter) -> None:
        head = incoming.head
        try:
            if incoming.error is not None:
                raise incoming.error
            if head is None:
                raise BadRequestError("there is no request")
            path = _path_of(head)
            body = incoming.take_body()
            parsed = self._parse(head, path, request_id, body)
        except RoutingError as error:
            self._router.refuse(_unparsed(head, request_id), error)
            raise
        headers = to_endpoint(head.headers, request_id.encode())
        says_length = head.content_length is not None or head.method in _WITH_BODY
        outgoing = Outgoing(head.method, head.target, headers, body, trailing(incoming.trailers), says_length)
        async with self._router.route(parsed) as route:
            answer = await self._answer(route, outgoing)
            try:
                served_by = route.endpoint.authority.encode()
                writer.begin(answer.head, to_client(answer.head.headers, request_id.encode(), served_by))
                rest = answer.pass_on(writer)
                if rest is not None:
                    await rest
            except UpstreamError as failure:
                self._break_off(route, writer, failure)
            finally:
                route.relayed(writer.sent)
                answer.close()

    def _parse(self, head: RequestHead, path: str, request_id: str, body: bytes) -> InferenceRequest:
        encoding = value_of(head.headers, b"content-encoding")
        plain = decompressed(body, encoding, limit=self._admission.limits.body_bytes) if encoding else body
        headers = lower_case(head.headers)
        return self._router.parse(RawRequest(request_id, path, plain, head.method, headers, len(body)))

    async def _answer(self, route: Route, outgoing: Outgoing) -> Answer:
        """An answer that has begun, from the first endpoint that gives one."""
        again = False
        while True:
            try:
                answer = await self._upstream.send(route.endpoint, outgoing, fresh=again)
            except DroppedError as failure:
                if failure.reused and not again:
                    again = True  # an idle connection that the endpoint had closed; a new one tells whether it is well
                    continue
                self._fail(route, failure)
            except UpstreamError as failure:
                self._fail(route, failure)
            else:
                route.first_byte(answer.head.status)
                return answer
            again = False

    def _fail(self, route: Route, failure: UpstreamError) -> None:
        """Tells of a failed attempt and moves the route to another endpoint, or raises."""
        endpoint = route.endpoint
        self._on_failure(route.request, failure)
        if isinstance(failure, UnreachableError):
            self._router.pool.mark_down(endpoint, failure.cause)
        self._suspect(endpoint)
        route.retry(failure)

    def _break_off(self, route: Route, writer: AnswerWriter, failure: UpstreamError) -> None:
        route.ending = Ending.UPSTREAM_FAILED
        self._on_failure(route.request, failure)
        self._suspect(route.endpoint)
        writer.break_off()


def _path_of(head: RequestHead) -> str:
    path = head.target.partition("?")[0]
    return unquote(path) if "%" in path else path


def _unparsed(head: RequestHead | None, request_id: str) -> InferenceRequest:
    return InferenceRequest(request_id, _path_of(head), head.method) if head else InferenceRequest(request_id, "", "")
