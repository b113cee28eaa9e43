"""A proxy's stream, routed: what it is sent, what is counted, and that nothing is left over however the stream ends."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest, ProcessingResponse
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.endpoint import Endpoint
from app.domain.errors import (
    BadRequestError,
    BodyTooLargeError,
    ModelNotFoundError,
    NoEndpointsError,
    PluginError,
    RoutingError,
    SaturatedError,
    ShuttingDownError,
    UpstreamError,
    UpstreamTimeoutError,
)
from app.domain.outcome import Ending
from app.domain.request import InferenceRequest
from app.domain.usage import Usage
from app.parsing.parsers import Parsers
from app.transports.admission import Admission
from app.transports.control_headers import DESTINATION, FOR_THE_ROUTER, SERVED
from app.transports.errors import REASON_HEADER
from app.transports.ext_proc.processor import MARK, Options, Processor
from app.transports.ext_proc.reading import BALANCING_NAMESPACE
from app.transports.receiving import Receiver
from plugins.parsers.openai import OpenAIParser
from pointsman.testing import make_endpoint
from tests.support.ext_proc import (
    BUFFERED,
    BUFFERED_PARTIAL,
    CHAT,
    DUPLEX,
    JSON,
    NONE,
    SSE,
    STREAMED,
    FakeContext,
    answer_body,
    answer_headers,
    answer_pieces,
    answer_trailers,
    chunks_of,
    destination_of,
    hinting,
    kinds_of,
    removed_by,
    request_body,
    request_headers,
    request_pieces,
    request_trailers,
    set_by,
)
from tests.unit.routing.given import ENDPOINTS, Broken, Setup
from tests.unit.scheduling.given import keep, make_profile

ASKED = [request_headers({"x-request-id": "r1"}), request_body(CHAT, ends=True)]
NOBODY = "10.9.9.9:80"
A, B, C = (endpoint.authority for endpoint in ENDPOINTS)
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
ANSWER = json.dumps({"choices": [], "usage": USAGE}).encode()
EVENTS = (
    b'data: {"choices": []}\n\ndata: {"choices": [], "usage": ' + json.dumps(USAGE).encode() + b"}\n\ndata: [DONE]\n\n"
)
ANSWERED = [answer_headers(served=A), answer_body(ANSWER, ends=True)]


class Limits(NamedTuple):
    body_bytes: int = 100_000
    in_flight: int = 0


OPENAI: Any = OpenAIParser()
PARSERS = Parsers([("openai-parser", OPENAI)])


class Buggy:
    """Parsers with a bug."""

    def parse(self, raw: Any) -> Any:
        raise ZeroDivisionError


class Given(Setup):
    """A router behind a processor, and the failures of endpoints that it reported."""

    def __init__(
        self,
        *endpoints: Endpoint,
        limits: Limits | None = None,
        options: Options | None = None,
        parsers: Any = PARSERS,
        **given: Any,
    ) -> None:
        super().__init__(*endpoints, **given)
        self.failures: list[tuple[str, UpstreamError]] = []
        self.router.on_failure = self._note
        self.receiver = Receiver(parsers=parsers, refuse=self.router.refuse)
        self.admission = Admission()
        self.processor = self.processor_with(limits or Limits(), options)

    def processor_with(self, limits: Limits, options: Options | None = None) -> Processor:
        """The processor of a configuration with these limits."""
        return Processor(
            router=self.router,
            receiver=self.receiver,
            admission=self.admission,
            limits=limits,
            options=options or Options(),
        )

    def _note(self, _: InferenceRequest, endpoint: Endpoint, failure: UpstreamError) -> None:
        self.failures.append((endpoint.name, failure))

    async def serve(self, *messages: ProcessingRequest) -> FakeContext:
        """A stream of these messages, to its end."""
        context = FakeContext(*messages)
        await self.processor.process(context)
        return context

    def begin(self, context: FakeContext) -> asyncio.Task[None]:
        """Serves a stream in the background."""
        return asyncio.create_task(self.processor.process(context))

    @property
    def endings(self) -> list[tuple[Ending, bool]]:
        return [(outcome.ending, outcome.final) for outcome in self.diary.outcomes]

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is in flight or running, and each decision has had its end."""
        seen = [entry.split()[0] for entry in self.entries]
        even = seen.count("scheduled") == seen.count("finished")
        return even and not (self.in_flight.total or self.admission._serving or self.router.pipeline.open._count)


async def served(*messages: ProcessingRequest, **given: Any) -> FakeContext:
    """A stream of these messages over three endpoints, after its end."""
    setup = Given(**given)
    context = await setup.serve(*messages)
    assert setup.is_at_rest
    return context


def rejection_in(context: FakeContext) -> tuple[int, str, dict[str, Any]]:
    """Status, reason and body of the immediate response that ended a stream."""
    response = context.written[-1].immediate_response
    headers = set_by(response)
    assert headers["content-type"] == "application/json"
    assert response.details == headers[REASON_HEADER]
    return response.status.code, headers[REASON_HEADER], json.loads(response.body)["error"]


def change_of(context: FakeContext) -> Any:
    """The changes to the request's headers."""
    return context.written[0].request_headers.response


# -- where it goes


@pytest.mark.parametrize("mode", [None, DUPLEX, BUFFERED, BUFFERED_PARTIAL])
async def test_the_destination_is_in_a_header_and_in_the_metadata(mode: int | None) -> None:
    context = await served(request_headers(mode=mode), request_body(CHAT, ends=True), *ANSWERED)
    (message,) = [message for message in context.written if message.HasField("dynamic_metadata")]
    assert destination_of(message) == f"{A},{B},{C}"


async def test_one_endpoint_is_sent_without_a_comma() -> None:
    context = await served(*ASKED, profile=make_profile(picker=lambda scored: scored.candidates[1:2]))
    assert destination_of(context.written[0]) == B


async def test_endpoints_are_sent_best_first() -> None:
    context = await served(*ASKED, profile=make_profile(scorers=[[0.2, 1.0, 0.6]]))
    assert destination_of(context.written[0]) == f"{B},{C},{A}"


async def test_an_ipv6_address_is_sent_in_brackets() -> None:
    setup = Given(make_endpoint(address="fd00::1", port=8000))
    context = await setup.serve(*ASKED)
    assert destination_of(context.written[0]) == "[fd00::1]:8000"


async def test_a_request_without_a_body_is_routed() -> None:
    context = await served(request_headers({":method": "GET", ":path": "/v1/models"}, ends=True), *ANSWERED)
    assert destination_of(context.written[0]) == f"{A},{B},{C}"
    assert kinds_of(context.written) == ["request_headers", "response_headers", "response_body"]


@pytest.mark.parametrize("mode", [NONE, STREAMED])
async def test_a_request_whose_body_does_not_come_first_is_routed_by_its_headers(mode: int) -> None:
    setup = Given()
    context = await setup.serve(request_headers({"x-b": "2"}, mode=mode, answer_mode=STREAMED), *ANSWERED)
    assert destination_of(context.written[0]) == f"{A},{B},{C}"
    (request,) = setup.diary.requests
    assert (request.model, request.headers["x-b"], request.path) == ("", "2", "/v1/chat/completions")


async def test_a_request_with_a_part_of_its_body_is_routed_by_its_headers() -> None:
    setup = Given()
    headers = request_headers({"x-gateway-model-name-rewrite": "other"}, mode=BUFFERED_PARTIAL, answer_mode=STREAMED)
    context = await setup.serve(headers, request_body(CHAT[:20]), *ANSWERED)
    assert kinds_of(context.written)[:2] == ["request_headers", "request_body"]
    assert not context.written[1].request_body.response.HasField("body_mutation")
    assert setup.diary.requests[0].size == 20


async def test_plugins_see_what_the_request_says() -> None:
    setup = Given()
    headers = request_headers({":path": "/v1%2Fchat/completions?a=1", "X-Request-Id": "r7", "x-b": "2"})
    await setup.serve(headers, *request_pieces([CHAT[:5], CHAT[5:]], trailers=True), *ANSWERED)
    (request,) = setup.diary.requests
    assert (request.id, request.path, request.method) == ("r7", "/v1/chat/completions", "POST")
    assert (request.model, request.size, request.headers["x-b"]) == ("demo", len(CHAT), "2")
    assert b"hi" in request.prompts[0]


@pytest.mark.parametrize("scores", [False, True])
async def test_scores_are_sent_if_that_is_configured(scores: bool) -> None:
    context = await served(
        *ASKED, options=Options(endpoint_scores=scores), profile=make_profile(scorers=[[0.0, 1.0, 0.5]])
    )
    sent = context.written[0].dynamic_metadata.fields[BALANCING_NAMESPACE].struct_value.fields
    found = sent["x-gateway-destination-endpoint-scores"].struct_value.fields if len(sent) > 1 else {}
    assert {address: value.number_value for address, value in found.items()} == (
        {A: 0.0, B: 1.0, C: 0.5} if scores else {}
    )


# -- the subset


def hinted(row: int, subset: Any) -> list[ProcessingRequest]:
    """A request whose message `row` has the subset."""
    messages = [request_headers(), request_body(CHAT), request_trailers()]
    hinting(messages[row], subset)
    return messages


@pytest.mark.parametrize("row", [0, 1, 2], ids=["headers", "body", "trailers"])
@pytest.mark.parametrize("subset", [[B], B, f" {B} ", [B, "10.9.9.9:80"], [B, 7, None, "", "b", "8001"]])
async def test_a_request_goes_only_to_its_subset(row: int, subset: Any) -> None:
    context = await served(*hinted(row, subset))
    assert destination_of(context.written[0]) == B


@pytest.mark.parametrize("subset", [[C, A], f"{C},{A}", f"{C}, {A},"])
async def test_the_best_endpoint_of_a_subset_comes_first(subset: Any) -> None:
    context = await served(*hinted(1, subset))
    assert destination_of(context.written[0]) == f"{A},{C}"


async def test_a_subset_that_is_not_allowed_is_ignored() -> None:
    context = await served(*hinted(0, [B]), options=Options(subset=False))
    assert destination_of(context.written[0]) == f"{A},{B},{C}"


async def test_a_subset_is_compared_with_its_ports() -> None:
    context = await served(*hinted(0, ["127.0.0.1:8002"]))
    assert destination_of(context.written[0]) == C


@pytest.mark.parametrize("subset", ["[FD00:0:0::2]:8000", ["[fd00::2]:8000"]])
async def test_a_subset_may_have_ipv6_addresses(subset: Any) -> None:
    setup = Given(make_endpoint("a", address="fd00::1"), make_endpoint("b", address="fd00::2"))
    context = await setup.serve(*hinted(0, subset))
    assert destination_of(context.written[0]) == "[fd00::2]:8000"


@pytest.mark.parametrize("subset", [["10.9.9.9:80"], "10.9.9.9:80", [], "", ["127.0.0.1"], ["b"], [7], [None]], ids=str)
async def test_a_request_whose_subset_matches_no_endpoint_is_rejected(subset: Any) -> None:
    setup = Given()
    status, reason, error = rejection_in(await setup.serve(*hinted(1, subset)))
    assert (status, reason) == (503, "rejected-no-endpoints")
    assert "none of the endpoints that the proxy asks for" in error["message"]
    assert (setup.entries, setup.is_at_rest) == (["refused NoEndpointsError"], True)


@pytest.mark.parametrize("subset", [None, 7, True, {"a": "b"}], ids=str)
async def test_a_subset_that_is_no_list_of_addresses_is_ignored(subset: Any) -> None:
    context = await served(*hinted(1, subset))
    assert destination_of(context.written[0]) == f"{A},{B},{C}"


async def test_a_subset_does_not_bring_back_an_endpoint_that_is_down() -> None:
    setup = Given()
    setup.pool.mark_down(ENDPOINTS[1], "gone")
    assert rejection_in(await setup.serve(*hinted(0, [B])))[:2] == (503, "rejected-no-endpoints")


# -- headers


async def test_headers_that_only_the_router_sets_are_removed() -> None:
    given = dict.fromkeys(FOR_THE_ROUTER, "x")
    context = await served(request_headers({**given, "x-b": "2"}), request_body(CHAT, ends=True))
    assert set(removed_by(change_of(context))) == FOR_THE_ROUTER - {DESTINATION}
    assert set_by(change_of(context))[DESTINATION] == f"{A},{B},{C}"


async def test_only_headers_that_are_there_are_removed() -> None:
    context = await served(*ASKED)
    assert (removed_by(change_of(context)), set(set_by(change_of(context)))) == ([], {DESTINATION})


async def test_a_request_without_an_id_gets_one_that_its_response_has_too() -> None:
    context = await served(request_headers(), request_body(CHAT, ends=True), *ANSWERED)
    made = set_by(change_of(context))["x-request-id"]
    assert len(made) == 32
    assert set_by(context.written[2].response_headers.response)["x-request-id"] == made


@pytest.mark.parametrize("given", ["x" * 201, "é", " "], ids=["too long", "not ascii", "blank"])
async def test_an_invalid_id_is_replaced(given: str) -> None:
    setup = Given()
    context = await setup.serve(request_headers({"x-request-id": given}), request_body(CHAT, ends=True))
    assert set_by(change_of(context))["x-request-id"] == setup.diary.requests[0].id != given


async def test_a_response_names_its_endpoint() -> None:
    context = await served(*ASKED, *ANSWERED)
    headers = set_by(context.written[2].response_headers.response)
    assert headers == {MARK: "true", "x-request-id": "r1", SERVED: A}


async def test_a_response_is_from_the_best_endpoint_if_the_proxy_does_not_say() -> None:
    context = await served(*ASKED, answer_headers(ends=True))
    assert set_by(context.written[2].response_headers.response)[SERVED] == A


async def test_an_endpoint_can_not_set_the_reason_of_a_rejection() -> None:
    context = await served(*ASKED, answer_headers(429, fields={REASON_HEADER: "mine"}, ends=True))
    assert removed_by(context.written[2].response_headers.response) == [REASON_HEADER]


# -- another model

SPACED = b'{ "zebra" : 1.0,"model"\t:  "demo", "messages":[{"role":"user","content":"model \\ud83d demo"}],"z":{"model":"demo"}}'
REWRITTEN = SPACED.replace(b'"model"\t:  "demo"', b'"model"\t:  "other"')


@pytest.mark.parametrize("name", ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"])
@pytest.mark.parametrize("mode", [DUPLEX, BUFFERED])
async def test_another_model_changes_no_other_byte(name: str, mode: int) -> None:
    setup = Given()
    context = await setup.serve(request_headers({name: " other "}, mode=mode), request_body(SPACED, ends=True))
    if mode == DUPLEX:
        change = change_of(context)
        assert [chunk.data for chunk in chunks_of(context.written)] == [REWRITTEN]
    else:
        change = context.written[1].request_body.response
        assert change.body_mutation.body == REWRITTEN
    assert set_by(change)["content-length"] == str(len(REWRITTEN))
    assert removed_by(change) == [name]
    assert setup.diary.requests[0].model == "other"


async def test_a_compressed_body_with_another_model_is_forwarded_uncompressed() -> None:
    headers = {"content-encoding": "gzip", "x-llm-d-model-name-rewrite": "other"}
    context = await served(request_headers(headers), request_body(gzip.compress(SPACED), ends=True))
    assert [chunk.data for chunk in chunks_of(context.written)] == [REWRITTEN]
    assert set_by(change_of(context))["content-length"] == str(len(REWRITTEN))
    assert set(removed_by(change_of(context))) == set(headers)


async def test_a_compressed_body_is_forwarded_as_it_came() -> None:
    setup, body = Given(), gzip.compress(SPACED)
    context = await setup.serve(request_headers({"content-encoding": "gzip"}), request_body(body, ends=True))
    assert [chunk.data for chunk in chunks_of(context.written)] == [body]
    assert (set(set_by(change_of(context))), removed_by(change_of(context))) == ({DESTINATION, "x-request-id"}, [])
    assert (setup.diary.requests[0].model, setup.diary.requests[0].size) == ("demo", len(body))


async def test_the_same_model_changes_nothing() -> None:
    headers = request_headers({"x-llm-d-model-name-rewrite": "demo"})
    context = await served(headers, request_body(SPACED, ends=True))
    assert [chunk.data for chunk in chunks_of(context.written)] == [SPACED]
    assert "content-length" not in set_by(change_of(context))


async def test_a_model_that_no_endpoint_has_may_be_replaced() -> None:
    setup = Given()
    for endpoint in ENDPOINTS:
        setup.pool.record_models(endpoint, frozenset({"other"}))
    headers = request_headers({"x-llm-d-model-name-rewrite": "other"})
    context = await setup.serve(headers, request_body(SPACED, ends=True))
    assert destination_of(context.written[0]) == f"{A},{B},{C}"


async def test_a_body_with_invalid_utf_8_can_be_given_another_model() -> None:
    body = b'{"model":"demo","messages":[{"role":"user","content":"\xed\xa0\x80"}]}'
    headers = request_headers({"x-llm-d-model-name-rewrite": "other"})
    context = await served(headers, request_body(body, ends=True))
    assert [chunk.data for chunk in chunks_of(context.written)] == [body.replace(b"demo", b"other")]


# -- rejections


def down(setup: Given) -> None:
    for status in setup.pool.statuses():
        setup.pool.mark_down(status.endpoint, "gone")


def of_another_model(setup: Given) -> None:
    for status in setup.pool.statuses():
        setup.pool.record_models(status.endpoint, frozenset({"other"}))


def nothing(_: Given) -> None:
    pass


def with_body(data: bytes, **fields: str) -> list[ProcessingRequest]:
    return [request_headers({"x-request-id": "r1", **fields}), request_body(data, ends=True)]


REJECTIONS: dict[str, Any] = {
    "no JSON": (with_body(b"{"), {}, nothing, 400, "rejected-bad-request", BadRequestError, 3),
    "no body": ([request_headers(ends=True)], {}, nothing, 400, "rejected-bad-request", BadRequestError, 3),
    "no parser": (
        [request_headers({":path": "/x"}), request_body(CHAT, ends=True)],
        *({}, nothing, 400, "rejected-bad-request", BadRequestError, 3),
    ),
    "not gzip": (
        with_body(CHAT, **{"content-encoding": "gzip"}),
        *({}, nothing, 400, "rejected-bad-request", BadRequestError, 3),
    ),
    "no such model": (ASKED, {}, of_another_model, 404, "rejected-unknown-model", ModelNotFoundError, 5),
    "too large": (
        with_body(b"x" * 1001),
        *({"limits": Limits(body_bytes=1000)}, nothing, 413, "rejected-too-large", BodyTooLargeError, 8),
    ),
    "inflates to too much": (
        with_body(gzip.compress(b"x" * 1001), **{"content-encoding": "gzip"}),
        *({"limits": Limits(body_bytes=1000)}, nothing, 413, "rejected-too-large", BodyTooLargeError, 8),
    ),
    "filters leave none": (
        ASKED,
        *({"profile": make_profile(filters=[keep()])}, nothing, 429, "rejected-saturated", SaturatedError, 8),
    ),
    "all are down": (ASKED, {}, down, 503, "rejected-no-endpoints", NoEndpointsError, 14),
    "a picker that raises": (
        ASKED,
        *({"profile": make_profile(picker=LookupError("secret"))}, nothing, 500, "internal-error", PluginError, 13),
    ),
}


@pytest.mark.parametrize(
    ("messages", "given", "prepare", "status", "reason", "kind", "grpc_status"), REJECTIONS.values(), ids=REJECTIONS
)
async def test_a_request_that_can_not_be_served_is_rejected(
    messages: Sequence[ProcessingRequest],
    given: dict[str, Any],
    prepare: Callable[[Given], None],
    status: int,
    reason: str,
    kind: type[RoutingError],
    grpc_status: int,
) -> None:
    setup = Given(**given)
    prepare(setup)
    context = await setup.serve(*messages, *ANSWERED)
    assert rejection_in(context)[:2] == (status, reason)
    assert rejection_in(context)[2]["message"]
    assert "secret" not in str(rejection_in(context))
    assert context.written[-1].immediate_response.grpc_status.status == grpc_status
    assert set_by(context.written[-1].immediate_response)["x-request-id"]
    assert kinds_of(context.written) == ["immediate_response"]
    assert [type(error) for error in setup.diary.refusals] == [kind]
    assert (setup.is_at_rest, context.left, context.aborted) == (True, len(ANSWERED), None)


async def test_an_error_has_the_form_of_the_openai_api() -> None:
    error = rejection_in(await served(*with_body(b"{")))[2]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, None)


async def test_a_rejection_has_the_request_s_id() -> None:
    context = await served(*with_body(b"{"))
    assert set_by(context.written[0].immediate_response)["x-request-id"] == "r1"


async def test_a_body_is_rejected_when_it_becomes_too_large() -> None:
    setup = Given(limits=Limits(body_bytes=10))
    context = await setup.serve(request_headers(), *request_pieces([b"x" * 6, b"x" * 6, b"x" * 6]))
    assert (rejection_in(context)[0], context.left) == (413, 1)
    assert setup.entries == ["refused BodyTooLargeError"]


async def test_requests_are_rejected_while_the_process_stops() -> None:
    setup = Given()
    setup.admission.draining = True
    context = await setup.serve(*ASKED)
    assert rejection_in(context)[:2] == (503, "rejected-shutting-down")
    assert [type(error) for error in setup.diary.refusals] == [ShuttingDownError]
    assert (setup.is_at_rest, context.left) == (True, 1)
    assert set_by(context.written[0].immediate_response)["x-request-id"] == "r1"


async def test_requests_over_the_limit_are_rejected() -> None:
    setup = Given(limits=Limits(in_flight=1))
    first = FakeContext(*ASKED, stalls=True)
    task = setup.begin(first)
    await first.stalled.wait()
    assert rejection_in(await setup.serve(*ASKED))[:2] == (429, "rejected-saturated")
    task.cancel()
    await asyncio.wait([task])
    assert (await setup.serve(*ASKED, *ANSWERED)).aborted is None
    assert (setup.is_at_rest, setup.counts) == (True, {})


@pytest.mark.parametrize(("limit", "admitted"), [(0, True), (1, False), (2, True)])
async def test_requests_of_the_previous_configuration_count_towards_the_limit(limit: int, admitted: bool) -> None:
    setup = Given(limits=Limits(in_flight=1))
    first, second = FakeContext(*ASKED, stalls=True), FakeContext(*ASKED, *ANSWERED)
    task = setup.begin(first)
    await first.stalled.wait()
    await setup.processor_with(Limits(in_flight=limit)).process(second)
    assert (kinds_of(second.written) != ["immediate_response"]) is admitted
    task.cancel()
    await asyncio.wait([task])
    assert setup.is_at_rest


async def test_a_stream_that_ends_at_once_gets_no_rejection() -> None:
    setup = Given()
    setup.admission.draining = True
    context = await setup.serve()
    assert (context.written, setup.entries, setup.is_at_rest) == ([], [], True)


async def test_a_bug_of_ours_is_an_internal_error() -> None:
    setup = Given(parsers=Buggy())
    assert rejection_in(await setup.serve(*ASKED))[0] == 500
    assert setup.is_at_rest


async def test_a_bug_of_ours_during_a_response_ends_the_stream() -> None:
    setup = Given()
    setup.router.on_failure = lambda *_: Buggy().parse(None)
    context = await setup.serve(*ASKED, answer_headers(served=B))
    assert (rejection_in(context)[0], setup.is_at_rest) == (500, True)


@pytest.mark.parametrize("error", [grpc.aio.AbortError(), grpc.aio.UsageError(), grpc.aio.BaseError()], ids=repr)
async def test_a_stream_that_takes_no_message_is_given_up(error: Exception) -> None:
    setup, context = Given(), FakeContext(*ASKED)
    context.failure = error
    with pytest.raises(type(error)):
        await setup.processor.process(context)
    assert (setup.is_at_rest, context.written) == (True, [])


# -- plugins that fail


async def test_observers_that_raise_break_nothing() -> None:
    setup = Given(observers=[Broken()])
    context = await setup.serve(*ASKED, *ANSWERED)
    assert kinds_of(context.written) == ["request_headers", "request_body", "response_headers", "response_body"]
    assert [fault.extension_point for fault in setup.faults] == ["OnScheduled", "OnFirstToken", "OnFinished"]
    assert setup.is_at_rest


async def test_an_observer_that_raises_at_a_rejection_breaks_nothing() -> None:
    setup = Given(observers=[Broken()])
    assert rejection_in(await setup.serve(*with_body(b"{")))[0] == 400
    assert [fault.extension_point for fault in setup.faults] == ["OnRefused"]


async def test_a_scorer_that_raises_costs_only_its_scores() -> None:
    setup = Given(profile=make_profile(scorers=[LookupError("oh")]))
    context = await setup.serve(*ASKED, *ANSWERED)
    assert destination_of(context.written[0]) == f"{A},{B},{C}"
    assert [fault.plugin for fault in setup.faults] == ["scorer-0"]


# -- the endpoint that served


async def test_the_first_endpoint_served() -> None:
    setup = Given()
    await setup.serve(*ASKED, *ANSWERED)
    assert setup.entries == ["scheduled a", "first token a", "finished a"]
    assert (setup.endings, setup.failures) == ([(Ending.COMPLETED, True)], [])


async def test_a_request_that_the_second_endpoint_served_is_counted_there() -> None:
    setup = Given()
    context = FakeContext(*ASKED, answer_headers(kind=SSE, served=B), answer_body(EVENTS), stalls=True)
    task = setup.begin(context)
    await context.stalled.wait()
    assert setup.counts == {"b": 1}
    assert setup.entries == ["scheduled a", "finished a", "scheduled b", "first token b"]
    assert setup.endings == [(Ending.UPSTREAM_FAILED, False)]
    assert [name for name, _ in setup.failures] == ["a"]
    assert set_by(context.written[2].response_headers.response)[SERVED] == B
    task.cancel()
    await asyncio.wait([task])
    assert (setup.is_at_rest, setup.endings[1:]) == (True, [(Ending.CLIENT_LEFT, True)])


async def test_the_endpoint_that_served_may_be_an_attribute() -> None:
    setup = Given()
    await setup.serve(*ASKED, answer_headers(ends=True, attributes={"upstream.address": C}))
    assert setup.entries[-1] == "finished c"
    assert [name for name, _ in setup.failures] == ["a", "b"]


@pytest.mark.parametrize("address", ["10.9.9.9:80", "nonsense", "127.0.0.1"])
async def test_an_unknown_address_changes_nothing(address: str) -> None:
    setup = Given()
    await setup.serve(*ASKED, answer_headers(ends=True, served=address))
    assert setup.entries == ["scheduled a", "finished a"]


# -- failures that the proxy reports


@pytest.mark.parametrize(
    ("details", "status", "reason", "kind"),
    [
        ("upstream_reset_before_response_started{connection_termination}", 503, "upstream-failed", UpstreamError),
        ("upstream_response_timeout", 504, "upstream-timeout", UpstreamTimeoutError),
        ("no_healthy_upstream", 503, "upstream-failed", UpstreamError),
    ],
)
async def test_a_failure_that_the_proxy_reports_is_the_endpoint_s(
    details: str, status: int, reason: str, kind: type[UpstreamError]
) -> None:
    setup = Given()
    failed = answer_headers(503, "text/plain", attributes={"response.code_details": details})
    context = await setup.serve(*ASKED, failed, answer_body(b"no", ends=True))
    assert rejection_in(context)[:2] == (status, reason)
    assert [(name, type(failure)) for name, failure in setup.failures] == [("a", kind)]
    assert setup.endings == [(Ending.UPSTREAM_FAILED, False)]
    assert setup.entries == ["scheduled a", "finished a", f"refused {kind.__name__}"]
    assert setup.is_at_rest


async def test_a_failure_of_the_second_endpoint_is_its_own() -> None:
    setup = Given()
    failed = answer_headers(503, served=B, attributes={"response.code_details": "upstream_reset"})
    await setup.serve(*ASKED, failed)
    assert [name for name, _ in setup.failures] == ["a", "b"]
    assert setup.endings == [(Ending.UPSTREAM_FAILED, False)] * 2


@pytest.mark.parametrize("details", ["via_upstream", "direct_response", "ext_authz_denied", ""])
async def test_an_error_response_for_another_reason_is_forwarded(details: str) -> None:
    setup = Given()
    head = answer_headers(403, "text/plain", attributes={"response.code_details": details})
    context = await setup.serve(*ASKED, head, answer_body(b"no", ends=True))
    assert kinds_of(context.written)[2:] == ["response_headers", "response_body"]
    assert (setup.failures, setup.diary.outcomes[0].status) == ([], 403)


# -- token usage


def sse(*pieces: bytes) -> list[ProcessingRequest]:
    return [answer_headers(kind=SSE), *answer_pieces(pieces)]


@pytest.mark.parametrize(
    "response",
    [
        pytest.param([answer_headers(), *answer_pieces([ANSWER])], id="JSON"),
        pytest.param([answer_headers(), *answer_pieces([ANSWER[:9], ANSWER[9:], b""])], id="JSON in chunks"),
        pytest.param([answer_headers(), *answer_pieces([ANSWER], trailers=True)], id="JSON with trailers"),
        pytest.param(sse(EVENTS), id="events"),
        pytest.param(sse(EVENTS[:60], EVENTS[60:61], EVENTS[61:]), id="events in chunks"),
        pytest.param(sse(EVENTS.rstrip()), id="events without a last newline"),
        pytest.param([answer_headers(kind=SSE), *answer_pieces([EVENTS], trailers=True)], id="events with trailers"),
    ],
)
@pytest.mark.parametrize("mode", [DUPLEX, BUFFERED, STREAMED])
async def test_an_outcome_has_the_usage_of_the_response(response: Sequence[ProcessingRequest], mode: int) -> None:
    setup = Given()
    await setup.serve(request_headers(mode=DUPLEX, answer_mode=mode), request_body(CHAT, ends=True), *response)
    (outcome,) = setup.diary.outcomes
    assert (outcome.usage, outcome.ending) == (Usage(7, 3, 4), Ending.COMPLETED)


@pytest.mark.parametrize(
    "response",
    [
        pytest.param([answer_headers(kind="text/plain"), *answer_pieces([ANSWER])], id="text"),
        pytest.param([answer_headers(fields={"content-encoding": "gzip"}), *answer_pieces([ANSWER])], id="compressed"),
        pytest.param([answer_headers(), *answer_pieces([b"{}"])], id="JSON without usage"),
        pytest.param([answer_headers(ends=True)], id="no body"),
    ],
)
async def test_usage_that_is_not_reported_is_unknown(response: Sequence[ProcessingRequest]) -> None:
    setup = Given()
    await setup.serve(*ASKED, *response)
    assert [outcome.usage for outcome in setup.diary.outcomes] == [None]


async def test_usage_that_was_reported_before_a_stream_ended_early_is_known() -> None:
    setup = Given()
    await setup.serve(*ASKED, answer_headers(kind=SSE), answer_body(EVENTS))
    (outcome,) = setup.diary.outcomes
    assert (outcome.usage, outcome.ending) == (Usage(7, 3, 4), Ending.CLIENT_LEFT)


async def test_an_outcome_has_the_size_and_the_status_of_the_response() -> None:
    setup = Given()
    await setup.serve(*ASKED, answer_headers(201, SSE), *answer_pieces([b"one", b"two"]))
    (outcome,) = setup.diary.outcomes
    assert (outcome.response_bytes, outcome.status, outcome.attempts) == (6, 201, 1)


# -- the first token

ROLE = b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
TOKEN = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'
STREAM = [(1.0, None), (2.0, b": ping\n\n"), (4.0, ROLE + TOKEN), (7.0, TOKEN), (8.0, b"data: [DONE]\n\n")]
"""A stream: when the head, which is None, and the chunks of its body arrive."""


class TimedContext(FakeContext):
    """A stream that delivers each message at its time, as the clock of `setup` shows."""

    def __init__(self, setup: Given, *messages: tuple[float, ProcessingRequest]) -> None:
        super().__init__(*(message for _, message in messages))
        self._clock = setup.clock
        self._start = setup.clock.now()
        self._times = [time for time, _ in messages]

    async def read(self) -> Any:
        if self._times:
            self._clock.advance(self._start + self._times.pop(0) - self._clock.now())
        return await super().read()


async def timed(
    mode: int | None, *response: tuple[float, ProcessingRequest], path: str = "/v1/chat/completions", body: bytes = CHAT
) -> Given:
    """A request whose response arrives at these times, in seconds after the request, after its end."""
    setup = Given()
    headers = request_headers({":path": path}, mode=None if mode is None else DUPLEX, answer_mode=mode or 0)
    await setup.processor.process(TimedContext(setup, (0, headers), (0, request_body(body, ends=True)), *response))
    assert setup.is_at_rest
    return setup


def streamed(status: int = 200) -> list[tuple[float, ProcessingRequest]]:
    """`STREAM` as a proxy sends it that sends chunks as they arrive."""
    return [
        (time, answer_headers(status, kind=SSE) if data is None else answer_body(data, ends=time == STREAM[-1][0]))
        for time, data in STREAM
    ]


def buffered(kind: str = SSE, body: bytes = b"".join(data or b"" for _, data in STREAM)) -> Any:
    """A response as a proxy sends it that buffers bodies."""
    return [(1.0, answer_headers(kind=kind)), (8.0, answer_body(body, ends=True))]


@pytest.mark.parametrize(
    ("mode", "response", "first_token", "exact", "time_per_output_token"),
    [
        pytest.param(None, streamed(), 4.0, True, 2.0, id="no mode"),
        pytest.param(DUPLEX, streamed(), 4.0, True, 2.0, id="duplex"),
        pytest.param(STREAMED, streamed(), 4.0, True, 2.0, id="streamed"),
        pytest.param(NONE, streamed()[:1], 1.0, False, None, id="no bodies"),
        pytest.param(BUFFERED, buffered(), 1.0, False, None, id="buffered"),
        pytest.param(BUFFERED_PARTIAL, buffered(), 1.0, False, None, id="buffered partially"),
        pytest.param(BUFFERED, buffered("text/plain"), 1.0, False, None, id="buffered text"),
        pytest.param(BUFFERED, buffered(JSON, ANSWER), 8.0, True, None, id="buffered JSON"),
        pytest.param(BUFFERED_PARTIAL, buffered(JSON, ANSWER), 8.0, True, None, id="buffered JSON, partially"),
        pytest.param(NONE, [(1.0, answer_headers())], 1.0, False, None, id="no bodies of JSON"),
        pytest.param(DUPLEX, buffered(JSON, ANSWER), 8.0, True, None, id="JSON"),
        pytest.param(STREAMED, streamed()[:2], None, True, None, id="no content"),
        *(
            pytest.param(mode, streamed(500)[:count], None, True, None, id=f"error in mode {mode}")
            for mode, count in ((DUPLEX, 5), (STREAMED, 5), (BUFFERED, 5), (NONE, 1))
        ),
        *(
            pytest.param(
                mode, [(1.0, answer_headers(kind=SSE, ends=True))], None, True, None, id=f"empty in mode {mode}"
            )
            for mode in (DUPLEX, STREAMED, BUFFERED, NONE)
        ),
    ],
)
async def test_the_first_token_is_timed_in_every_mode(
    mode: int | None, response: Any, first_token: float | None, exact: bool, time_per_output_token: float | None
) -> None:
    setup = await timed(mode, *response)
    (outcome,) = setup.diary.outcomes
    assert (outcome.head, outcome.first_token, outcome.first_token_exact) == (1.0, first_token, exact)
    assert outcome.time_per_output_token == time_per_output_token
    assert setup.entries.count("first token a") == (first_token is not None)


async def test_the_responses_api_has_its_first_token_at_its_first_delta() -> None:
    created, delta = b'data: {"type": "created"}\n\n', b'data: {"type": "output_text.delta"}\n\n'
    response = [(1.0, answer_headers(kind=SSE)), (2.0, answer_body(created)), (3.0, answer_body(delta, ends=True))]
    setup = await timed(STREAMED, *response, path="/v1/responses?a=1", body=b'{"model": "demo", "input": "hi"}')
    assert [outcome.first_token for outcome in setup.diary.outcomes] == [3.0]


async def test_a_buffered_stream_has_the_usage_and_the_size_of_its_body() -> None:
    (outcome,) = (await timed(BUFFERED, *buffered(SSE, EVENTS))).diary.outcomes
    assert (outcome.usage, outcome.response_bytes, outcome.first_token) == (Usage(7, 3, 4), len(EVENTS), 1.0)


# -- the end of a stream

WHOLE = [
    request_headers(),
    request_body(CHAT[:9]),
    request_body(CHAT[9:]),
    request_trailers(),
    answer_headers(kind=SSE, served=B),
    answer_body(b"one"),
    answer_body(b"two"),
    answer_trailers(),
]
SCHEDULED_AT, BEGUN_AT = 4, 5
"""Messages after which the request is routed, and after which its response has begun."""


@pytest.mark.parametrize("count", range(len(WHOLE) + 1))
async def test_a_stream_may_end_anywhere(count: int) -> None:
    setup = Given()
    context = await setup.serve(*WHOLE[:count])
    endings = {0: [], SCHEDULED_AT: [(Ending.CLIENT_LEFT, True)]}.get(count)
    if endings is None:
        last = (Ending.COMPLETED if count == len(WHOLE) else Ending.CLIENT_LEFT, True)
        endings = [(Ending.UPSTREAM_FAILED, False), last] if count >= BEGUN_AT else []
    assert (setup.endings, setup.is_at_rest, context.aborted) == (endings, True, None)
    assert setup.diary.refusals == []


@pytest.mark.parametrize("count", range(len(WHOLE)))
async def test_a_stream_may_be_cancelled_while_it_waits(count: int) -> None:
    setup, context = Given(), FakeContext(*WHOLE[:count], stalls=True)
    task = setup.begin(context)
    await context.stalled.wait()
    assert setup.in_flight.total == (count >= SCHEDULED_AT)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), setup.is_at_rest) == (True, True)
    assert setup.endings[-1:] == ([(Ending.CLIENT_LEFT, True)] if count >= SCHEDULED_AT else [])


@pytest.mark.parametrize("row", range(7))
async def test_a_stream_may_be_cancelled_while_it_sends(row: int) -> None:
    setup, context = Given(), FakeContext(*WHOLE, stalls_at_write=row)
    task = setup.begin(context)
    await context.stalled.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), setup.is_at_rest, len(context.written)) == (True, True, row)
    complete = row == 6  # the proxy had no more to send
    assert setup.endings[-1] == (Ending.COMPLETED if complete else Ending.CLIENT_LEFT, True)


async def test_a_stream_may_be_cancelled_during_a_rejection() -> None:
    setup, context = Given(), FakeContext(*with_body(b"{"), stalls_at_write=0)
    task = setup.begin(context)
    await context.stalled.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), setup.is_at_rest) == (True, True)


class Waiting:
    """A producer that never finishes."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def produce(self, request: Any, pool: Any) -> Any:
        self.began.set()
        await asyncio.Event().wait()


async def test_a_stream_may_be_cancelled_while_facts_are_gathered() -> None:
    producer = Waiting()
    setup = Given(producers=[producer])
    task = asyncio.create_task(setup.serve(*ASKED))
    await producer.began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), setup.entries, setup.is_at_rest) == (True, [], True)


@pytest.mark.parametrize(
    ("messages", "endings"),
    [
        pytest.param([request_body(b"q")], [], id="before the request"),
        pytest.param([request_headers(), request_headers()], [], id="within the request"),
        pytest.param([*ASKED, request_headers()], [False], id="before the response"),
        pytest.param([*ASKED, answer_headers(), answer_headers()], [True], id="within the response"),
        pytest.param([ProcessingRequest()], [], id="nothing"),
    ],
)
async def test_a_proxy_that_violates_the_protocol_gets_a_status(messages: Any, endings: list[bool]) -> None:
    setup, context = Given(), FakeContext(*messages, *ASKED)
    with pytest.raises(grpc.aio.AbortError):
        await setup.processor.process(context)
    assert context.aborted is not None
    assert context.aborted[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert (setup.is_at_rest, [outcome.head is not None for outcome in setup.diary.outcomes]) == (True, endings)
    assert setup.failures == []


async def test_a_proxy_in_observability_mode_gets_no_response() -> None:
    setup = Given()
    context = await setup.serve(request_headers(watches=True), request_body(CHAT, ends=True))
    assert (context.written, setup.entries, setup.is_at_rest, context.aborted) == ([], [], True, None)


async def test_a_response_of_the_proxy_s_own_is_forwarded() -> None:
    setup = Given()
    context = await setup.serve(request_headers(), answer_headers(403, "text/plain"), answer_body(b"no", ends=True))
    assert kinds_of(context.written) == ["response_headers", "response_body"]
    assert not context.written[0].response_headers.HasField("response")
    assert (setup.entries, setup.is_at_rest, context.aborted) == ([], True, None)


async def test_a_response_whose_body_is_not_sent_is_complete_when_the_stream_ends() -> None:
    setup = Given()
    await setup.serve(request_headers(mode=DUPLEX, answer_mode=NONE), request_body(CHAT, ends=True), answer_headers())
    assert setup.endings == [(Ending.COMPLETED, True)]


async def test_a_response_without_a_body_is_complete() -> None:
    setup = Given()
    context = await setup.serve(*ASKED, answer_headers(204, ends=True), answer_body(b"?"))
    assert (setup.endings, context.left) == ([(Ending.COMPLETED, True)], 1)


async def test_a_response_without_its_end_counts_as_client_left() -> None:
    setup = Given()
    await setup.serve(*ASKED, answer_headers(), answer_body(b"{"))
    assert setup.endings == [(Ending.CLIENT_LEFT, True)]


@pytest.mark.parametrize("mode", [STREAMED, NONE])
async def test_the_rest_of_a_request_is_forwarded_before_the_response(mode: int) -> None:
    setup = Given()
    pieces = request_pieces([b"a", b"b"], trailers=True) if mode == STREAMED else [request_trailers()]
    context = await setup.serve(request_headers(mode=mode, answer_mode=DUPLEX), *pieces, *ANSWERED)
    kinds = [str(message.WhichOneof("request")) for message in (request_headers(), *pieces, *ANSWERED)]
    assert kinds_of(context.written) == kinds
    assert setup.endings == [(Ending.COMPLETED, True)]


MESSAGES = st.sampled_from(
    [
        *(request_headers(mode=mode, ends=ends) for mode in (DUPLEX, BUFFERED, STREAMED) for ends in (False, True)),
        hinting(request_headers(), [B]),
        hinting(request_headers(), [NOBODY]),
        *(request_headers({"x-llm-d-model-name-rewrite": "other"}), request_headers(mode=DUPLEX, answer_mode=NONE)),
        *(request_body(CHAT), request_body(CHAT, ends=True), request_body(b"{", ends=True), request_body(ends=True)),
        *(request_trailers(), ProcessingRequest(), request_headers(watches=True)),
        *(answer_headers(kind=SSE, served=B), answer_headers(), answer_headers(ends=True)),
        answer_headers(503, attributes={"response.code_details": "upstream_reset"}),
        *(answer_body(EVENTS), answer_body(ANSWER, ends=True), answer_trailers()),
    ]
)


@settings(max_examples=200, deadline=None)
@given(before=st.lists(MESSAGES, max_size=5), asks=st.booleans(), after=st.lists(MESSAGES, max_size=5))
async def test_any_messages_leave_nothing_over(
    before: list[ProcessingRequest], asks: bool, after: list[ProcessingRequest]
) -> None:
    setup, context = Given(), FakeContext(*(ASKED if asks else before), *after)
    with suppress(grpc.aio.AbortError):
        await setup.processor.process(context)
    assert setup.is_at_rest
    assert sum(kind == "immediate_response" for kind in kinds_of(context.written)) <= 1
    assert [outcome.final for outcome in setup.diary.outcomes].count(True) <= 1


async def test_streams_do_not_affect_each_other() -> None:
    setup = Given()
    contexts = [FakeContext(*ASKED, *ANSWERED) for _ in range(20)]
    await asyncio.gather(*(setup.processor.process(context) for context in contexts))
    assert len({tuple(map(ProcessingResponse.SerializeToString, context.written)) for context in contexts}) == 1
    assert setup.is_at_rest
