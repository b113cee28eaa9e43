"""Any bytes at any path are either parsed or rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest
from app.parsing.openai import parse_openai
from app.parsing.parsers import Parsers
from plugins.parsers.anthropic import AnthropicParser
from plugins.parsers.openai import OpenAIParser
from plugins.parsers.passthrough import PassthroughParser
from plugins.parsers.sglang_http import SglangHttpParser
from plugins.parsers.vertexai import VertexAIParser
from plugins.parsers.vllm_grpc import VllmGrpcParser
from plugins.parsers.vllm_http import VllmHttpParser
from tests.unit.parsing.given import field, framed, outcome_of, raw_of

READERS: list[Any] = [
    OpenAIParser(),
    AnthropicParser(),
    VllmHttpParser(),
    SglangHttpParser(),
    VllmGrpcParser(),
    VertexAIParser(),
]
PARSERS = Parsers([(type(parser).__name__, parser) for parser in READERS])
PATHS = [f"/{path}" for parser in READERS for path in parser.paths]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(
    [
        *("model", "messages", "prompt", "input", "tools", "system", "instructions", "items", "content", "role"),
        *("type", "text", "stream", "max_tokens", "token_ids", "input_ids", "sampling_params", "max_new_tokens"),
        *("cache_salt", "extra_key", "lora_path", "image_url", "prompt_embeds"),
    ]
)
OBJECTS = st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON)), max_size=6)
TEXTS = st.one_of(JSON, OBJECTS, OBJECTS.map(lambda fields: {"model": "m", **fields})).map(
    lambda value: json.dumps(value).encode()
)
MESSAGES = st.recursive(
    st.binary(max_size=30) | TEXTS,
    lambda inner: st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2**70) | inner), max_size=4).map(
        lambda fields: b"".join(field(number, value) for number, value in fields)
    ),
    max_leaves=6,
)
BODIES = st.one_of(
    st.binary(max_size=100),
    TEXTS,
    MESSAGES.map(framed),
    st.tuples(MESSAGES, st.integers(0, 60)).map(lambda cut: framed(cut[0])[: cut[1]]),
    st.tuples(MESSAGES, st.integers(0, 30)).map(lambda cut: framed(cut[0][: cut[1]])),
)
ANYWHERE = st.sampled_from(PATHS) | st.sampled_from(PATHS).map("/x{}/".format) | st.text(max_size=20)


@given(path=ANYWHERE, body=BODIES)
@example(path="/v1/messages", body=b'{"model":"m","messages":[{"content":[{"type":"text","text":"\\ud800"}]}]}')
@example(path="/generate", body=b'{"input_ids":[1e400]}')
@example(path="/inference/v1/generate", body=b'{"token_ids":[18446744073709551616]}')
@example(path="/vllm.grpc.engine.VllmEngine/Generate", body=framed(field(2, field(2, 2**70))))
@example(path="/vllm.grpc.engine.VllmEngine/Generate", body=framed(field(2, field(2, b"\xff" * 10))))
def test_any_bytes_are_parsed_or_rejected(path: str, body: bytes) -> None:
    assert isinstance(outcome_of(PARSERS, raw_of(path, body)), InferenceRequest | BadRequestError)


@given(path=ANYWHERE, body=BODIES)
def test_the_passthrough_parser_rejects_nothing(path: str, body: bytes) -> None:
    request = PassthroughParser(PassthroughParser.Params()).parse(raw_of(path, body))
    assert (request.path, request.size, request.prompts) == (path, len(body), ())


@given(path=st.sampled_from(PATHS), body=BODIES)
def test_a_request_keeps_its_id_path_method_headers_and_size(path: str, body: bytes) -> None:
    raw = raw_of(path, body, size=7)
    found = outcome_of(PARSERS, raw)
    if isinstance(found, InferenceRequest):
        kept = (found.id, found.path, found.method, found.headers, found.size)
        assert kept == (raw.id, path, "POST", raw.headers, 7)


@given(path=st.sampled_from(PATHS), body=TEXTS)
def test_parsing_is_deterministic(path: str, body: bytes) -> None:
    one, other = (outcome_of(PARSERS, raw_of(path, body)) for _ in range(2))
    assert (type(one), str(one)) == (type(other), str(other))


@pytest.mark.parametrize("path", ["/v2/generate", "/v1/rerank", "", "/"])
def test_the_openai_parser_does_not_fail_at_other_paths(path: str) -> None:
    class Reader:
        def parse(self, raw: Any) -> InferenceRequest:
            return parse_openai(raw)

    body = {"model": "demo", "prompt": "hello"}
    assert isinstance(outcome_of(Reader(), raw_of(path, body)), InferenceRequest | BadRequestError)
