"""One request as messages: in every mode nothing is lost or sent twice, and messages out of place are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest, ProcessingResponse
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import BodyTooLargeError
from app.transports.ext_proc.stream import COLLECTED, Arrived, ProtocolError, ResponseChunk, ResponseStarted, Stream
from app.transports.ext_proc.writing import LARGEST_CHUNK, Forward
from tests.support.ext_proc import (
    BUFFERED,
    BUFFERED_PARTIAL,
    DUPLEX,
    GRPC,
    JSON,
    NONE,
    SSE,
    STREAMED,
    Chunk,
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

FORWARD = Forward("10.0.0.1:8000")
LIMIT = 1000
MODES = {
    "duplex": DUPLEX,
    "not announced": None,
    "buffered": BUFFERED,
    "partly buffered": BUFFERED_PARTIAL,
    "streamed": STREAMED,
    "none": NONE,
}
ALL_MODES = [pytest.param(mode, id=name) for name, mode in MODES.items()]
DUPLEX_MODES = [pytest.param(MODES[name], id=name) for name in ("duplex", "not announced")]
BUFFERED_MODES = [pytest.param(MODES[name], id=name) for name in ("buffered", "partly buffered")]
HEADERS_ONLY_MODES = [pytest.param(MODES[name], id=name) for name in ("streamed", "none")]
OPENING = [request_headers(), request_body(b"q", ends=True)]


class Proxy:
    """A stream, the events of its messages, and its replies."""

    def __init__(self, *, body_limit: int = 10**9) -> None:
        self.stream = Stream(body_limit=body_limit)
        self.events: list[Any] = []
        self.replies: list[ProcessingResponse] = []

    def send(self, *messages: ProcessingRequest, forward: Forward = FORWARD) -> Proxy:
        """Sends the messages, and takes the next step after those that need one."""
        for message in messages:
            event = self.stream.receive(message)
            if event is not None:
                self.events.append(event)
            if isinstance(event, Arrived):
                self.stream.forward(forward)
            if isinstance(event, ResponseStarted):
                self.stream.begin_response({"x-a": "1"})
            self.replies += self.stream.take()
        return self

    @property
    def arrived(self) -> Arrived:
        (event,) = (event for event in self.events if isinstance(event, Arrived))
        return event

    @property
    def kinds(self) -> list[str]:
        return kinds_of(self.replies)

    def returned(self, kind: str = "response_body") -> list[Chunk]:
        return chunks_of(self.replies, kind)


def request(*messages: ProcessingRequest, **given: Any) -> Proxy:
    """A forwarded request of these messages."""
    return Proxy(**given).send(*messages)


def response(*messages: ProcessingRequest, mode: int | None = DUPLEX, response_mode: int = DUPLEX) -> Proxy:
    """A response of these messages to a request without a body, without the events and replies of the request."""
    proxy = Proxy().send(request_headers(ends=True, mode=mode, answer_mode=response_mode))
    proxy.events.clear()
    proxy.replies.clear()
    return proxy.send(*messages)


def is_whole(chunks: Sequence[Chunk], data: bytes) -> bool:
    """Whether the chunks are `data`, none too large, and only the last one has the end."""
    ends = [chunk.ends for chunk in chunks]
    fits = all(len(chunk.data) <= LARGEST_CHUNK for chunk in chunks)
    return fits and b"".join(chunk.data for chunk in chunks) == data and ends == [False] * (len(ends) - 1) + [True]


# -- the request


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_request_without_a_body_is_forwarded_with_its_headers(mode: int | None) -> None:
    proxy = request(request_headers({"x-b": "2"}, ends=True, mode=mode))
    assert (proxy.arrived.body, proxy.arrived.whole, proxy.arrived.headers["x-b"]) == (b"", True, "2")
    assert proxy.kinds == ["request_headers"]
    assert destination_of(proxy.replies[0]) == "10.0.0.1:8000"
    assert proxy.replies[0].request_headers.response.clear_route_cache


@pytest.mark.parametrize("mode", DUPLEX_MODES)
@pytest.mark.parametrize(
    "chunks",
    [(b"hello",), (b"he", b"llo"), (*(b"h", b"e", b"l", b"l", b"o"), b""), (b"", b"hello", b""), (b"", b"")],
    ids=["one", "two", "many and an empty end", "empty chunks", "nothing"],
)
def test_nothing_is_sent_before_the_whole_request_has_arrived(mode: int | None, chunks: Sequence[bytes]) -> None:
    proxy = Proxy()
    *first, last = [request_headers(mode=mode), *request_pieces(chunks)]
    proxy.send(*first)
    assert (proxy.replies, proxy.events) == ([], [])
    proxy.send(last)
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"".join(chunks), True)
    assert proxy.kinds == ["request_headers", "request_body"]
    assert chunks_of(proxy.replies) == [Chunk(b"".join(chunks), ends=True)]


@pytest.mark.parametrize("mode", DUPLEX_MODES)
def test_trailers_end_a_body(mode: int | None) -> None:
    proxy = request(request_headers(mode=mode), *request_pieces([b"he", b"llo"], trailers=True))
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"hello", True)
    assert proxy.kinds == ["request_headers", "request_body", "request_trailers"]
    assert chunks_of(proxy.replies) == [Chunk(b"hello", ends=False)]


def test_trailers_may_follow_the_headers() -> None:
    proxy = request(request_headers(), request_trailers())
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"", True)
    assert proxy.kinds == ["request_headers", "request_trailers"]


@pytest.mark.parametrize("trailers", [False, True], ids=["plain", "with trailers"])
@pytest.mark.parametrize("size", [LARGEST_CHUNK - 1, LARGEST_CHUNK, LARGEST_CHUNK + 1, 3 * LARGEST_CHUNK, 200_000])
def test_a_large_body_is_forwarded_in_chunks(size: int, trailers: bool) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    proxy = request(request_headers(), *request_pieces([data[:size]], trailers=trailers))
    chunks = chunks_of(proxy.replies)
    assert len(chunks) == -(-size // LARGEST_CHUNK)
    if trailers:
        assert not any(chunk.ends for chunk in chunks)
        chunks[-1] = Chunk(chunks[-1].data, ends=True)
    assert is_whole(chunks, data[:size])


@pytest.mark.parametrize("mode", DUPLEX_MODES)
def test_a_body_can_be_replaced(mode: int | None) -> None:
    proxy = Proxy().send(
        *[request_headers(mode=mode), request_body(b"old", ends=True)], forward=Forward("h:1", b"new!")
    )
    assert (proxy.arrived.body, chunks_of(proxy.replies)) == (b"old", [Chunk(b"new!", ends=True)])


def test_a_body_can_be_replaced_before_trailers() -> None:
    proxy = Proxy().send(request_headers(), request_body(b"old"), request_trailers(), forward=Forward("h:1", b"new!"))
    assert chunks_of(proxy.replies) == [Chunk(b"new!", ends=False)]
    assert proxy.kinds[-1] == "request_trailers"


def test_a_body_can_be_replaced_by_an_empty_one() -> None:
    proxy = Proxy().send(request_headers(), request_body(b"old", ends=True), forward=Forward("h:1", b""))
    assert chunks_of(proxy.replies) == [Chunk(b"", ends=True)]


@pytest.mark.parametrize("mode", BUFFERED_MODES)
def test_a_buffered_body_stays_with_the_proxy(mode: int) -> None:
    proxy = Proxy().send(request_headers(mode=mode))
    assert (proxy.kinds, proxy.events) == (["request_headers"], [])
    assert not proxy.replies[0].request_headers.HasField("response")
    proxy.send(request_body(b"hello", ends=True))
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"hello", True)
    assert proxy.kinds == ["request_headers", "request_body"]
    assert destination_of(proxy.replies[1]) == "10.0.0.1:8000"
    assert not proxy.replies[1].request_body.response.HasField("body_mutation")


@pytest.mark.parametrize("mode", BUFFERED_MODES)
def test_a_buffered_body_is_replaced_in_one_chunk(mode: int) -> None:
    data = b"x" * 200_000
    forward = Forward("h:1", data, (("content-length", "200000"),), ("x-b",))
    proxy = Proxy().send(request_headers(mode=mode), request_body(b"old", ends=True), forward=forward)
    change = proxy.replies[1].request_body.response
    assert change.body_mutation.body == data
    assert (set_by(change)["content-length"], removed_by(change)) == ("200000", ["x-b"])


def test_a_body_that_is_too_large_to_be_buffered_is_incomplete() -> None:
    proxy = request(request_headers(mode=BUFFERED_PARTIAL), request_body(b"hel"))
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"hel", False)
    assert proxy.kinds == ["request_headers", "request_body"]


def test_a_buffered_body_is_complete_even_if_trailers_follow() -> None:
    proxy = request(request_headers(mode=BUFFERED), request_body(b"hello"), request_trailers())
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"hello", True)
    assert proxy.kinds == ["request_headers", "request_body", "request_trailers"]


@pytest.mark.parametrize("mode", HEADERS_ONLY_MODES)
def test_if_the_body_comes_later_the_headers_alone_decide(mode: int) -> None:
    proxy = request(request_headers(mode=mode))
    assert (proxy.arrived.body, proxy.arrived.whole) == (b"", False)
    assert proxy.kinds == ["request_headers"]
    assert destination_of(proxy.replies[0]) == "10.0.0.1:8000"


def test_a_streamed_body_passes_unchanged() -> None:
    proxy = request(request_headers(mode=STREAMED), *request_pieces([b"he", b"llo", b""]))
    assert proxy.kinds == ["request_headers", *["request_body"] * 3]
    assert not any(message.request_body.HasField("response") for message in proxy.replies[1:])


@pytest.mark.parametrize("mode", [*BUFFERED_MODES, *HEADERS_ONLY_MODES])
def test_trailers_of_a_forwarded_request_pass_unchanged(mode: int) -> None:
    chunks = [] if mode in (NONE, STREAMED) else [request_body(b"hello", ends=True)]
    proxy = request(request_headers(mode=mode), *chunks, request_trailers())
    assert proxy.kinds[-1] == "request_trailers"
    assert len(proxy.events) == 1


@pytest.mark.parametrize("mode", [*DUPLEX_MODES, *BUFFERED_MODES])
def test_a_body_may_be_as_large_as_the_limit(mode: int | None) -> None:
    proxy = request(request_headers(mode=mode), request_body(b"x" * LIMIT, ends=True), body_limit=LIMIT)
    assert len(proxy.arrived.body) == LIMIT


@pytest.mark.parametrize("mode", [*DUPLEX_MODES, *BUFFERED_MODES])
def test_a_body_over_the_limit_is_refused(mode: int | None) -> None:
    proxy = Proxy(body_limit=LIMIT).send(request_headers(mode=mode))
    with pytest.raises(BodyTooLargeError):
        proxy.send(request_body(b"x" * (LIMIT + 1), ends=True))


def test_all_chunks_count_towards_the_limit() -> None:
    proxy = Proxy(body_limit=LIMIT).send(request_headers(), *[request_body(b"x" * 100)] * 10)
    with pytest.raises(BodyTooLargeError):
        proxy.send(request_body(b"x"))


def test_a_body_over_the_limit_is_refused_before_its_end() -> None:
    with pytest.raises(BodyTooLargeError):
        request(request_headers(), request_body(b"x" * (LIMIT + 1)), body_limit=LIMIT)


def test_the_limit_does_not_apply_to_a_body_that_is_not_buffered() -> None:
    proxy = request(request_headers(mode=STREAMED), *[request_body(b"x" * LIMIT)] * 3, body_limit=LIMIT)
    assert proxy.kinds == ["request_headers", *["request_body"] * 3]


@pytest.mark.parametrize("row", [0, 1, 2], ids=["headers", "a chunk", "the last chunk"])
def test_a_subset_is_read_from_any_message(row: int) -> None:
    messages = [request_headers(), request_body(b"q"), request_body(ends=True)]
    hinting(messages[row], ["10.0.0.2:80"])
    assert request(*messages).arrived.subset == {"10.0.0.2:80"}


def test_a_subset_is_read_from_trailers() -> None:
    proxy = request(request_headers(), request_body(b"q"), hinting(request_trailers(), "10.0.0.2:80"))
    assert proxy.arrived.subset == {"10.0.0.2:80"}


def test_a_later_subset_replaces_an_earlier_one() -> None:
    messages = [hinting(request_headers(), ["10.0.0.1:80"]), hinting(request_body(ends=True), ["10.0.0.2:80"])]
    assert request(*messages).arrived.subset == {"10.0.0.2:80"}


def test_the_mode_is_read_from_the_headers_only() -> None:
    late = request_body(b"q", ends=True)
    late.protocol_config.request_body_mode = STREAMED
    assert request(request_headers(mode=DUPLEX), late).kinds == ["request_headers", "request_body"]


def test_the_headers_are_known_before_the_body_arrives() -> None:
    proxy = Proxy()
    assert proxy.stream.headers == {}
    proxy.send(request_headers({"X-Request-Id": "r1"}))
    assert proxy.stream.headers["x-request-id"] == "r1"


def test_messages_are_returned_once() -> None:
    proxy = request(*OPENING)
    assert proxy.stream.take() == []


# -- the response


@pytest.mark.parametrize("mode", [DUPLEX, BUFFERED, STREAMED, NONE])
def test_a_response_without_a_body_ends_with_its_head(mode: int) -> None:
    proxy = response(answer_headers(204, ends=True, served="10.0.0.1:8000"), response_mode=mode)
    (started,) = proxy.events
    assert (started.status, started.served_by, started.failure, started.last) == (204, "10.0.0.1:8000", "", True)
    assert proxy.kinds == ["response_headers"]
    assert set_by(proxy.replies[0].response_headers.response) == {"x-a": "1"}
    assert not proxy.stream.ends_with_head


@pytest.mark.parametrize("chunks", [(b"hello",), (b"he", b"llo"), (b"h", b"ello", b""), (b"", b"")])
def test_a_json_response_is_returned_in_one_chunk(chunks: Sequence[bytes]) -> None:
    *first, last = answer_pieces(chunks)
    proxy = response(answer_headers(kind=JSON), *first)
    assert proxy.kinds == ["response_headers"]
    proxy.send(last)
    assert proxy.returned() == [Chunk(b"".join(chunks), ends=True)]
    assert proxy.events[1:] == [ResponseChunk(chunk, row == len(chunks) - 1) for row, chunk in enumerate(chunks)]


@pytest.mark.parametrize("kind", [JSON, f"{JSON}; charset=utf-8"])
def test_a_json_response_up_to_the_limit_is_returned_at_its_end(kind: str) -> None:
    data = b"x" * COLLECTED
    proxy = response(answer_headers(kind=kind), answer_body(data))
    assert proxy.returned() == []
    assert is_whole(proxy.send(answer_body(ends=True)).returned(), data)


def test_a_larger_json_response_is_returned_as_it_arrives() -> None:
    data = b"x" * COLLECTED
    proxy = response(answer_headers(), answer_body(data), answer_body(b"y"))
    assert b"".join(chunk.data for chunk in proxy.returned()) == data + b"y"
    assert not any(chunk.ends for chunk in proxy.returned())
    proxy.send(answer_body(b"z"))
    assert proxy.returned()[-1] == Chunk(b"z", ends=False)
    proxy.send(answer_body(b"!", ends=True))
    assert is_whole(proxy.returned(), data + b"yz!")


@pytest.mark.parametrize("kind", [SSE, f"{SSE}; charset=utf-8", "text/plain", "application/grpc", ""])
def test_any_other_response_is_returned_chunk_by_chunk(kind: str) -> None:
    proxy = response(answer_headers(kind=kind))
    for row, chunk in enumerate([b"one", b"", b"two"]):
        proxy.send(answer_body(chunk))
        assert proxy.returned()[row:] == [Chunk(chunk, ends=False)]
    proxy.send(answer_body(ends=True))
    assert proxy.returned()[3:] == [Chunk(b"", ends=True)]
    assert [event.last for event in proxy.events] == [False] * 4 + [True]


def test_a_response_without_a_content_type_is_returned_chunk_by_chunk() -> None:
    head = answer_headers()
    del head.response_headers.headers.headers[1]
    assert response(head, answer_body(b"{")).returned() == [Chunk(b"{", ends=False)]


def test_a_large_chunk_of_a_response_is_split() -> None:
    data = b"x" * (2 * LARGEST_CHUNK + 1)
    proxy = response(answer_headers(kind=SSE), answer_body(data, ends=True))
    assert [len(chunk.data) for chunk in proxy.returned()] == [LARGEST_CHUNK, LARGEST_CHUNK, 1]
    assert is_whole(proxy.returned(), data)


@pytest.mark.parametrize("kind", [SSE, JSON])
def test_trailers_end_a_response(kind: str) -> None:
    proxy = response(answer_headers(kind=kind), *answer_pieces([b"he", b"llo"], trailers=True))
    assert b"".join(chunk.data for chunk in proxy.returned()) == b"hello"
    assert not any(chunk.ends for chunk in proxy.returned())
    assert proxy.kinds[-1] == "response_trailers"
    assert proxy.events[-1] == ResponseChunk(b"", last=True)


@pytest.mark.parametrize("kind", [SSE, JSON])
def test_trailers_may_follow_the_head_of_a_response(kind: str) -> None:
    proxy = response(answer_headers(kind=kind), answer_trailers())
    assert proxy.kinds == ["response_headers", "response_trailers"]


def test_trailers_end_a_json_response_over_the_limit() -> None:
    proxy = response(answer_headers(), answer_body(b"x" * (COLLECTED + 1)), answer_trailers())
    assert sum(len(chunk.data) for chunk in proxy.returned()) == COLLECTED + 1
    assert proxy.kinds[-1] == "response_trailers"


@pytest.mark.parametrize("mode", [BUFFERED, BUFFERED_PARTIAL, STREAMED])
@pytest.mark.parametrize("kind", [SSE, JSON])
def test_chunks_of_a_response_that_need_not_be_returned_pass_unchanged(mode: int, kind: str) -> None:
    proxy = response(answer_headers(kind=kind), *answer_pieces([b"he", b"llo"]), response_mode=mode)
    assert proxy.kinds == ["response_headers", "response_body", "response_body"]
    assert not any(message.response_body.HasField("response") for message in proxy.replies[1:])
    assert [event.data for event in proxy.events[1:]] == [b"he", b"llo"]


def test_a_response_whose_body_is_not_sent_ends_with_its_head() -> None:
    proxy = response(answer_headers(), response_mode=NONE)
    assert proxy.stream.ends_with_head


@pytest.mark.parametrize("mode", [DUPLEX, BUFFERED, STREAMED])
def test_a_response_whose_body_is_sent_does_not_end_with_its_head(mode: int) -> None:
    assert not response(answer_headers(), response_mode=mode).stream.ends_with_head


def test_the_proxy_may_respond_before_the_request_has_arrived() -> None:
    proxy = Proxy().send(answer_headers(403, "text/plain"), answer_body(b"no", ends=True))
    assert proxy.kinds == ["response_headers", "response_body"]
    assert is_whole(proxy.returned(), b"no")
    assert proxy.events[0].status == 403


@pytest.mark.parametrize("mode", [*DUPLEX_MODES, *BUFFERED_MODES])
def test_the_proxy_may_respond_during_a_request(mode: int | None) -> None:
    messages = [request_headers(mode=mode), answer_headers(413, "text/plain"), answer_body(b"no", ends=True)]
    proxy = Proxy().send(*messages)
    assert proxy.kinds[-2:] == ["response_headers", "response_body"]
    assert [type(event) for event in proxy.events] == [ResponseStarted, ResponseChunk]


SUPERSCRIPT = pytest.param("²", 0)


@pytest.mark.parametrize(("status", "number"), [("200", 200), ("", 0), ("abc", 0), ("-1", 0), SUPERSCRIPT])
def test_a_status_is_a_number(status: str, number: int) -> None:
    assert response(answer_headers(status, ends=True)).events[0].status == number


def test_a_response_may_be_returned_unchanged() -> None:
    proxy = Proxy().send(*OPENING)
    proxy.stream.receive(answer_headers())
    proxy.stream.begin_response({})
    (message,) = proxy.stream.take()
    assert not message.response_headers.HasField("response")


def test_response_headers_may_be_removed_without_setting_any() -> None:
    proxy = Proxy().send(*OPENING)
    proxy.stream.receive(answer_headers())
    proxy.stream.begin_response({}, ("x-b",))
    (message,) = proxy.stream.take()
    assert removed_by(message.response_headers.response) == ["x-b"]


# -- out of place


OUT_OF_PLACE: dict[str, tuple[Iterable[ProcessingRequest], ProcessingRequest]] = {
    "no content": ((), ProcessingRequest()),
    "a body first": ((), request_body(b"q")),
    "trailers first": ((), request_trailers()),
    "a response body first": ((), answer_body(b"a")),
    "response trailers first": ((), answer_trailers()),
    "headers twice": ((request_headers(),), request_headers()),
    "headers after the body began": ((request_headers(), request_body(b"q")), request_headers()),
    "headers after the request": (OPENING, request_headers()),
    "a body after the end": (OPENING, request_body(b"q")),
    "a body after headers without one": ((request_headers(ends=True),), request_body(b"q")),
    "a second buffered body": ((request_headers(mode=BUFFERED), request_body(b"q", ends=True)), request_body(b"q")),
    "a body in a mode without": ((request_headers(mode=NONE),), request_body(b"q")),
    "trailers without a buffered body": ((request_headers(mode=BUFFERED),), request_trailers()),
    "a response body without its head": (OPENING, answer_body(b"a")),
    "response trailers without a head": (OPENING, answer_trailers()),
    "a response body during the request": ((request_headers(),), answer_body(b"a")),
    "a second response": ((*OPENING, answer_headers()), answer_headers()),
    "a second response after the end": ((*OPENING, answer_headers(ends=True)), answer_headers()),
    "a response body after the end": ((*OPENING, answer_headers(ends=True)), answer_body(b"a")),
    "a response body after its last chunk": (
        (*OPENING, answer_headers(), answer_body(ends=True)),
        answer_body(b"a"),
    ),
    "response trailers after the end": ((*OPENING, answer_headers(), answer_body(ends=True)), answer_trailers()),
    "a response body after its trailers": ((*OPENING, answer_headers(), answer_trailers()), answer_body(b"a")),
    "headers during the response": ((*OPENING, answer_headers()), request_headers()),
    "a body during the response": ((*OPENING, answer_headers()), request_body(b"q")),
}


@pytest.mark.parametrize(("before", "message"), OUT_OF_PLACE.values(), ids=OUT_OF_PLACE)
def test_a_message_out_of_place_is_refused(before: Iterable[ProcessingRequest], message: ProcessingRequest) -> None:
    proxy = Proxy().send(*before)
    with pytest.raises(ProtocolError):
        proxy.stream.receive(message)


def test_a_request_that_has_not_arrived_can_not_be_forwarded() -> None:
    with pytest.raises(ProtocolError, match="needs the state 'arrived', the stream is in 'headers'"):
        Stream(body_limit=1).forward(FORWARD)


def test_a_request_is_forwarded_once() -> None:
    proxy = request(*OPENING)
    with pytest.raises(ProtocolError):
        proxy.stream.forward(FORWARD)


@pytest.mark.parametrize(
    ("mode", "rest"),
    [(STREAMED, request_body(b"rest")), (STREAMED, request_trailers()), (NONE, request_trailers())],
    ids=["a streamed body", "trailers of a streamed body", "trailers of a body that is not sent"],
)
@pytest.mark.parametrize("ends", [False, True], ids=["begun", "ended"])
def test_an_endpoint_may_respond_before_the_request_has_passed(mode: int, rest: ProcessingRequest, ends: bool) -> None:
    proxy = request(request_headers(mode=mode, answer_mode=STREAMED), answer_headers(kind=SSE, ends=ends), rest)
    assert proxy.kinds[-1] == str(rest.WhichOneof("request"))


@pytest.mark.parametrize(("mode", "answer_mode"), [(GRPC, DUPLEX), (DUPLEX, GRPC)])
def test_the_body_mode_grpc_is_refused(mode: int, answer_mode: int) -> None:
    with pytest.raises(ProtocolError, match="body mode GRPC is not supported; use FULL_DUPLEX_STREAMED"):
        request(request_headers(mode=mode, answer_mode=answer_mode))


# -- however it is split


BIG = LARGEST_CHUNK
PARTS = st.lists(st.binary(max_size=40) | st.integers(BIG - 2, BIG + 2).map(lambda size: b"x" * size), max_size=6)
few = settings(max_examples=100, deadline=None)


@few
@given(parts=PARTS.filter(bool), trailers=st.booleans(), mode=st.sampled_from([DUPLEX, None]))
def test_a_request_is_forwarded_unchanged_however_it_is_split(
    parts: list[bytes], trailers: bool, mode: int | None
) -> None:
    proxy = request(request_headers(mode=mode), *request_pieces(parts, trailers=trailers))
    data = b"".join(parts)
    assert proxy.arrived.body == data
    chunks = chunks_of(proxy.replies)
    if trailers:
        assert proxy.kinds[-1] == "request_trailers"
        assert (b"".join(chunk.data for chunk in chunks), any(chunk.ends for chunk in chunks)) == (data, False)
        assert all(len(chunk.data) <= LARGEST_CHUNK for chunk in chunks)
    else:
        assert is_whole(chunks, data)


@few
@given(
    parts=PARTS.filter(bool),
    trailers=st.booleans(),
    kind=st.sampled_from([JSON, SSE, "text/plain"]),
    copies=st.sampled_from([1, 1, 20]),
)
def test_a_response_is_returned_unchanged_however_it_is_split(
    parts: list[bytes], trailers: bool, kind: str, copies: int
) -> None:
    parts = parts * copies  # twenty exceed the limit on collected responses
    proxy = response(answer_headers(kind=kind), *answer_pieces(parts, trailers=trailers))
    data = b"".join(parts)
    chunks = proxy.returned()
    assert b"".join(event.data for event in proxy.events[1:]) == data
    assert [event.last for event in proxy.events] == [False] * (len(proxy.events) - 1) + [True]
    if trailers:
        assert proxy.kinds[-1] == "response_trailers"
        assert (b"".join(chunk.data for chunk in chunks), any(chunk.ends for chunk in chunks)) == (data, False)
    else:
        assert is_whole(chunks, data)


MESSAGES = st.sampled_from([
    *(request_headers(mode=mode, ends=ends) for mode in MODES.values() for ends in (False, True)),
    *(answer_headers(kind=kind, ends=ends) for kind in (SSE, JSON) for ends in (False, True)),
    *(request_body(b"q"), request_body(b"q", ends=True), request_trailers(), ProcessingRequest()),
    *(answer_body(b"a"), answer_body(b"a", ends=True), answer_trailers()),
])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(messages=st.lists(MESSAGES, max_size=8))
def test_any_messages_are_accepted_or_refused(messages: list[ProcessingRequest]) -> None:
    proxy = Proxy()
    try:
        proxy.send(*messages)
    except ProtocolError:
        return
    assert sum(isinstance(event, Arrived) for event in proxy.events) <= 1
    assert sum(isinstance(event, ResponseStarted) for event in proxy.events) <= 1
