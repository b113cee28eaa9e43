"""Prompts as the bytes that the prefix cache of an engine depends on."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.request import BYTES_PER_TOKEN
from app.parsing.prompts import MEDIA_TOKENS, of_messages, of_text_or_tokens


def content(*parts: Any) -> bytes:
    return of_messages([{"role": "user", "content": list(parts)}])


def test_text_is_part_of_the_prompt_unchanged() -> None:
    assert b"hello" in of_messages([{"role": "user", "content": "hello"}])


@pytest.mark.parametrize("kind", ["text", "input_text", "output_text"])
def test_text_parts_of_every_type_give_their_text(kind: str) -> None:
    assert content({"type": kind, "text": "hello"}) == of_messages([{"role": "user", "content": "hello"}])


def test_a_part_may_be_plain_text() -> None:
    assert content("hello") == content({"type": "text", "text": "hello"})


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"type": "image_url", "image_url": {"url": "data:a"}}, id="image"),
        pytest.param({"type": "input_image", "image_url": "data:a"}, id="image of responses"),
        pytest.param({"type": "input_audio", "input_audio": {"data": "AAAA"}}, id="sound"),
        pytest.param({"type": "file", "file": {"file_id": "f1"}}, id="file"),
        pytest.param({"type": "text", "text": 5}, id="text that is a number"),
        pytest.param(5, id="number"),
        pytest.param(None, id="nothing"),
    ],
)
def test_any_other_part_has_the_size_of_media(part: Any) -> None:
    assert len(content(part)) - len(content("")) == MEDIA_TOKENS * BYTES_PER_TOKEN


def test_an_image_gives_the_digest_of_its_url_in_both_apis() -> None:
    chat = {"type": "image_url", "image_url": {"url": "data:a", "detail": "low"}}
    assert content(chat) == content({"type": "input_image", "image_url": "data:a"})


def test_the_order_of_keys_in_a_part_does_not_matter() -> None:
    assert content({"type": "file", "id": 1}) == content({"id": 1, "type": "file"})


@pytest.mark.parametrize("key", ["tool_calls", "tool_call_id", "name", "arguments", "output"])
def test_other_keys_of_a_message_are_part_of_the_prompt(key: str) -> None:
    assert of_messages([{"role": "tool", key: "x"}]) != of_messages([{"role": "tool"}])


def test_items_without_a_role_differ_by_type() -> None:
    assert of_messages([{"type": "reasoning"}]) != of_messages([{"type": "function_call"}])


@pytest.mark.parametrize("given", [None, {}, 5, 1.5, [], [None], [{}], [1.5]])
def test_anything_else_gives_no_prompt(given: Any) -> None:
    assert of_text_or_tokens(given) == ()


def test_integers_over_64_bits_are_accepted() -> None:
    assert of_messages([{"content": 2**70}]) != of_messages([{"content": 2**71}])
