"""Requests of the OpenAI API: parsing of valid bodies, and errors for invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.parsers import Parsers
from plugins.parsers.openai import OpenAIParser
from plugins.parsers.passthrough import PassthroughParser

CHAT, COMPLETION, EMBEDDING, RESPONSE = PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
)
PARSERS = Parsers(
    [("openai-parser", OpenAIParser()), ("passthrough-parser", PassthroughParser(PassthroughParser.Params()))]
)
HELLO: list[Any] = [{"role": "user", "content": "hello"}]
WORK: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO},
    COMPLETION: {"prompt": "hello"},
    EMBEDDING: {"input": "hello"},
    RESPONSE: {"input": "hello"},
}


def parse(path: str, body: Any, method: str = "POST", **fields: Any) -> InferenceRequest:
    """The request that `body` holds: bytes, or fields to which a model is added."""
    if not isinstance(body, bytes):
        body = json.dumps({"model": "demo", **body}).encode()
    size = fields.get("size", len(body))
    return PARSERS.parse(RawRequest("r1", path, body, method, {"x-a": "1"}, size))


def chat(content: Any, **fields: Any) -> tuple[bytes, ...]:
    return parse(CHAT, {"messages": [{"role": "user", "content": content}], **fields}).prompts


# -- what every request has


@pytest.mark.parametrize("path", PATHS)
def test_a_request_keeps_its_id_path_and_headers(path: str) -> None:
    request = parse(path, WORK[path])
    assert (request.id, request.path, request.method, request.headers) == ("r1", path, "POST", {"x-a": "1"})
    assert (request.model, len(request.prompts), b"hello" in request.prompts[0]) == ("demo", 1, True)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param({"stream": True}, "streaming", True, id="streams"),
        pytest.param({"stream": False}, "streaming", False, id="does not stream"),
        pytest.param({"stream": 1}, "streaming", False, id="stream is no boolean"),
        pytest.param({}, "streaming", False, id="does not say whether it streams"),
        pytest.param({"cache_salt": "tenant"}, "cache_salt", "tenant", id="salt"),
        pytest.param({"cache_salt": ""}, "cache_salt", None, id="empty salt"),
        pytest.param({"cache_salt": 5}, "cache_salt", None, id="salt that is no text"),
        pytest.param({"lora_path": "sql"}, "adapter", "sql", id="adapter"),
        pytest.param({"lora_path": None}, "adapter", None, id="no adapter"),
        pytest.param({"max_tokens": 10}, "max_output_tokens", 10, id="limit"),
        pytest.param({"max_tokens": 9, "max_completion_tokens": 10}, "max_output_tokens", 10, id="newer limit wins"),
        pytest.param({"max_output_tokens": 10}, "max_output_tokens", 10, id="limit of responses"),
        pytest.param({"max_tokens": 0}, "max_output_tokens", 0, id="limit of nothing"),
        pytest.param({"max_tokens": -1}, "max_output_tokens", None, id="negative limit"),
        pytest.param({"max_tokens": True}, "max_output_tokens", None, id="boolean limit"),
        pytest.param({"max_tokens": "10"}, "max_output_tokens", None, id="limit as text"),
        pytest.param({"max_tokens": None}, "max_output_tokens", None, id="limit of null"),
    ],
)
def test_a_field_is_read_if_it_has_the_right_type(path: str, fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(parse(path, {**WORK[path], **fields}), name) == value


def test_the_size_is_that_of_the_received_body() -> None:
    body = json.dumps({"model": "demo", "messages": HELLO}).encode()
    assert (parse(CHAT, body).size, parse(CHAT, body, size=7).size) == (len(body), 7)


@pytest.mark.parametrize("path", PATHS)
def test_a_trailing_slash_is_ignored(path: str) -> None:
    assert parse(f"{path}/", WORK[path]).prompts == parse(path, WORK[path]).prompts


# -- chat


def test_text_equals_a_single_text_part() -> None:
    assert chat("hello") == chat([{"type": "text", "text": "hello"}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("hello", "hallo", id="text"),
        pytest.param("hello", [{"type": "text", "text": "hello"}, {"type": "text", "text": "you"}], id="parts"),
        pytest.param("hello", None, id="no content"),
    ],
)
def test_different_content_gives_a_different_prompt(one: Any, other: Any) -> None:
    assert chat(one) != chat(other)


def test_the_prompt_of_a_longer_chat_starts_with_that_of_a_shorter_one() -> None:
    longer = parse(CHAT, {"messages": [*HELLO, {"role": "assistant", "content": "hi"}]})
    assert longer.prompts[0].startswith(parse(CHAT, WORK[CHAT]).prompts[0])


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([{"role": "system", "content": "hello"}], id="role"),
        pytest.param([*HELLO, *HELLO], id="number of messages"),
        pytest.param([{**HELLO[0], "tool_calls": [{"id": "1"}]}], id="tool calls"),
        pytest.param([{**HELLO[0], "name": "sam"}], id="name"),
    ],
)
def test_different_messages_give_a_different_prompt(messages: list[Any]) -> None:
    assert parse(CHAT, {"messages": messages}).prompts != parse(CHAT, WORK[CHAT]).prompts


def image(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def test_the_same_image_gives_the_same_prompt() -> None:
    assert chat([image("data:a")]) == chat([image("data:a")])


def test_a_different_image_gives_a_different_prompt() -> None:
    assert chat([image("data:a")]) != chat([image("data:b")])


def test_the_order_of_images_matters() -> None:
    assert chat([image("data:a"), image("data:b")]) != chat([image("data:b"), image("data:a")])


def test_an_image_has_a_fixed_size_in_the_prompt() -> None:
    few, many = (parse(CHAT, {"messages": [{"content": [image("data:" + "x" * n)]}]}) for n in (1, 100_000))
    assert few.prompt_tokens == many.prompt_tokens > 200


TOOL = {"type": "function", "function": {"name": "train"}}


def test_tools_precede_the_messages() -> None:
    (plain,), (with_tools,) = chat("hello"), chat("hello", tools=[TOOL])
    assert (with_tools != plain, with_tools.endswith(plain)) == (True, True)


def test_different_tools_give_a_different_prompt() -> None:
    assert chat("hello", tools=[TOOL]) != chat("hello", tools=[{**TOOL, "strict": True}])


@pytest.mark.parametrize("tools", [pytest.param([], id="empty"), pytest.param(None, id="null")])
def test_empty_tools_equal_no_tools(tools: Any) -> None:
    assert chat("hello", tools=tools) == chat("hello")


# -- completions and embeddings


@pytest.mark.parametrize(("path", "key"), [(COMPLETION, "prompt"), (EMBEDDING, "input")])
@pytest.mark.parametrize(
    ("given", "prompts"),
    [
        pytest.param("hello", (b"hello",), id="text"),
        pytest.param(["hello", "you"], (b"hello", b"you"), id="list of texts"),
        pytest.param([1, 258], (b"\x01\0\0\0\x02\x01\0\0",), id="token ids"),
        pytest.param([[1], [2, 3]], (b"\x01\0\0\0", b"\x02\0\0\0\x03\0\0\0"), id="lists of token ids"),
        pytest.param(["", "hello"], (b"", b"hello"), id="an empty text among others"),
        pytest.param([-1], (b"\xff\xff\xff\xff",), id="negative token id"),
        pytest.param([2**32 + 1], (b"\x01\0\0\0",), id="huge token id"),
        pytest.param("é🚂", "é🚂".encode(), id="not in ASCII"),
        pytest.param("a\0b", (b"a\0b",), id="NUL"),
    ],
)
def test_prompts_are_independent(path: str, key: str, given: Any, prompts: Any) -> None:
    expected = prompts if isinstance(prompts, tuple) else (prompts,)
    assert parse(path, {key: given}).prompts == expected


def test_a_completion_may_have_embeddings_instead_of_a_prompt() -> None:
    assert parse(COMPLETION, {"prompt_embeds": "AAAA"}).prompts == ()


def test_an_embedding_request_may_have_a_chat() -> None:
    assert parse(EMBEDDING, {"messages": HELLO}).prompts == parse(CHAT, WORK[CHAT]).prompts


# -- responses


def test_a_text_equals_a_user_message() -> None:
    assert parse(RESPONSE, {"input": "hello"}).prompts == parse(RESPONSE, {"input": HELLO}).prompts


def test_instructions_come_first() -> None:
    (prompt,) = parse(RESPONSE, {"input": "hello", "instructions": "be kind"}).prompts
    assert prompt.index(b"be kind") < prompt.index(b"hello")


def test_response_parts_are_text() -> None:
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]
    assert parse(RESPONSE, {"input": parts}).prompts == parse(RESPONSE, {"input": "hello"}).prompts


def test_tool_output_is_part_of_the_prompt() -> None:
    outputs = ({"type": "function_call_output", "call_id": "1", "output": text} for text in ("sun", "rain"))
    one, other = (parse(RESPONSE, {"input": [item]}).prompts for item in outputs)
    assert one != other


@pytest.mark.parametrize("fields", [{"prompt": {"id": "p1"}}, {"previous_response_id": "r0"}])
def test_a_response_request_may_have_no_input(fields: dict[str, Any]) -> None:
    assert parse(RESPONSE, fields).model == "demo"


# -- unusual text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ud800", id="lone surrogate"),
        pytest.param("\udfff x \ud800", id="two lone surrogates"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("🚂" * 3, id="emoji"),
        pytest.param("\ufeff", id="byte order mark"),
    ],
)
def test_any_text_is_a_prompt(path: str, text: str) -> None:
    fields = json.loads(json.dumps(WORK[path]).replace("hello", json.dumps(text)[1:-1]))
    assert text.encode("utf-8", "surrogatepass") in parse(path, fields).prompts[0]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tools": [{"name": "\ud800"}]}, id="tools"),
        pytest.param({"model": "\ud800"}, id="model"),
        pytest.param({"messages": [{"role": "\ud800", "content": [{"type": "\ud800"}]}]}, id="role and part"),
        pytest.param({"messages": [{"content": "x", "tool_calls": "\ud800"}]}, id="tool calls"),
        pytest.param({"messages": [{"content": [image("\ud800")]}]}, id="image"),
        pytest.param({"messages": ["\ud800", 5, None]}, id="messages that are none"),
    ],
)
def test_a_lone_surrogate_is_accepted_anywhere(fields: dict[str, Any]) -> None:
    assert len(parse(CHAT, {"messages": HELLO, **fields}).prompts) == 1


def test_two_prompts_with_lone_surrogates_differ() -> None:
    assert chat("\ud800") != chat("\ud801")


# -- bad bodies

DEEP = [
    pytest.param(b'{"model":"m","messages":' + b"[" * 100_000, id="open"),
    *[
        pytest.param(b'{"model":"m",%s:' % key + b"[" * n + b"1" + b"]" * n + more + b"}", id=f"{key.decode()} {n}")
        for n in (300, 600, 1000, 1500, 100_000)
        for key, more in (
            (b'"messages"', b""),
            (b'"prompt"', b""),
            (b'"input"', b""),
            (b'"tools"', b',"messages":[{"content":"x"}],"prompt":"x","input":"x"'),
        )
    ],
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", DEEP)
def test_a_deep_body_is_parsed_or_rejected(path: str, body: bytes) -> None:
    outcome = outcome_of(path, body)
    assert isinstance(outcome, InferenceRequest | BadRequestError)


def outcome_of(path: str, body: bytes, method: str = "POST") -> object:
    try:
        return parse(path, body, method)
    except BadRequestError as error:
        return error


HUGE = b"1" * 5000


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "number",
    [pytest.param(HUGE, id="whole"), pytest.param(b"-" + HUGE, id="negative"), pytest.param(b"1e999", id="exp")],
)
def test_a_huge_number_is_parsed_or_rejected(path: str, number: bytes) -> None:
    body = json.dumps({"model": "m", **WORK[path], "tools": [5], "seed": 5}).encode().replace(b"5", number)
    assert isinstance(outcome_of(path, body), InferenceRequest | BadRequestError)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "not valid JSON", id="empty"),
        pytest.param(b"   ", "not valid JSON", id="blank"),
        pytest.param(b'{"model": "demo", ', "not valid JSON: .* at line 1 column", id="truncated"),
        pytest.param(b'{"model": "de', "not valid JSON", id="truncated in a text"),
        pytest.param(b"model=demo", "not valid JSON", id="a form"),
        pytest.param(b"[]", "must be a JSON object, found an empty list", id="empty list"),
        pytest.param(b"[1]", "must be a JSON object, found a list", id="list"),
        pytest.param(b"null", "must be a JSON object, found nothing", id="null"),
        pytest.param(b'"x"', "must be a JSON object, found a string", id="text"),
        pytest.param(b'""', "must be a JSON object, found an empty string", id="empty text"),
        pytest.param(b"5", "must be a JSON object, found a number", id="number"),
        pytest.param(b"true", "must be a JSON object, found a boolean", id="boolean"),
        pytest.param(b'{"model": "\xff"}', "not UTF-8 text", id="invalid UTF-8"),
        pytest.param(b'{"model": "a", "model": "b"}', "duplicate key 'model'", id="model twice"),
        pytest.param(b'{"model": "a", "x": {"model": 1, "model": 2}}', "duplicate key 'model'", id="twice within"),
        pytest.param(b'{"model": "a", "temperature": NaN}', "NaN is not allowed", id="not a number"),
        pytest.param(b'{"model": "a", "temperature": -Infinity}', "-Infinity is not allowed", id="infinity"),
        pytest.param(b"{}", "'model' must be the name of a model, found nothing", id="no model"),
        pytest.param(b'{"model": null}', "'model' must be .*, found nothing", id="model null"),
        pytest.param(b'{"model": ""}', "'model' must be .*, found an empty string", id="model empty"),
        pytest.param(b'{"model": 5}', "'model' must be .*, found a number", id="model a number"),
        pytest.param(b'{"model": ["a"]}', "'model' must be .*, found a list", id="model a list"),
        pytest.param(b'{"model": {}}', "'model' must be .*, found an empty JSON object", id="model an object"),
        pytest.param(b'{"model": false}', "'model' must be .*, found a boolean", id="model a boolean"),
    ],
)
def test_a_malformed_body_is_rejected_with_a_reason(path: str, body: bytes, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        parse(path, body)


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        pytest.param(CHAT, {}, "'messages' must be a list .*, found nothing", id="no messages"),
        pytest.param(CHAT, {"messages": []}, "'messages' must be .*, found an empty list", id="empty messages"),
        pytest.param(CHAT, {"messages": "hi"}, "'messages' must be .*, found a string", id="messages a text"),
        pytest.param(
            CHAT, {"messages": {"a": 1}}, "'messages' must be .*, found a JSON object", id="messages an object"
        ),
        pytest.param(COMPLETION, {}, "'prompt' must be non-empty text.*, found nothing", id="no prompt"),
        pytest.param(COMPLETION, {"prompt": ""}, "'prompt' must be .*, found an empty string", id="empty prompt"),
        pytest.param(COMPLETION, {"prompt": 5}, "'prompt' must be .*, found a number", id="prompt a number"),
        pytest.param(COMPLETION, {"prompt": []}, "'prompt' must be .*, found an empty list", id="prompt an empty list"),
        pytest.param(COMPLETION, {"prompt": {"a": 1}}, "'prompt' must be .*, found a JSON", id="prompt an object"),
        pytest.param(EMBEDDING, {}, "'input' must be non-empty text.*, found nothing", id="no input to embed"),
        pytest.param(EMBEDDING, {"input": []}, "'input' must be .*, found an empty list", id="empty input to embed"),
        pytest.param(EMBEDDING, {"messages": []}, "'messages' must be", id="empty chat to embed"),
        pytest.param(RESPONSE, {}, "'input' must be non-empty text or .*, found nothing", id="no input"),
        pytest.param(RESPONSE, {"input": ""}, "'input' must be .*, found an empty string", id="empty input"),
        pytest.param(RESPONSE, {"input": []}, "'input' must be .*, found an empty list", id="input an empty list"),
        pytest.param(RESPONSE, {"input": 5}, "'input' must be .*, found a number", id="input a number"),
        pytest.param(RESPONSE, {"input": {"a": 1}}, "'input' must be .*, found a JSON object", id="input an object"),
    ],
)
def test_a_body_that_does_not_match_its_path_is_rejected(path: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        parse(path, fields)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"model": "secret-text", "messages": "secret-text"}', id="wrong kind"),
        pytest.param(b'{"model": "secret-text", "messages": ["secret-text"', id="truncated"),
    ],
)
def test_an_error_does_not_echo_the_body(body: bytes) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse(CHAT, body)
    assert "secret" not in str(caught.value)


def test_the_word_model_may_occur_elsewhere() -> None:
    tools = [{"function": {"parameters": {"properties": {"model": {"type": "string"}}}}}]
    assert parse(CHAT, {"messages": [{"role": "user", "content": "model"}], "tools": tools}).model == "demo"


def test_other_duplicate_keys_are_accepted() -> None:
    body = b'{"model": "a", "x": "model", "stream": false, "stream": true, "messages": [{"content": "x"}]}'
    assert parse(CHAT, body).streaming


# -- other paths and methods


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
def test_only_the_body_of_a_post_is_read(path: str, method: str) -> None:
    request = parse(path, b"not JSON", method)
    assert (request.model, request.prompts, request.method, request.size) == ("", (), method, 8)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        pytest.param("/v1/models/demo", "demo", id="name"),
        pytest.param("/v1/models/org/demo", "org/demo", id="name with a slash"),
        pytest.param("/v1/models/org%2Fdemo", "org/demo", id="escaped slash"),
        pytest.param("/v1/models", "", id="the list"),
        pytest.param("/v1/models/%ff%zz", "\ufffd%zz", id="bad escapes"),
        pytest.param("/health", "", id="another path"),
    ],
)
def test_the_path_of_a_model_names_it(path: str, model: str) -> None:
    assert parse(path, b"", "GET").model == model


@pytest.mark.parametrize(
    ("body", "model", "streaming"),
    [
        pytest.param(b'{"model": "demo", "stream": true}', "demo", True, id="model"),
        pytest.param(b' \n{"model": "demo"}', "demo", False, id="blanks before"),
        pytest.param(b'{"model": 5}', "", False, id="model is no text"),
        pytest.param(b"{}", "", False, id="no model"),
        pytest.param(b"", "", False, id="empty"),
        pytest.param(b"[1]", "", False, id="list"),
        pytest.param(b'{"model": "demo"', "", False, id="truncated"),
        pytest.param(b'{"model": "\xff"}', "", False, id="invalid UTF-8"),
        pytest.param(b"\0\xff\xfe", "", False, id="binary"),
    ],
)
def test_model_and_streaming_are_read_at_an_unknown_path_if_possible(body: bytes, model: str, streaming: bool) -> None:
    request = parse("/v1/rerank", body)
    assert (request.model, request.streaming, request.prompts, request.size) == (model, streaming, (), len(body))


# -- anything

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["model", "messages", "prompt", "input", "tools", "instructions", "stream", "max_tokens", "content", "role", "type"]
)
BODIES = st.one_of(
    st.binary(max_size=200),
    JSON.map(json.dumps).map(str.encode),
    st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON))).map(
        lambda fields: json.dumps({"model": "m", **fields}).encode()
    ),
)
ANY_PATH = st.sampled_from([*PATHS, "/v1/rerank", "/v1/models/x", ""]) | st.text(max_size=20)


@given(path=ANY_PATH, body=BODIES, method=st.sampled_from(["POST", "GET"]))
@example(path=CHAT, body=b'{"model":"m","messages":[{}],"tools":[{"n":"\\ud800"}]}', method="POST")
@example(path=COMPLETION, body=b'{"model":"m","prompt":[NaN]}', method="POST")
def test_only_bad_request_errors_are_raised(path: str, body: bytes, method: str) -> None:
    outcome = outcome_of(path, body, method)
    assert isinstance(outcome, InferenceRequest) or path.rstrip("/") in PATHS
