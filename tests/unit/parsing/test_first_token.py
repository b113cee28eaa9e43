"""The first content of a response, and the content events of a stream, however the response is split into chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.parsing.event_streams import LONGEST_LINE, EventStreamReader
from app.parsing.responses import ResponseReader, response_reader

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
DONE = b"data: [DONE]\n\n"
PING = b": ping - 2026-12-03 12:00:00\n\n"


def event(fields: Any, name: str = "", *, space: str = " ", newline: str = "\n") -> bytes:
    """A server-sent event with JSON in it, and with a name if one is given."""
    lines = ([f"event:{space}{name}"] if name else []) + [f"data:{space}{json.dumps(fields)}", "", ""]
    return newline.join(lines).encode()


def typed(kind: str, **fields: Any) -> bytes:
    """An event that has its type twice, as in Anthropic's API and the Responses API."""
    return event({"type": kind, **fields}, kind)


def chat(**delta: Any) -> bytes:
    """An event of a chat stream."""
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


VLLM_ERROR = event({"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}})

CASES: list[Any] = [
    pytest.param(CHAT, [], [chat(role="assistant", content=""), chat(content="a"), chat(content="b"), DONE], 3, id="vLLM chat"),
    pytest.param(CHAT, [PING, PING], [chat(role="assistant", content=""), PING, chat(content="a"), DONE], 2, id="vLLM chat with comments"),
    pytest.param("/v1/completions", [], [event({"choices": [{"text": "a"}]}), event({"choices": [{"text": "b"}]}), DONE], 2, id="vLLM completions"),
    pytest.param(CHAT, [VLLM_ERROR, DONE], [], 0, id="vLLM, dead before its first token"),
    pytest.param(CHAT, [], [chat(content="a"), VLLM_ERROR, DONE], 1, id="vLLM, dead after its first token"),
    pytest.param(CHAT, [b'data: {"error"', b': {"message": "no"}}\n\n', DONE], [], 0, id="an error in two chunks"),
    pytest.param(
        CHAT, [], [chat(role="assistant", content=None), chat(content="a"), event({"choices": [], "timings": {"prompt_ms": 9.0}}), DONE], 3, id="llama.cpp chat"
    ),
    pytest.param("/completion", [], [event({"content": "a", "stop": False}), event({"content": "", "stop": True})], 2, id="llama.cpp's own API"),
    pytest.param("/completion", [b'error: {"code": 500, "message": "no"}\n\n'], [], 0, id="an old error of llama.cpp"),
    pytest.param("/generate", [], [event({"text": "a", "meta_info": {"completion_tokens": 1}}), event({"text": "ab", "meta_info": {"completion_tokens": 2}}), DONE], 2, id="SGLang's own API"),
    pytest.param(CHAT, [], [event(json.loads(chat(content="a")[6:]), space=""), event({"choices": []}, space=""), b"data:[DONE]\n\n"], 2, id="TGI, without spaces"),
    pytest.param(
        "/v1/messages",
        [typed("ping")],
        [
            typed("message_start", message={"usage": {"input_tokens": 3}}),
            typed("ping"),
            typed("content_block_delta", delta={"type": "text_delta", "text": "a"}),
            typed("message_stop"),
        ],
        3,
        id="Anthropic",
    ),
    pytest.param("/v1/messages", [typed("ping"), typed("error", error={"type": "overloaded_error"})], [], 0, id="an error of Anthropic"),
    pytest.param("/v1/messages", [event({"type": "ping"}), event({"type": "error"})], [event({"type": "message_start"})], 1, id="types without names"),
    pytest.param("/v1/messages", [b"event: ping\n", b"data: {}\n\n", b"event: error\n", b"data: {}\n\n"], [b"event: message_start\ndata: {}\n\n"], 1, id="names without types"),
    pytest.param(
        RESPONSES,
        [typed("response.created", response={"error": None}), typed("response.in_progress"), typed("response.output_item.added")],
        [typed("response.output_text.delta", delta="a"), typed("response.output_text.delta", delta="b"), typed("response.completed", response={"usage": {"output_tokens": 2}})],
        2,
        id="the Responses API",
    ),
    pytest.param(
        "/v1/responses/",
        [event({"type": "response.created"}), event({"x": 1}), event("a"), event([]), b"data: x\n\n", DONE],
        [event({"sequence_number": 1, "type": "response.reasoning_text.delta"}), event({"type": "response.output_text.done"})],
        1,
        id="the Responses API without names",
    ),
    pytest.param("/prefix/openai/v1/responses", [typed("created")], [typed("refusal.delta")], 1, id="the Responses API by its path alone"),
    pytest.param("/anything", [typed("response.created")], [typed("response.refusal.delta")], 1, id="the Responses API by its events alone"),
    pytest.param("/anything", [event({"type": "response.created"})], [event({"type": "response.refusal.delta"})], 1, id="the Responses API by its types alone"),
    pytest.param(RESPONSES, [typed("response.created"), typed("response.failed", response={"error": {}}), typed("error")], [], 0, id="a failure in the Responses API"),
    pytest.param(CHAT, [], [b"data: a\n\n", b"data: b\n\n"], 2, id="text"),
    pytest.param(CHAT, [b"data:\n\n", b"data: \n\n", b"data\n\n", b"id: 1\n\n", b"retry: 9\n\n", b"\n"], [b"data: x\n\n"], 1, id="events without data"),
    pytest.param(CHAT, [b" data: x\n\n", b"xdata: x\n\n", b": data: x\n\n"], [], 0, id="other lines"),
    pytest.param(CHAT, [b"event: ping\n\n"], [b"data: x\n\n"], 1, id="a name without data ends with its event"),
    pytest.param(CHAT, [], [event({"choices": [{"delta": {"content": 'say "error": {"ping"} \n\ndata: [DONE]\n\nevent: ping'}}]})], 1, id="misleading content"),
    pytest.param(CHAT, [], [event({"error": None, "choices": []}), event({"choices": [{"finish_reason": "error"}]})], 2, id="no error after all"),
    pytest.param(CHAT, [], [event({"choices": []}, "message"), b'data: {"error"\n\n', b'data: ["error"]\n\n'], 3, id="broken JSON, and other JSON"),
    pytest.param(CHAT, [], [], 0, id="nothing"),
    pytest.param(CHAT, [b'data: {"choices": []}'], [], 0, id="an event without its end"),
]  # fmt: skip
"""By path: chunks without content, then chunks of which each may have some and the first has; and the content events."""

EACH = pytest.mark.parametrize(("path", "before", "after", "count"), CASES)


def reader_of(path: str) -> EventStreamReader:
    reader = response_reader(path, "text/event-stream; charset=utf-8", "")
    assert isinstance(reader, EventStreamReader)
    return reader


def read(reader: ResponseReader, chunks: Sequence[bytes]) -> tuple[int, Any]:
    """The content events and the usage of a response in these chunks."""
    for chunk in chunks:
        reader.feed(chunk)
    reader.end()
    return reader.content, reader.usage


@EACH
def test_the_first_token_is_the_first_content(path: str, before: list[bytes], after: list[bytes], count: int) -> None:
    reader = reader_of(path)
    for chunk in before:
        reader.feed(chunk)
    assert reader.content == 0
    for chunk in after:
        reader.feed(chunk)
        assert reader.content > 0
    reader.end()
    assert reader.content == count


@EACH
@pytest.mark.parametrize("newline", [b"\r\n", b"\r"], ids=["CRLF", "CR"])
def test_lines_may_end_otherwise(
    path: str, before: list[bytes], after: list[bytes], count: int, newline: bytes
) -> None:
    stream = b"".join(before + after).replace(b"\n", newline)
    assert read(reader_of(path), [stream])[0] == count
    assert read(reader_of(path), [bytes([byte]) for byte in stream])[0] == count


EVENTS = st.one_of(
    st.sampled_from([chunk for case in CASES for chunk in (*case.values[1], *case.values[2])]),
    st.sampled_from([b"\n", b"\r\n", b"\r", b"data: {", b"data:", b"event: ping\n", b"event: response.x.delta\n", b"event: x\n"]),
    st.builds(
        event,
        st.sampled_from([{"usage": {"prompt_tokens": 7}}, {"type": "response.x.delta"}, {"type": "x"}, {"error": 1}]),
        st.sampled_from(["", "ping", "x.delta", "response.x", "x"]),
        space=st.sampled_from(["", " "]),
        newline=st.sampled_from(["\n", "\r\n", "\r"]),
    ),
)  # fmt: skip
STREAMS = st.lists(EVENTS, max_size=8)
PLACES = st.lists(st.integers(0, 10**6), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data`, split at these places."""
    return [data[a:b] for a, b in pairwise([0, *sorted(place % (len(data) + 1) for place in places), len(data)])]


@settings(max_examples=400, deadline=None)
@given(events=STREAMS, places=PLACES, path=st.sampled_from([CHAT, RESPONSES]))
@example(events=[b"event: ping\r\ndata: {}\r\n\r\n", b"data: {}\r\n\r\n"], places=[12], path=CHAT)
@example(events=[b"data:\ndata: {}\n"], places=[7], path=CHAT)
@example(events=[typed("x"), typed("x"), typed("ping"), typed("x"), chat(content="a")], places=[], path=CHAT)
def test_a_stream_is_read_the_same_however_it_is_split(events: list[bytes], places: list[int], path: str) -> None:
    stream = b"".join(events)
    whole = read(reader_of(path), [stream])
    assert read(reader_of(path), events) == whole
    assert read(reader_of(path), cut(stream, places)) == whole
    assert read(reader_of(path), [bytes([byte]) for byte in stream]) == whole


@settings(max_examples=200, deadline=None)
@given(stream=STREAMS.map(b"".join), path=st.sampled_from([CHAT, RESPONSES]))
def test_content_is_never_taken_back(stream: bytes, path: str) -> None:
    reader, seen = reader_of(path), 0
    for byte in stream:
        reader.feed(bytes([byte]))
        assert reader.content - seen in (0, 1)
        seen = reader.content


# -- long lines


@pytest.mark.parametrize("size", [LONGEST_LINE // 2, LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE])
@pytest.mark.parametrize("piece", [65536, 10**7], ids=["in chunks", "in one chunk"])
@pytest.mark.parametrize(
    ("path", "start", "counts"),
    [
        pytest.param(CHAT, b'data: {"x": "', True, id="chat"),
        pytest.param(CHAT, b'event: ping\ndata: {"x": "', False, id="a ping"),
        pytest.param(CHAT, b': {"x": "', False, id="a comment"),
        pytest.param(RESPONSES, b'event: response.x.delta\ndata: {"x": "', True, id="a delta"),
        pytest.param(RESPONSES, b'event: response.x\ndata: {"x": "', False, id="no delta"),
    ],
)
def test_a_long_line_counts_by_its_name(path: str, start: bytes, counts: bool, size: int, piece: int) -> None:
    stream = start.ljust(size, b"x") + b'"}\n\n' + b"event: x.delta\ndata: {}\n\n"
    chunks = [stream[at : at + piece] for at in range(0, len(stream), piece)]
    assert read(reader_of(path), chunks) == (1 + counts, None)


def test_a_long_line_is_not_kept() -> None:
    reader, most = reader_of(CHAT), 0
    for _ in range(100):
        reader.feed(b"x" * 65536)
        most = max(most, len(reader._partial))
    assert most <= LONGEST_LINE
    reader.feed(b"\n" + chat(content="a"))
    assert reader.content == 1


def test_a_long_line_in_small_chunks_is_read_in_linear_time() -> None:
    reader = reader_of(CHAT)
    for _ in range(LONGEST_LINE // 10):
        reader.feed(b"xxxxxxxxxx")  # quadratic time would take minutes
    reader.feed(b"\n" + chat(content="a"))
    assert reader.content == 1


# -- other bodies


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("application/json", ""),
        ("application/json", "gzip"),
        ("application/grpc", ""),
        ("audio/wav", ""),
        ("", ""),
        ("text/event-stream", "gzip"),
        ("text/event-streams", ""),
    ],
)
def test_the_content_of_another_body_begins_with_its_first_byte(content_type: str, encoding: str) -> None:
    reader = response_reader(CHAT, content_type, encoding)
    reader.feed(b"")
    assert reader.content == 0
    for chunk in (b" ", b"", b"data: x\n\n", DONE):
        reader.feed(chunk)
        assert (reader.content, reader.streamed) == (1, False)
    reader.end()
    assert reader.content == 1


def test_an_empty_body_has_no_content() -> None:
    assert read(response_reader(CHAT, "application/json", ""), []) == (0, None)
