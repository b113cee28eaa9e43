"""The native HTTP APIs of vLLM and SGLang, which accept token ids."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest
from plugins.parsers.sglang_http import SglangHttpParser
from plugins.parsers.vllm_http import VllmHttpParser
from tests.unit.parsing.given import ids, outcome_of, raw_of

VLLM, SGLANG = "/inference/v1/generate", "/generate"


def vllm(body: Any) -> InferenceRequest:
    return VllmHttpParser().parse(raw_of(VLLM, body))


def sglang(body: Any) -> InferenceRequest:
    return SglangHttpParser().parse(raw_of(SGLANG, body))


# -- vLLM


def test_a_vllm_request_is_parsed() -> None:
    request = vllm(
        {
            "model": "demo",
            "token_ids": [1, 258],
            "sampling_params": {"max_tokens": 20, "temperature": 0},
            "stream": True,
            "cache_salt": "tenant",
        }
    )
    assert (request.id, request.path, request.headers) == ("r1", VLLM, {"x-a": "1"})
    assert (request.model, request.prompts, request.prompt_tokens) == ("demo", (ids(1, 258),), 2)
    assert (request.max_output_tokens, request.streaming, request.cache_salt) == (20, True, "tenant")


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param({}, "model", "", id="no model"),
        pytest.param({"model": None}, "model", "", id="model of null"),
        pytest.param({"model": 5}, "model", "", id="model as a number"),
        pytest.param({"stream": 1}, "streaming", False, id="stream as a number"),
        pytest.param({}, "streaming", False, id="no stream"),
        pytest.param({"cache_salt": ""}, "cache_salt", None, id="empty salt"),
        pytest.param({"max_tokens": 20}, "max_output_tokens", None, id="limit outside of the sampling"),
        pytest.param({"sampling_params": None}, "max_output_tokens", None, id="sampling of null"),
        pytest.param({"sampling_params": [1]}, "max_output_tokens", None, id="sampling as a list"),
        pytest.param({"sampling_params": {"max_tokens": True}}, "max_output_tokens", None, id="limit as a boolean"),
        pytest.param({"sampling_params": {"max_tokens": 0}}, "max_output_tokens", 0, id="limit of nothing"),
    ],
)
def test_a_vllm_field_is_read_if_it_has_the_right_type(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(vllm({"token_ids": [1], **fields}), name) == value


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="empty"),
        pytest.param("1 2", id="text"),
        pytest.param("", id="empty text"),
        pytest.param(5, id="a number"),
        pytest.param({"0": 1}, id="an object"),
        pytest.param([1.5], id="half an id"),
        pytest.param([None], id="null for an id"),
        pytest.param([[]], id="an empty list within"),
        pytest.param(["hello"], id="text for an id"),
        pytest.param([1, "hello"], id="text among ids"),
    ],
)
def test_invalid_token_ids_are_rejected(given: Any) -> None:
    with pytest.raises(BadRequestError, match="'token_ids' must be a non-empty list of token ids"):
        vllm({"model": "demo", "token_ids": given})


def test_a_body_without_token_ids_is_rejected() -> None:
    with pytest.raises(BadRequestError, match=r"'token_ids' .*, found nothing"):
        vllm({"model": "demo", "prompt": "hello"})


# -- SGLang


def test_an_sglang_request_is_parsed() -> None:
    request = sglang(
        {
            "text": "hello",
            "sampling_params": {"max_new_tokens": 20, "temperature": 0},
            "stream": True,
            "lora_path": "sql",
            "extra_key": "tenant",
        }
    )
    assert (request.id, request.path, request.headers) == ("r1", SGLANG, {"x-a": "1"})
    assert (request.model, request.prompts, request.adapter) == ("", (b"hello",), "sql")
    assert (request.max_output_tokens, request.streaming, request.cache_salt) == (20, True, "tenant")


@pytest.mark.parametrize(
    ("fields", "prompts"),
    [
        pytest.param({"text": "hello"}, (b"hello",), id="text"),
        pytest.param({"text": ["hello", "you"]}, (b"hello", b"you"), id="texts"),
        pytest.param({"input_ids": [1, 258]}, (ids(1, 258),), id="ids"),
        pytest.param({"input_ids": [[1], [2, 3]]}, (ids(1), ids(2, 3)), id="lists of ids"),
        pytest.param({"text": "hello", "input_ids": [1]}, (ids(1),), id="ids before text"),
        pytest.param({"text": "hello", "input_ids": None}, (b"hello",), id="text where the ids are null"),
        pytest.param({"text": None, "input_ids": [1]}, (ids(1),), id="ids where the text is null"),
    ],
)
def test_sglang_accepts_text_or_token_ids_for_one_or_several_prompts(
    fields: dict[str, Any], prompts: tuple[bytes, ...]
) -> None:
    assert sglang(fields).prompts == prompts


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param({"model": "demo"}, "model", "", id="it names no model"),
        pytest.param({"extra_key": ["a"]}, "cache_salt", None, id="salt as a list"),
        pytest.param({"lora_path": ["a"]}, "adapter", None, id="adapters as a list"),
        pytest.param({"lora_path": ""}, "adapter", None, id="empty adapter"),
        pytest.param({"sampling_params": [{"max_new_tokens": 5}]}, "max_output_tokens", None, id="samplings as a list"),
        pytest.param({"sampling_params": {"max_tokens": 5}}, "max_output_tokens", None, id="limit under another name"),
        pytest.param({"stream": None}, "streaming", False, id="stream of null"),
    ],
)
def test_an_sglang_field_is_read_if_it_has_the_right_type(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(sglang({"text": "hello", **fields}), name) == value


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="neither"),
        pytest.param({"text": ""}, id="empty text"),
        pytest.param({"text": []}, id="no texts"),
        pytest.param({"text": 5}, id="text as a number"),
        pytest.param({"text": None}, id="text of null"),
        pytest.param({"input_ids": []}, id="no ids"),
        pytest.param({"input_ids": [[]]}, id="an empty list within"),
        pytest.param({"input_ids": None}, id="ids of null"),
        pytest.param({"input_ids": 5}, id="a number for ids"),
        pytest.param({"prompt": "hello"}, id="text under another name"),
    ],
)
def test_an_sglang_request_without_a_prompt_is_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match="'text' or 'input_ids' must be set"):
        sglang(fields)


# -- both


@pytest.mark.parametrize("read", [vllm, sglang])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "not valid JSON", id="empty"),
        pytest.param(b'{"text": "hello", "token_ids": [1', "not valid JSON", id="truncated"),
        pytest.param(b"[1, 2]", "must be a JSON object, found a list", id="list"),
        pytest.param(b"null", "must be a JSON object, found nothing", id="null"),
        pytest.param(b'{"text": "\xff"}', "not UTF-8", id="invalid UTF-8"),
        pytest.param(b'{"token_ids": [NaN]}', "NaN is not allowed", id="not a number"),
        pytest.param(b"\0\0\0\0\x05hello", "not UTF-8", id="a gRPC frame"),
    ],
)
def test_a_malformed_body_is_rejected_with_a_reason(read: Any, body: bytes, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        read(body)


@pytest.mark.parametrize("depth", [5, 300, 600, 900, 1000, 100_000])
@pytest.mark.parametrize(
    ("parser", "path", "key"),
    [
        pytest.param(VllmHttpParser(), VLLM, b"token_ids", id="vllm"),
        pytest.param(SglangHttpParser(), SGLANG, b"text", id="sglang text"),
        pytest.param(SglangHttpParser(), SGLANG, b"input_ids", id="sglang ids"),
    ],
)
def test_a_deep_body_is_parsed_or_rejected(parser: Any, path: str, key: bytes, depth: int) -> None:
    body = b'{"' + key + b'":' + b"[" * depth + b"1" + b"]" * depth + b"}"
    assert isinstance(outcome_of(parser, raw_of(path, body)), InferenceRequest | BadRequestError)
