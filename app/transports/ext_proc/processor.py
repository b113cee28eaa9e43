"""One stream of external processing: the request parsed, routed, and followed to the end of its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Never, Protocol

import grpc.aio
import structlog
from structlog.contextvars import bind_contextvars

from app.domain.decision import Decision
from app.domain.errors import RoutingError, UpstreamError, UpstreamTimeoutError
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest, RawRequest
from app.routing.router import Route, Router
from app.transports.admission import Admission, Limits
from app.transports.control_headers import DESTINATION, FOR_THE_ROUTER, REQUEST_ID, SERVED
from app.transports.errors import REASON_HEADER
from app.transports.ext_proc.reading import model_rewrite_of, target_of
from app.transports.ext_proc.stream import Arrived, ProtocolError, ResponseChunk, ResponseStarted, Stream
from app.transports.ext_proc.writing import Forward, immediate
from app.transports.receiving import ReceivedRequest, Receiver, path_of, request_id_of

log = structlog.get_logger("pointsman.ext_proc")

MARK = "x-went-into-resp-headers"
"""The Go pickers mark each response with this header."""


class Context(Protocol):
    """The proxy's end of a stream; a `grpc.aio.ServicerContext`."""

    async def read(self) -> Any:
        """The next `ProcessingRequest`, or `grpc.aio.EOF`."""

    async def write(self, message: Any) -> None:
        """Sends a `ProcessingResponse`."""

    async def abort(self, code: grpc.StatusCode, details: str) -> Never:
        """Ends the stream with a status."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a proxy may ask for, and what it is sent."""

    subset: bool = True
    """Whether the proxy may restrict the endpoints that a request can go to."""
    endpoint_scores: bool = False
    """Whether it is sent the total score of each endpoint."""


class Processor:
    """Serves the streams of one configuration."""

    def __init__(
        self, *, router: Router, receiver: Receiver, admission: Admission, limits: Limits, options: Options
    ) -> None:
        self._router = router
        self._receiver = receiver
        self._admission = admission
        self._limits = limits
        self._options = options

    async def process(self, context: Context) -> None:
        """Serves one request. An immediate response rejects it; a stream that ends early counts as client-left."""
        rejection = self._admission.enter(self._limits, None)
        self._router.pipeline.open.enter()  # its plugins must not be stopped while the body arrives
        try:
            await _Conversation(self._router, self._receiver, self._limits, self._options, context).run(rejection)
        finally:
            self._router.pipeline.open.leave()
            self._admission.leave()


class _Conversation:
    """One stream."""

    __slots__ = ("_context", "_id", "_limits", "_options", "_receiver", "_router", "_stream")

    def __init__(self, router: Router, receiver: Receiver, limits: Limits, options: Options, context: Context) -> None:
        self._router = router
        self._receiver = receiver
        self._limits = limits
        self._options = options
        self._context = context
        self._stream = Stream(body_limit=limits.body_bytes)
        self._id = ""

    async def run(self, rejection: RoutingError | None) -> None:
        """Serves the stream to its end. With a `rejection` the request gets just that."""
        try:
            arrived = await self._arrival(rejection)
            if arrived is not None:
                await self._serve(arrived)
        except RoutingError as error:
            await self._context.write(immediate(error, self._id))
        except ProtocolError as error:
            log.warning("the proxy violates the protocol", reason=str(error))
            await self._context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except grpc.aio.BaseError:  # the stream has ended, or the server has stopped
            raise
        except Exception as error:  # a bug of ours, which must not end in a bare stream
            log.exception("request failed")
            await self._context.write(immediate(error, self._id))

    async def _arrival(self, rejection: RoutingError | None) -> Arrived | None:
        """The request; None if the stream ends before it is complete, or the proxy responds itself."""
        stream = self._stream
        while (message := await self._context.read()) is not grpc.aio.EOF:
            if message.observability_mode:
                log.warning("the proxy is in observability mode, in which requests can't be routed")
                return None
            try:
                event = stream.receive(message)
                if rejection is not None:
                    raise rejection
            except RoutingError as error:
                self._name()
                self._router.refuse(InferenceRequest(self._id, self._path, self._method), error)
                raise
            if isinstance(event, Arrived):
                self._name()
                return event
            if isinstance(event, ResponseStarted):
                stream.begin_response({})
            await self._send()
        return None

    async def _serve(self, arrived: Arrived) -> None:
        received = self._receive(arrived)
        subset = arrived.subset if self._options.subset else None
        async with self._router.route(received.request, subset) as route:
            self._stream.forward(self._forward(route.decision, received, arrived))
            await self._send()
            await self._follow(route)

    async def _follow(self, route: Route) -> None:
        """Relays the response to its end."""
        stream = self._stream
        while (message := await self._context.read()) is not grpc.aio.EOF:
            event = stream.receive(message)
            if isinstance(event, ResponseStarted):
                self._begin(route, event)
                last = event.last
            elif isinstance(event, ResponseChunk):
                last = event.last
                route.relay((event.data,))
            else:
                last = False
            if last:  # the proxy may end the stream as soon as it has it
                route.ending = Ending.COMPLETED
            await self._send()
            if last:
                return
        if not stream.ends_with_head:
            route.ending = Ending.CLIENT_LEFT

    def _begin(self, route: Route, response: ResponseStarted) -> None:
        if response.served_by:
            route.served_by(response.served_by)
        if response.failure:
            kind = UpstreamTimeoutError if "timeout" in response.failure else UpstreamError
            failure = kind(route.endpoint.name, response.failure)
            route.broken_off(failure)
            raise failure
        headers = response.headers
        route.head(response.status)
        route.responds(
            headers.get("content-type", ""), headers.get("content-encoding", ""), body=response.body_as_it_arrives
        )
        served_by = response.served_by or route.endpoint.authority
        removed = (REASON_HEADER,) if REASON_HEADER in headers else ()
        self._stream.begin_response({MARK: "true", REQUEST_ID: self._id, SERVED: served_by}, removed)

    def _receive(self, arrived: Arrived) -> ReceivedRequest:
        headers, body = arrived.headers, arrived.body
        raw = RawRequest(self._id, self._path, body, self._method, headers, len(body))
        if not arrived.whole:
            return ReceivedRequest(raw.parsed(), None)
        return self._receiver.receive(
            raw,
            encoding=headers.get("content-encoding", ""),
            model=model_rewrite_of(headers),
            limit=self._limits.body_bytes,
        )

    def _forward(self, decision: Decision, received: ReceivedRequest, arrived: Arrived) -> Forward:
        headers = arrived.headers
        sets: list[tuple[str, str]] = []
        removed = [name for name in headers if name in FOR_THE_ROUTER and name != DESTINATION]
        if headers.get(REQUEST_ID) != self._id:
            sets.append((REQUEST_ID, self._id))
        if received.body is not None:
            sets.append(("content-length", str(len(received.body))))
            removed += [name for name in ("content-encoding",) if name in headers]
        destination = ",".join([endpoint.authority for endpoint in decision.endpoints])
        scores = _scores(decision) if self._options.endpoint_scores else None
        return Forward(destination, received.body, tuple(sets), tuple(removed), scores)

    async def _send(self) -> None:
        for message in self._stream.take():
            await self._context.write(message)

    def _name(self) -> None:
        self._id = request_id_of(self._stream.headers.get(REQUEST_ID, ""))
        bind_contextvars(id=self._id)

    @property
    def _path(self) -> str:
        return path_of(target_of(self._stream.headers))

    @property
    def _method(self) -> str:
        return self._stream.headers.get(":method", "POST")


def _scores(decision: Decision) -> dict[str, float]:
    scored = decision.results[decision.primary].scored
    totals = scored.totals.tolist()
    return {endpoint.authority: total for endpoint, total in zip(scored.candidates, totals, strict=True)}
