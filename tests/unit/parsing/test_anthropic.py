"""Messages of the Anthropic API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest
from plugins.parsers.anthropic import AnthropicParser
from tests.unit.parsing.given import raw_of

HELLO: list[Any] = [{"role": "user", "content": "hello"}]


def parse(body: Any, path: str = "/v1/messages") -> InferenceRequest:
    if not isinstance(body, bytes):
        body = {"model": "demo", "messages": HELLO, **body}
    return AnthropicParser().parse(raw_of(path, body))


def prompt_of(**fields: Any) -> bytes:
    (prompt,) = parse(fields).prompts
    return prompt


def test_a_request_keeps_its_id_path_headers_and_size() -> None:
    request = parse({})
    size = len(json.dumps({"model": "demo", "messages": HELLO}))
    assert (request.id, request.path, request.method, request.headers) == ("r1", "/v1/messages", "POST", {"x-a": "1"})
    assert (request.model, request.size, b"hello" in request.prompts[0]) == ("demo", size, True)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param({"stream": True}, "streaming", True, id="streams"),
        pytest.param({"stream": "true"}, "streaming", False, id="stream is no boolean"),
        pytest.param({}, "streaming", False, id="does not say whether it streams"),
        pytest.param({"max_tokens": 1024}, "max_output_tokens", 1024, id="limit"),
        pytest.param({"max_tokens": -1}, "max_output_tokens", None, id="negative limit"),
        pytest.param({"max_tokens": "9"}, "max_output_tokens", None, id="limit as text"),
        pytest.param({}, "max_output_tokens", None, id="no limit"),
        pytest.param({}, "adapter", None, id="no adapter"),
        pytest.param({}, "cache_salt", None, id="no salt"),
    ],
)
def test_a_field_is_read_if_it_has_the_right_type(fields: dict[str, Any], name: str, value: Any) -> None:
    assert getattr(parse(fields), name) == value


def test_a_token_count_request_has_the_same_prompt() -> None:
    fields = {"system": "be kind", "tools": [{"name": "train"}]}
    assert parse(fields, "/v1/messages/count_tokens").prompts == parse(fields).prompts


def test_the_system_prompt_precedes_the_messages() -> None:
    prompt = prompt_of(system="be kind")
    assert prompt.index(b"be kind") < prompt.index(b"hello")


def test_a_system_prompt_as_text_equals_one_as_blocks() -> None:
    block = {"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}
    assert prompt_of(system=[block]) == prompt_of(system="be kind")


def test_content_as_text_equals_content_as_a_block() -> None:
    blocks = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert prompt_of(messages=blocks) == prompt_of()


@pytest.mark.parametrize("system", [pytest.param("", id="empty"), pytest.param([], id="empty list"), None])
def test_an_empty_system_prompt_equals_none(system: Any) -> None:
    assert prompt_of(system=system) == prompt_of()


def test_tools_precede_the_system_prompt() -> None:
    plain, with_tools = prompt_of(system="be kind"), prompt_of(system="be kind", tools=[{"name": "train"}])
    assert (with_tools != plain, with_tools.endswith(plain)) == (True, True)


def test_the_prompt_of_a_longer_chat_starts_with_that_of_a_shorter_one() -> None:
    longer = [*HELLO, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "more"}]
    assert prompt_of(system="be kind", messages=longer).startswith(prompt_of(system="be kind"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {"type": "image", "source": {"data": "AA"}}, {"type": "image", "source": {"data": "BB"}}, id="image"
        ),
        pytest.param(
            {"type": "tool_result", "content": "sun"}, {"type": "tool_result", "content": "rain"}, id="result"
        ),
        pytest.param({"type": "tool_use", "input": {"to": "A"}}, {"type": "tool_use", "input": {"to": "B"}}, id="tool"),
        pytest.param({"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"}, id="thoughts"),
    ],
)
def test_different_blocks_give_different_prompts(one: Any, other: Any) -> None:
    prompts = {prompt_of(messages=[{"role": "user", "content": [block]}]) for block in (one, other)}
    assert len(prompts) == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "not valid JSON", id="empty"),
        pytest.param(b'{"model": "demo"', "not valid JSON", id="truncated"),
        pytest.param(b"[]", "must be a JSON object", id="list"),
        pytest.param(b'{"model": "\xff"}', "not UTF-8", id="invalid UTF-8"),
        pytest.param(b'{"model": "a", "model": "b"}', "duplicate key 'model'", id="model twice"),
        pytest.param({"messages": None}, "'messages' must be .*, found nothing", id="no messages"),
        pytest.param({"messages": []}, "'messages' must be .*, found an empty list", id="empty messages"),
        pytest.param({"messages": "hi"}, "'messages' must be .*, found a string", id="messages as text"),
        pytest.param({"model": None}, "'model' must be .*, found nothing", id="no model"),
        pytest.param({"model": ""}, "'model' must be .*, found an empty string", id="empty model"),
        pytest.param({"model": 5}, "'model' must be .*, found a number", id="model as a number"),
        pytest.param(
            b'{"model":"m","messages":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply", id="too deep"
        ),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_bad_body_is_refused_with_a_reason(path: str, body: Any, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        parse(body, path)


def test_an_error_does_not_echo_the_body() -> None:
    with pytest.raises(BadRequestError) as caught:
        parse({"messages": {"secret": "secret"}})
    assert "secret" not in str(caught.value)
