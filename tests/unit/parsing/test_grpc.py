"""gRPC bodies of vLLM and Vertex AI, built byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest
from app.parsing.grpc import message_of
from app.parsing.openai import parse_openai
from app.parsing.parsers import Parsers
from plugins.parsers.vertexai import VertexAIParser
from plugins.parsers.vllm_grpc import VllmGrpcParser
from tests.unit.parsing.given import field, framed, ids, raw_of, varint

GENERATE, EMBED = "/vllm.grpc.engine.VllmEngine/Generate", "/vllm.grpc.engine.VllmEngine/Embed"
SERVICE = "/google.cloud.aiplatform.v1beta1.PredictionService"
"""Chat exists only in `v1beta1`; the raw predictions in `v1` as well."""

TOKENS = field(2, field(2, bytes.fromhex("01 ac 02")))
"""A tokenised input with the packed ids 1 and 300."""


def vllm(message: bytes, path: str = GENERATE) -> InferenceRequest:
    return VllmGrpcParser().parse(raw_of(path, framed(message)))


# -- frames and the wire format


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("00 00000000", "", id="empty message"),
        pytest.param("00 00000003 010203", "010203", id="three bytes"),
        pytest.param("00 00000001 01 00 00000001 02", "01", id="the first of two"),
        pytest.param("00 00000100" + "7f" * 256, "7f" * 256, id="a big-endian length"),
    ],
)
def test_a_frame_is_a_flag_a_length_and_a_message(body: str, message: str) -> None:
    assert message_of(bytes.fromhex(body)) == bytes.fromhex(message)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("", "not a complete gRPC message", id="empty"),
        pytest.param("00 000000", "not a complete gRPC message", id="less than a frame"),
        pytest.param("00 00000004 010203", "not a complete gRPC message", id="a byte is missing"),
        pytest.param("00 ffffffff 01", "not a complete gRPC message", id="four gigabytes announced"),
        pytest.param("01 00000003 010203", "compressed", id="compressed"),
        pytest.param("ff 00000000", "compressed", id="a flag that does not exist"),
    ],
)
def test_an_incomplete_or_compressed_frame_is_refused(body: str, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        message_of(bytes.fromhex(body))


SKIPPED = [
    pytest.param("", id="none"),
    pytest.param("08 00", id="a varint of zero"),
    pytest.param("08 96 01", id="a varint of two bytes"),
    pytest.param("08" + "ff" * 9 + "01", id="the largest varint"),
    pytest.param("0a 07 74 65 73 74 69 6e 67", id="text"),
    pytest.param("0a 00", id="empty text"),
    pytest.param("0d 01020304", id="four fixed bytes"),
    pytest.param("09 0102030405060708", id="eight fixed bytes"),
    pytest.param("82 01 01 78", id="a field number of two bytes"),
    pytest.param("08 01 08 02", id="a field that occurs twice"),
    pytest.param("0b 08 01 0c", id="a group"),
]


@pytest.mark.parametrize("unknown", SKIPPED)
def test_unknown_fields_of_every_wire_type_are_skipped(unknown: str) -> None:
    others = bytes.fromhex(unknown)
    assert vllm(others + TOKENS + others).prompts == (ids(1, 300),)


@pytest.mark.parametrize(
    ("sampling", "limit"),
    [
        pytest.param("40 00", 0, id="zero"),
        pytest.param("40 96 01", 150, id="two bytes of a varint"),
        pytest.param("40 ff ff ff ff 0f", 2**32 - 1, id="the largest"),
        pytest.param("40 01 40 02", 2, id="the last of two"),
    ],
)
def test_a_varint_has_seven_bits_in_each_byte(sampling: str, limit: int) -> None:
    assert vllm(TOKENS + field(4, bytes.fromhex(sampling))).max_output_tokens == limit


BROKEN = [
    pytest.param("08", id="a varint is missing"),
    pytest.param("08 96", id="a varint is cut off"),
    pytest.param("96", id="a key is cut off"),
    pytest.param("08" + "ff" * 10 + "01", id="a varint of eleven bytes"),
    pytest.param("12", id="a length is missing"),
    pytest.param("12 05 61 62", id="text is cut off"),
    pytest.param("12 ffffffff0f 61", id="text of four gigabytes"),
    pytest.param("0d 010203", id="four fixed bytes are cut off"),
    pytest.param("09 01020304050607", id="eight fixed bytes are cut off"),
    pytest.param("0b", id="begin of a group"),
    pytest.param("0c", id="end of a group"),
    pytest.param("0e 01", id="a kind that does not exist"),
    pytest.param("0f 01", id="another kind that does not exist"),
]


@pytest.mark.parametrize("message", BROKEN)
def test_a_truncated_or_malformed_message_is_refused(message: str) -> None:
    with pytest.raises(BadRequestError, match="gRPC message is truncated or malformed"):
        vllm(TOKENS + bytes.fromhex(message))


# -- vLLM


def test_a_complete_vllm_request_is_parsed() -> None:
    body = bytes.fromhex(
        "00 00000010"  # not compressed, 16 bytes
        "0a 01 72"  # request_id "r"
        "12 05 12 03 01 ac 02"  # tokenized: input_ids packed, 1 and 300
        "22 02 40 20"  # sampling_params: max_tokens 32
        "28 01"  # stream
    )
    request = VllmGrpcParser().parse(raw_of(GENERATE, body))
    assert (request.id, request.path, request.headers, request.size) == ("r1", GENERATE, {"x-a": "1"}, 21)
    assert (request.model, request.prompts, request.prompt_tokens) == ("", (ids(1, 300),), 2)
    assert (request.max_output_tokens, request.streaming) == (32, True)


@pytest.mark.parametrize(
    ("tokenized", "tokens"),
    [
        pytest.param("12 03 01 ac 02", (1, 300), id="packed"),
        pytest.param("10 01 10 ac 02", (1, 300), id="not packed"),
        pytest.param("12 01 01 10 ac 02 12 01 07", (1, 300, 7), id="both mixed"),
        pytest.param("0a 02 68 69 12 01 05", (5,), id="the text before them"),
        pytest.param("12 01 05 0a 02 68 69", (5,), id="the text after them"),
        pytest.param("12 05 ff ff ff ff 0f", (2**32 - 1,), id="the largest"),
        pytest.param("10 00", (0,), id="zero"),
        pytest.param("12 01 05 12 00", (5,), id="an empty pack"),
    ],
)
@pytest.mark.parametrize("path", [GENERATE, EMBED])
def test_token_ids_may_be_packed_or_not(path: str, tokenized: str, tokens: tuple[int, ...]) -> None:
    assert vllm(field(2, bytes.fromhex(tokenized)), path).prompts == (ids(*tokens),)


def test_packed_ids_and_ids_in_a_json_body_give_the_same_prompt() -> None:
    completion = parse_openai(raw_of("/v1/completions", {"model": "demo", "prompt": [1, 300]}))
    assert vllm(TOKENS).prompts == completion.prompts


@pytest.mark.parametrize(
    ("message", "prompt"),
    [
        pytest.param(field(3, b"hello"), b"hello", id="text"),
        pytest.param(field(3, "é🚂".encode()), "é🚂".encode(), id="text not in ASCII"),
        pytest.param(TOKENS + field(3, b""), ids(1, 300), id="ids beside empty text"),
        pytest.param(field(99, b"x") + field(3, b"hello") + field(98, 7), b"hello", id="among unknown fields"),
    ],
)
def test_a_prompt_may_be_text(message: bytes, prompt: bytes) -> None:
    assert vllm(message).prompts == (prompt,)


@pytest.mark.parametrize(
    ("path", "more", "streaming", "most"),
    [
        pytest.param(GENERATE, b"", False, None, id="nothing said"),
        pytest.param(GENERATE, field(5, 0), False, None, id="no stream"),
        pytest.param(GENERATE, field(5, 1), True, None, id="stream"),
        pytest.param(GENERATE, field(4, b""), False, None, id="sampling without a limit"),
        pytest.param(GENERATE, field(4, field(8, 0)), False, 0, id="limit of nothing"),
        pytest.param(
            GENERATE, field(4, field(3, 5) + field(8, 300) + field(9, 1)), False, 300, id="limit among others"
        ),
        pytest.param(GENERATE, field(4, b"\x0d\0\0\x80\x3f" + field(8, 20)), False, 20, id="limit after a float"),
        pytest.param(EMBED, field(5, 1), False, None, id="an embedding does not stream"),
    ],
)
def test_streaming_and_the_token_limit_are_parsed(path: str, more: bytes, streaming: bool, most: int | None) -> None:
    request = vllm(TOKENS + more, path)
    assert (request.streaming, request.max_output_tokens) == (streaming, most)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(GENERATE, b"", id="nothing"),
        pytest.param(GENERATE, field(1, b"r"), id="an id alone"),
        pytest.param(GENERATE, field(3, b""), id="empty text"),
        pytest.param(GENERATE, field(2, b""), id="tokenised input without ids"),
        pytest.param(GENERATE, field(2, field(1, b"hello")), id="only the text of the ids"),
        pytest.param(GENERATE, field(2, 7), id="a number for the input"),
        pytest.param(GENERATE, field(3, 7), id="a number for the text"),
        pytest.param(EMBED, field(3, b"hello"), id="an embedding of text"),
        pytest.param(EMBED, b"", id="an embedding of nothing"),
    ],
)
def test_a_vllm_request_without_a_prompt_is_refused(path: str, message: bytes) -> None:
    with pytest.raises(BadRequestError, match="has no prompt"):
        vllm(message, path)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(field(2, field(2, b"\x01\xac")), id="the last id is cut off"),
        pytest.param(field(2, b"\x12\x05\x01"), id="the ids are cut off"),
        pytest.param(TOKENS + field(4, b"\x40"), id="the limit is cut off"),
        pytest.param(TOKENS[:-1], id="the input is cut off"),
        pytest.param(TOKENS + b"\x0b", id="a group"),
    ],
)
def test_a_vllm_request_with_a_malformed_submessage_is_refused(message: bytes) -> None:
    with pytest.raises(BadRequestError, match="gRPC message is truncated or malformed"):
        vllm(message)


# -- Vertex AI

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": True, "max_tokens": 9}
RESPONSE = {"model": "demo", "input": "hello", "max_output_tokens": 9, "cache_salt": "tenant", "lora_path": "sql"}


def http_body(data: Any) -> bytes:
    """A message with an HTTP body that holds `data`."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return field(1, b"projects/p/endpoints/e") + field(2, field(1, b"application/json") + field(2, raw))


def vertex(message: bytes, method: str = "ChatCompletions") -> InferenceRequest:
    return VertexAIParser().parse(raw_of(f"{SERVICE}/{method}", framed(message)))


@pytest.mark.parametrize(
    ("method", "body", "api"),
    [
        pytest.param("ChatCompletions", CHAT, "/v1/chat/completions", id="chat"),
        pytest.param("RawPredict", RESPONSE, "/v1/responses", id="raw"),
        pytest.param("StreamRawPredict", RESPONSE, "/v1/responses", id="raw stream"),
    ],
)
def test_a_vertex_body_is_parsed_like_an_openai_body(method: str, body: dict[str, Any], api: str) -> None:
    found, plain = vertex(http_body(body), method), parse_openai(raw_of(api, body))
    for name in ("model", "adapter", "cache_salt", "prompts", "streaming", "max_output_tokens"):
        assert getattr(found, name) == getattr(plain, name)


def test_a_vertex_request_keeps_its_id_path_headers_and_size() -> None:
    request = vertex(http_body(CHAT))
    size = len(framed(http_body(CHAT)))
    assert (request.id, request.path, request.size) == ("r1", f"{SERVICE}/ChatCompletions", size)
    assert (request.headers, request.streaming, request.max_output_tokens) == ({"x-a": "1"}, True, 9)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    ("method", "body"),
    [
        pytest.param("ChatCompletions", CHAT, id="chat"),
        pytest.param("RawPredict", RESPONSE, id="raw"),
        pytest.param("StreamRawPredict", RESPONSE, id="raw stream"),
    ],
)
def test_both_versions_of_the_vertex_service_are_parsed(version: str, method: str, body: dict[str, Any]) -> None:
    path = f"/google.cloud.aiplatform.{version}.PredictionService/{method}"
    parsers = Parsers([("vertexai-parser", VertexAIParser())])
    assert parsers.parse(raw_of(path, framed(http_body(body)))).model == "demo"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        pytest.param(b"", "no HTTP body", id="nothing"),
        pytest.param(field(1, b"endpoint"), "no HTTP body", id="no body"),
        pytest.param(field(2, field(1, b"application/json")), "no HTTP body", id="a body without data"),
        pytest.param(field(2, 5), "no HTTP body", id="a number for a body"),
        pytest.param(field(2, field(2, 5)), "no HTTP body", id="a number for data"),
        pytest.param(field(2, b"\x12\x05ab"), "truncated or malformed", id="data cut off"),
        pytest.param(http_body(b""), "not valid JSON", id="empty data"),
        pytest.param(http_body(b"[]"), "must be a JSON object", id="a list"),
        pytest.param(http_body({"model": "demo"}), "'messages' must be", id="no messages"),
        pytest.param(http_body({**CHAT, "model": ""}), "'model' must be", id="no model"),
    ],
)
def test_a_bad_vertex_body_is_refused_with_a_reason(message: bytes, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        vertex(message)


# -- the helpers of these tests


def test_the_helpers_build_correct_messages() -> None:
    assert (varint(300), field(1, 150), field(2, b"hi")) == (b"\xac\x02", b"\x08\x96\x01", b"\x12\x02hi")
    assert framed(b"abc") == b"\0\0\0\0\x03abc"
