"""One HTTP request: parsed, routed, forwarded, its answer streamed back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import structlog
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict
from yarl import URL

from app.domain.endpoint import Endpoint
from app.domain.errors import RoutingError, SaturatedError, UpstreamError
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest, RawRequest
from app.routing.router import Route, Router
from app.transports.errors import REASON_HEADER, openai_body, refusal_of
from app.transports.http.bodies import decompressed, read_body
from app.transports.http.headers import REQUEST_ID, lower_case, to_client, to_endpoint
from app.transports.http.upstream import DroppedError, UnreachableError, Upstream

log = structlog.get_logger("pointsman.http")

LONGEST_REQUEST_ID = 200
"""Characters of a client's `x-request-id` that are taken over; a longer one is replaced."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request."""

    body_bytes: int
    body_timeout: float
    """Seconds for the whole body."""
    in_flight: int = 0
    """Requests at once, 0 for any number."""


class Handler:
    """Serves every path but the ones that the server answers itself."""

    def __init__(
        self,
        *,
        router: Router,
        upstream: Upstream,
        limits: Limits,
        suspect: Callable[[Endpoint], None],
        on_failure: Callable[[InferenceRequest, UpstreamError], None],
    ) -> None:
        """`suspect` is told of an endpoint that failed, to have it looked at; `on_failure` of each failed attempt."""
        self._router = router
        self._upstream = upstream
        self.limits = limits
        """May be replaced at any time; requests under way keep what they began with."""
        self._suspect = suspect
        self._on_failure = on_failure
        self._serving = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Routes the request; whatever goes wrong before the answer began is told as an OpenAI error."""
        request_id = request_id_of(request)
        self._serving += 1
        try:
            return await self._serve(request, request_id)
        except RoutingError as error:
            return refuse(error, request_id)
        except ConnectionError:
            raise
        except Exception as error:  # a fault of ours, which must not end in a bare connection
            log.exception("request failed", id=request_id, path=request.path)
            if request.writer.output_size:
                raise
            return refuse(error, request_id)
        finally:
            self._serving -= 1

    async def _serve(self, request: web.Request, request_id: str) -> web.StreamResponse:
        try:
            body, parsed = await self._read(request, request_id)
        except RoutingError as error:
            self._router.refuse(InferenceRequest(request_id, request.path, request.method), error)
            raise
        headers = to_endpoint(request.headers, request_id)
        async with self._router.route(parsed) as route:
            answer = await self._answer(request, route, headers, body)
            try:
                return await self._relay(request, route, answer)
            finally:
                answer.close()  # gives the connection back if the answer was read to its end, else closes it

    async def _read(self, request: web.Request, request_id: str) -> tuple[bytes, InferenceRequest]:
        if self.limits.in_flight and self._serving > self.limits.in_flight:
            raise SaturatedError("the router has as many requests in flight as it is allowed")
        body = await read_body(request, limit=self.limits.body_bytes, timeout=self.limits.body_timeout)
        return body, self._parse(request, request_id, body)

    def _parse(self, request: web.Request, request_id: str, body: bytes) -> InferenceRequest:
        plain = decompressed(body, request.headers.get("content-encoding", ""), limit=self.limits.body_bytes)
        headers = lower_case(request.headers)
        return self._router.parse(RawRequest(request_id, request.path, plain, request.method, headers, len(body)))

    async def _answer(
        self, request: web.Request, route: Route, headers: CIMultiDict[str], body: bytes
    ) -> aiohttp.ClientResponse:
        """The head of an endpoint's answer, from the first endpoint that gives one."""
        again, target = False, _target(request)
        while True:
            try:
                answer = await self._upstream.send(route.endpoint, request.method, target, headers, body)
            except DroppedError as failure:
                if failure.reused and not again:
                    again = True  # an idle connection that the endpoint had closed; a new one tells whether it is well
                    continue
                self._fail(route, failure)
            except UpstreamError as failure:
                self._fail(route, failure)
            else:
                route.first_byte(answer.status)
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

    async def _relay(self, request: web.Request, route: Route, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Streams the answer to the client, piece by piece as it comes."""
        headers = to_client(answer.headers, route.request.id, route.endpoint.authority)
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
        if "content-length" not in headers and _may_have_body(request.method, answer.status):
            if request.version >= HttpVersion11:
                response.enable_chunked_encoding()
            else:
                response.force_close()  # for HTTP/1.0 the connection's end is the body's
        await response.prepare(request)
        try:
            async for piece in self._upstream.body(route.endpoint, answer):
                await response.write(piece)
                route.relayed(len(piece))
        except UpstreamError as failure:
            self._break_off(request, route, response, failure)
            return response
        await response.write_eof()
        return response

    def _break_off(
        self, request: web.Request, route: Route, response: web.StreamResponse, failure: UpstreamError
    ) -> None:
        """Ends the client's connection without the end of the body, since the body has none."""
        route.ending = Ending.UPSTREAM_FAILED
        self._on_failure(route.request, failure)
        self._suspect(route.endpoint)
        response.force_close()
        if request.transport is not None and request.version >= HttpVersion11:
            request.transport.close()
        elif request.transport is not None:
            request.transport.abort()  # without chunks only a reset tells a break from an end


def _target(request: web.Request) -> str:
    """Path and query as the client wrote them; a proxy's absolute form without its host."""
    raw = request.raw_path
    return raw if raw.startswith("/") else URL(raw, encoded=True).raw_path_qs


def request_id_of(request: web.BaseRequest) -> str:
    """The client's request id, or a new one."""
    given = request.headers.get(REQUEST_ID, "")
    return given if given and len(given) <= LONGEST_REQUEST_ID else uuid.uuid4().hex


def refuse(error: Exception, request_id: str) -> web.Response:
    """The router's own answer to a request that it can't serve."""
    refusal = refusal_of(error)
    headers = {REQUEST_ID: request_id, REASON_HEADER: refusal.reason}
    response = web.Response(
        status=refusal.status, headers=headers, body=openai_body(error), content_type="application/json"
    )
    if refusal.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        response.force_close()
    return response


def _may_have_body(method: str, status: int) -> bool:
    return method != "HEAD" and status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
