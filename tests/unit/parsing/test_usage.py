"""Token usage: read from the responses of every API, however they are split into chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain.usage import Usage
from app.parsing.event_streams import LONGEST_LINE, EventStreamReader
from app.parsing.responses import LARGEST_BODY, BodyReader, ResponseReader, response_reader
from app.parsing.usage import usage_in

OPENAI = {
    "usage": {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
}
RESPONSES = {"usage": {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}}
ANTHROPIC = {"usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 4}}
SGLANG = {"text": "hi", "meta_info": {"prompt_tokens": 7, "completion_tokens": 3, "cached_tokens": 4, "id": "x"}}
ALL = Usage(7, 3, 4)


def read(reader: ResponseReader, chunks: Sequence[bytes]) -> Usage | None:
    """The usage read from a response in these chunks."""
    for chunk in chunks:
        reader.feed(chunk)
    reader.end()
    return reader.usage


def of_stream(*chunks: bytes) -> Usage | None:
    return read(EventStreamReader(), chunks)


def of_object(*chunks: bytes) -> Usage | None:
    return read(BodyReader(json=True), chunks)


def event(fields: Any, *, newline: bytes = b"\n", space: bytes = b" ") -> bytes:
    """A server-sent event with JSON in it."""
    return b"data:" + space + json.dumps(fields).encode() + newline * 2


# -- the forms


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        pytest.param(OPENAI, ALL, id="OpenAI"),
        pytest.param(RESPONSES, ALL, id="Responses"),
        pytest.param({"type": "response.completed", "response": RESPONSES}, ALL, id="the end of a Responses stream"),
        pytest.param(ANTHROPIC, ALL, id="Anthropic"),
        pytest.param({"type": "message_start", "message": ANTHROPIC}, ALL, id="the start of an Anthropic stream"),
        pytest.param(SGLANG, ALL, id="SGLang"),
        pytest.param({"usage": None, **SGLANG}, ALL, id="no usage beside SGLang's"),
        pytest.param({"usage": {"prompt_tokens": 7}}, Usage(7), id="only the prompt"),
        pytest.param({"usage": {"output_tokens": 3}}, Usage(None, 3), id="only the completion"),
        pytest.param({"usage": {"cached_tokens": 0}}, Usage(None, None, 0), id="nothing was cached"),
        pytest.param({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, Usage(0, 0), id="zeros"),
        pytest.param(
            {"usage": {"prompt_tokens": 7, "prompt_tokens_details": None, "cached_tokens": 4}},
            Usage(7, None, 4),
            id="details are null",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 7, "prompt_tokens_details": {"audio_tokens": 0}}}, Usage(7), id="other details"
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 7, "prompt_tokens_details": [4]}}, Usage(7), id="details that are a list"
        ),
        pytest.param({"usage": {"prompt_tokens": -1, "completion_tokens": 3}}, Usage(None, 3), id="less than nothing"),
        pytest.param({"usage": {"prompt_tokens": True, "completion_tokens": 3.0}}, None, id="no whole numbers"),
        pytest.param({"usage": {"prompt_tokens": "7"}}, None, id="text"),
        pytest.param({"usage": {}}, None, id="empty"),
        pytest.param({"usage": None}, None, id="null"),
        pytest.param({"usage": [7]}, None, id="a list"),
        pytest.param({"usage": 7}, None, id="a number"),
        pytest.param({"response": "usage", "message": ["usage"]}, None, id="texts"),
        pytest.param({"choices": [{"usage": OPENAI["usage"]}]}, None, id="somewhere else"),
        pytest.param([OPENAI], None, id="a list of responses"),
        pytest.param("usage", None, id="a text alone"),
        pytest.param(None, None, id="null alone"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_usage_is_read_in_every_format(fields: Any, usage: Usage | None) -> None:
    assert usage_in(fields) == usage
    assert of_object(json.dumps(fields).encode()) == usage
    assert of_stream(event(fields)) == usage


def test_later_counts_replace_earlier_ones() -> None:
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 1}},
    }
    delta = {"type": "message_delta", "usage": {"output_tokens": 3}}
    assert of_stream(event(start), event(delta)) == ALL


def test_every_event_may_have_usage() -> None:
    assert of_stream(*[event({"usage": {"prompt_tokens": 7, "completion_tokens": n}}) for n in range(4)]) == Usage(7, 3)


def test_usage_is_known_as_soon_as_it_arrives() -> None:
    reader = EventStreamReader()
    reader.feed(event({"usage": {"prompt_tokens": 7}}))
    assert reader.usage == Usage(7)
    reader.feed(event(OPENAI)[:-3])
    assert reader.usage == Usage(7)
    reader.feed(event(OPENAI)[-3:])
    assert reader.usage == ALL


def test_the_usage_of_an_object_is_known_at_its_end() -> None:
    reader = BodyReader(json=True)
    reader.feed(json.dumps(OPENAI).encode())
    assert reader.usage is None
    for _ in range(2):
        reader.end()
        assert reader.usage == ALL


# -- streams


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(event(OPENAI), id="usual"),
        pytest.param(event(OPENAI, newline=b"\r\n"), id="CRLF"),
        pytest.param(event(OPENAI, newline=b"\r"), id="CR"),
        pytest.param(event(OPENAI, space=b""), id="no space"),
        pytest.param(event(OPENAI).rstrip(), id="no last newline"),
        pytest.param(event(OPENAI) + b"data: [DONE]\n\n", id="with its end"),
        pytest.param(b"event: completion\nid: 1\n: comment\n" + event(OPENAI), id="other fields"),
        pytest.param(b": ping\n\n" + event(OPENAI) + b": ping\n\n", id="comments"),
        pytest.param(event({"delta": '"usage"'}) + event(OPENAI), id="after a mention"),
        pytest.param(b'data: {"usage": broken\n\n' + event(OPENAI), id="after broken JSON"),
        pytest.param(b'data: {"usage": "\xff"}\n\n' + event(OPENAI), id="after no text"),
    ],
)
def test_a_stream_is_read_by_its_lines(stream: bytes) -> None:
    assert of_stream(stream) == ALL
    assert of_stream(*[bytes([byte]) for byte in stream]) == ALL


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n", id="no events"),
        pytest.param(b"data: [DONE]\n\n", id="only its end"),
        pytest.param(b'data: {"usage": {"prompt_tokens": 7}\n\n', id="broken JSON"),
        pytest.param(event({"content": 'he said "usage" and "meta_info"'}), id="a mention"),
        pytest.param(event({"content": {"usage": {"prompt_tokens": 7}}}), id="a mention as a field"),
        pytest.param(b"event: " + event(OPENAI), id="another field"),
        pytest.param(b" " + event(OPENAI), id="indented"),
        pytest.param(b": " + event(OPENAI), id="a comment"),
        pytest.param(json.dumps(OPENAI).encode(), id="no event"),
    ],
)
def test_a_stream_without_usage_gives_none(stream: bytes) -> None:
    assert of_stream(stream) is None


FIELDS = st.sampled_from(
    [
        OPENAI,
        ANTHROPIC,
        SGLANG,
        {"type": "response.completed", "response": RESPONSES},
        {"message": {"usage": {"input_tokens": 9}}},
        {"usage": {"output_tokens": 5}},
        {"usage": None, "choices": [{"delta": {"content": '\n\r"usage": {} é'}}]},
        {"choices": []},
    ]
)  # fmt: skip
LINES = st.one_of(
    st.builds(event, FIELDS, newline=st.sampled_from([b"\n", b"\r\n"]), space=st.sampled_from([b"", b" "])),
    st.sampled_from([b"data: [DONE]\n\n", b": ping\n\n", b"event: x\n", b'data: {"usage"\n', b"\n", b"\r\n"]),
)
STREAMS = st.lists(LINES, max_size=8).map(b"".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data`, split at these places."""
    return [data[a:b] for a, b in pairwise([0, *sorted(place % (len(data) + 1) for place in places), len(data)])]


@settings(max_examples=200, deadline=None)
@given(stream=STREAMS, places=st.lists(st.integers(0, 10**6), max_size=12))
@example(stream=event(OPENAI, newline=b"\r\n"), places=[len(event(OPENAI, newline=b"\r\n")) - 3])
def test_a_stream_is_read_the_same_however_it_is_split(stream: bytes, places: list[int]) -> None:
    assert of_stream(*cut(stream, places)) == of_stream(stream)


@settings(max_examples=100, deadline=None)
@given(fields=FIELDS, places=st.lists(st.integers(0, 10**6), max_size=12))
def test_an_object_is_read_the_same_however_it_is_split(fields: Any, places: list[int]) -> None:
    data = json.dumps(fields).encode()
    assert of_object(*cut(data, places)) == usage_in(fields)


@settings(max_examples=200, deadline=None)
@given(data=st.lists(st.binary(max_size=30) | LINES, max_size=6).map(b"".join), streamed=st.booleans())
def test_any_bytes_can_be_read(data: bytes, streamed: bool) -> None:
    found = of_stream(data) if streamed else of_object(data)
    assert found is None or streamed or usage_in(json.loads(data)) is not None


@pytest.mark.parametrize(
    ("content_type", "encoding", "usage"),
    [
        ("text/event-stream", "", Usage(7)),
        ("text/event-stream; charset=utf-8", "identity", Usage(7)),
        ("Text/Event-Stream;charset=utf-8", "", Usage(7)),
        ("application/json", "", ALL),
        ("application/json; charset=utf-8", "", ALL),
    ],
)
def test_the_content_type_selects_the_reader(content_type: str, encoding: str, usage: Usage) -> None:
    body = event({"usage": {"prompt_tokens": 7}}) if "event" in content_type.lower() else json.dumps(OPENAI).encode()
    assert read(response_reader("/", content_type, encoding), [body]) == usage


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("", ""),
        ("text/plain", ""),
        ("application/grpc", ""),
        ("application/jsonl", ""),
        ("text/event-stream", "gzip"),
        ("application/json", "br"),
    ],
)
def test_the_usage_of_an_unreadable_response_is_unknown(content_type: str, encoding: str) -> None:
    body = event(OPENAI) if "event" in content_type else json.dumps(OPENAI).encode()
    assert read(response_reader("/", content_type, encoding), [body]) is None


# -- limits


def line(length: int, fields: Any = OPENAI) -> bytes:
    """A line of this length in bytes, with usage and without a line break."""
    start = event(fields).rstrip()
    return start + b" " * (length - len(start))


def chunks_of(data: bytes, size: int = 65536) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("newline", [b"\n", b""], ids=["with its end", "at the end"])
def test_a_line_may_have_the_maximum_length(newline: bytes) -> None:
    assert of_stream(*chunks_of(line(LONGEST_LINE) + newline)) == ALL


@pytest.mark.parametrize("length", [LONGEST_LINE + 1, LONGEST_LINE + 65536, 3 * LONGEST_LINE])
def test_a_line_that_is_too_long_is_skipped_and_later_ones_are_read(length: int) -> None:
    stream = [*chunks_of(line(length, {"usage": {"prompt_tokens": 1}})), b"\n" + event(OPENAI)]
    assert of_stream(*stream) == ALL
    assert of_stream(*stream[:-1], b"\n") is None
    assert of_stream(*stream[:-1]) is None


def test_lines_before_one_that_is_too_long_are_read() -> None:
    stream = [event(OPENAI), *chunks_of(line(LONGEST_LINE + 1, {"usage": {"prompt_tokens": 1}})), b"\n\n"]
    assert of_stream(*stream) == ALL


def test_the_rest_of_a_line_that_is_too_long_is_not_read() -> None:
    rest = event({"usage": {"prompt_tokens": 1}})
    assert of_stream(b"x" * (LONGEST_LINE + 1), rest) is None
    assert of_stream(b"x" * (LONGEST_LINE + 1), b"x", b"x", rest, event(OPENAI)) == ALL


def test_a_line_in_the_chunk_of_one_that_is_too_long_is_read() -> None:
    assert of_stream(event(OPENAI) + b"data: " + b"x" * LONGEST_LINE) == ALL


def test_the_rest_of_a_line_that_is_too_long_is_not_read_after_another_line() -> None:
    assert of_stream(b": ping\n" + b"x" * (LONGEST_LINE + 1), event(OPENAI)) is None


def test_a_line_that_is_too_long_is_skipped_however_it_is_split() -> None:
    long = line(2 * LONGEST_LINE) + b"\n"
    assert of_stream(long) == of_stream(*chunks_of(long))


@pytest.mark.parametrize(("size", "usage"), [(LARGEST_BODY, ALL), (LARGEST_BODY + 1, None), (2 * LARGEST_BODY, None)])
def test_the_usage_of_a_very_large_object_is_not_known(size: int, usage: Usage | None) -> None:
    data = json.dumps(OPENAI).encode()
    data += b" " * (size - len(data))
    assert of_object(*chunks_of(data, LARGEST_BODY // 2 + 1)) == usage


@pytest.mark.parametrize("body", [b"", b"{", b'{"usage"', b"\xff", b"[]", b"null", b'{"usage": 1}{"usage": 2}'])
def test_a_body_that_is_not_an_object_has_no_usage(body: bytes) -> None:
    assert of_object(body) is None


# -- usage


def test_counts_that_are_not_reported_later_are_kept() -> None:
    assert Usage(1, 2, 3).updated(Usage()) == Usage(1, 2, 3)
    assert Usage(1, 2, 3).updated(Usage(0, None, 5)) == Usage(0, 2, 5)
    assert Usage().updated(Usage(None, 1)) == Usage(None, 1, None)
