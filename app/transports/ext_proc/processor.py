"""One stream of external processing: the request taken in, routed, and followed to the end of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Never, Protocol

import grpc.aio
import structlog
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import ExternalProcessorServicer

from app.domain.decision import Decision
from app.domain.errors import RoutingError, UpstreamError, UpstreamTimeoutError
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.usage import usage_reader
from app.routing.router import Route, Router
from app.transports.admission import Admission, Limits
from app.transports.control_headers import DESTINATION, FOR_THE_ROUTER, REQUEST_ID, SERVED
from app.transports.errors import REASON_HEADER
from app.transports.ext_proc.reading import model_rewrite_of, target_of
from app.transports.ext_proc.stream import Arrived, ProtocolError, ResponseChunk, ResponseStarted, Stream
from app.transports.ext_proc.writing import Forward, immediate
from app.transports.receiving import ReceivedRequest, path_of, receive, request_id_of

log = structlog.get_logger("pointsman.ext_proc")

MARK = "x-went-into-resp-headers"
"""By which the Go pickers mark an answer that came by them."""


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
    """What is heard from the proxy and told to it."""

    subset: bool = True
    """Whether the proxy may say which endpoints a request can go to."""
    endpoint_scores: bool = False
    """Whether it is told the total score of each endpoint."""


class Processor(ExternalProcessorServicer):
    """The service that proxies call."""

    def __init__(self, *, router: Router, admission: Admission[Limits], options: Options) -> None:
        self._router = router
        self._admission = admission
        self.options = options
        """May be replaced at any time."""

    async def Process(self, request_iterator: object, context: Context) -> None:  # noqa: ARG002, N802 - gRPC's names
        """One request. What can't be served gets an immediate response; a stream that ends early counts as left."""
        refusal = self._admission.enter(None)
        try:
            await _Conversation(self._router, self._admission.limits, self.options, context).hold(refusal)
        finally:
            self._admission.leave()


class _Conversation:
    """One stream."""

    __slots__ = ("_context", "_id", "_limits", "_options", "_router", "_stream")

    def __init__(self, router: Router, limits: Limits, options: Options, context: Context) -> None:
        self._router = router
        self._limits = limits
        self._options = options
        self._context = context
        self._stream = Stream(body_limit=limits.body_bytes)
        self._id = ""

    async def hold(self, refusal: RoutingError | None) -> None:
        """To the end of the stream. With a `refusal` it is a short one."""
        try:
            arrived = await self._arrival(refusal)
            if arrived is not None:
                await self._serve(arrived)
        except RoutingError as error:
            await self._context.write(immediate(error, self._id))
        except ProtocolError as error:
            log.warning("the proxy does not keep to the protocol", id=self._id, reason=str(error))
            await self._context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (grpc.aio.AbortError, grpc.aio.UsageError):
            raise
        except Exception as error:  # a fault of ours, which must not end in a bare stream
            log.exception("request failed", id=self._id)
            await self._context.write(immediate(error, self._id))

    async def _arrival(self, refusal: RoutingError | None) -> Arrived | None:
        """The request; None if the stream ends before it is there, or the proxy answers itself."""
        stream = self._stream
        while (message := await self._context.read()) is not grpc.aio.EOF:
            if message.observability_mode:
                log.warning("the proxy only watches, and a request that it only tells of can't be routed")
                return None
            try:
                event = stream.receive(message)
                if refusal is not None:
                    raise refusal
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
        taken = self._take_in(arrived)
        subset = arrived.subset if self._options.subset else None
        async with self._router.route(taken.request, subset) as route:
            self._stream.forward(self._forward(route.decision, taken, arrived))
            await self._send()
            await self._follow(route)

    async def _follow(self, route: Route) -> None:
        """Passes the answer on, to its end."""
        stream, usage = self._stream, None
        while (message := await self._context.read()) is not grpc.aio.EOF:
            event = stream.receive(message)
            if isinstance(event, ResponseStarted):
                self._begin(route, event)
                headers = event.headers
                usage = usage_reader(headers.get("content-type", ""), headers.get("content-encoding", ""))
                last = event.last
            elif isinstance(event, ResponseChunk):
                last = event.last
                route.relayed(len(event.data))
                if usage is not None:
                    usage.feed(event.data)
                    route.used(usage.end() if last else usage.usage)
            else:
                last = False
            if last:  # the proxy may end the stream as soon as it has it
                route.ending = Ending.COMPLETED
            await self._send()
            if last:
                return
        if not stream.ends_with_head:
            route.ending = Ending.CLIENT_LEFT

    def _begin(self, route: Route, answer: ResponseStarted) -> None:
        if answer.served_by:
            route.served_by(answer.served_by)
        if answer.failure:
            kind = UpstreamTimeoutError if "timeout" in answer.failure else UpstreamError
            failure = kind(route.endpoint.name, answer.failure)
            route.broken_off(failure)
            raise failure
        route.first_byte(answer.status)
        served_by = answer.served_by or route.endpoint.authority
        removed = (REASON_HEADER,) if REASON_HEADER in answer.headers else ()
        self._stream.begin_response({MARK: "true", REQUEST_ID: self._id, SERVED: served_by}, removed)

    def _take_in(self, arrived: Arrived) -> ReceivedRequest:
        headers, body = arrived.headers, arrived.body
        raw = RawRequest(self._id, self._path, body, self._method, headers, len(body))
        if not arrived.whole:
            return ReceivedRequest(raw.parsed(), None)
        return receive(
            self._router,
            raw,
            encoding=headers.get("content-encoding", ""),
            model=model_rewrite_of(headers),
            limit=self._limits.body_bytes,
        )

    def _forward(self, decision: Decision, taken: ReceivedRequest, arrived: Arrived) -> Forward:
        headers = arrived.headers
        sets: list[tuple[str, str]] = []
        removed = [name for name in headers if name in FOR_THE_ROUTER and name != DESTINATION]
        if headers.get(REQUEST_ID) != self._id:
            sets.append((REQUEST_ID, self._id))
        if taken.body is not None:
            sets.append(("content-length", str(len(taken.body))))
            removed += [name for name in ("content-encoding",) if name in headers]
        destination = ",".join([endpoint.authority for endpoint in decision.endpoints])
        scores = _scores(decision) if self._options.endpoint_scores else None
        return Forward(destination, taken.body, tuple(sets), tuple(removed), scores)

    async def _send(self) -> None:
        for message in self._stream.take():
            await self._context.write(message)

    def _name(self) -> None:
        self._id = request_id_of(self._stream.headers.get(REQUEST_ID, ""))

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
